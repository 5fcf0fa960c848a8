"""How make is called: the toolchain when it must be, the kernel from what is there already."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.workers.checkout import Checkout
from netbisect.workers.faults import LabFault, build_fault
from netbisect.workers.host import compiler_of, fast_options, takes, version_of
from netbisect.workers.lab import Builder
from netbisect.workers.logged import LoggedCommands
from netbisect.workers.objects import Objects, fingerprint, fingerprint_of

CALLS = 12
"""How often make is called at most for one kernel and the programs that travel with it;
`build_timeout` is the limit of each call."""
_TOOLS = ("Makefile.inc1", "tools/build", "usr.sbin/config", "contrib/elftoolchain")
"""Of the tree: what `kernel-toolchain` is made of, besides the compiler."""
_COMPILER = ("contrib/llvm-project", "contrib/llvm", "lib/clang")
"""The compiler, and the version by which a tree asks for a newer one (FREEBSD_CC_VERSION)."""
_NOT_FOR_KERNELS = (
    "BSNMP",
    "GAMES",
    "ICONV",
    "KERBEROS",
    "LOCALES",
    "RESCUE",
    "TCSH",
    "ZONEINFO",
)
"""Parts of the system whose tools `kernel-toolchain` would make as well; see src.conf(5)."""
_OWN_COMPILER = ("CLANG", "LLD", "LLDB")
"""What it would make tools for, where the host's compiler is used."""
_CONFIG = ("sys/conf", "usr.sbin/config")
"""With the configurations, all that config(8) reads."""
_BROKEN_TESTS = "opt-debug-x-trace"
"""Of bmake, which tests itself when it is built: what newer shells print differs from its book."""
_LEAN = tuple(
    f"WITHOUT_{name}=yes"
    for name in ("CLANG", "LLD", "LLDB", "LIB32", "OPENSSL", "CDDL", "TESTS", "MAN")
)
"""Of a world, what no program that speaks to the kernel's network is linked with."""
_SHUFFLE = "-Wl,--shuffle-sections=.text*={}"
"""LLD's: with the seed, the order of the objects' code; nothing else depends on it."""


class Make:
    """Builds one kernel from a tree that is checked out."""

    def __init__(
        self,
        builder: Builder,
        checkout: Checkout,
        conf: str,
        commands: LoggedCommands,
        say: Callable[[str], None],
        layout: int = 0,
    ) -> None:
        """Nothing is done yet.

        Args:
            builder: where to build.
            checkout: the tree.
            conf: kernel configuration, without overlays.
            commands: runs make, with its output in the build's log.
            say: takes what happens on the way.
            layout: when not 0, the seed of an order in which the linker takes the objects.
        """
        self.builder = builder
        self.checkout = checkout
        self.conf = conf
        self.commands = commands
        self.say = say
        self.layout = layout
        place = builder.directory / ("obj-layout" if layout else "obj")
        self.objects = Objects(place, checkout.tree, builder.arch, conf)

    def kernel(self) -> None:
        """Builds the kernel and its modules.

        What fails among objects of other revisions is made again without them before the revision
        is said not to build.

        Raises:
            LabFault: it cannot be built, or not now.
        """
        self._toolchain()
        mark = self.objects.kernel
        compiler, config = self._compiler_state(), self._config_state()
        known = mark.says(compiler=compiler) and not mark.interrupted
        if known and self.objects.kernel_folders:
            fast = mark.done and mark.says(config=config) and not self.checkout.patched
            if self._buildkernel(compiler, config, fast=fast):
                return
            self.say("it fails; once more without the objects of other revisions")
            self._toolchain(again=True)
            compiler = self._compiler_state()
        mark.begin(compiler=compiler, config=config)
        self.objects.wipe_kernel()
        if not self._buildkernel(compiler, config, fast=False):
            raise self._failed(self.commands.first_error())

    def install(self, stage: Path) -> Path:
        """Installs below the folder `stage`; returns the folder of the kernel.

        Raises:
            LabFault: it cannot be installed.
        """
        self.say(f"installkernel {self.conf}")
        where = [f"DESTDIR={stage}", "KODIR=/boot/kernel"]
        if not self._make("installkernel", *self._kernel_arguments(), *where):
            raise self._failed(self.commands.first_error())
        return stage / "boot" / "kernel"

    def libraries(self) -> None:
        """Builds what programs of the tree are linked with: headers and libraries, not the world.

        Raises:
            LabFault: they cannot be built.
        """
        self.say("toolchain")
        mark = self.objects.toolchain
        mark.begin(of=self._tools_state())  # it makes the kernel's tools too
        jobs = f"-j{self.builder.jobs}"
        well = self._make(jobs, "toolchain", *self._arguments(), *_LEAN, kernel=False)
        mark.end(well=well)
        if not well:
            raise self._failed(f"toolchain: {self.commands.first_error()}")

    def program(self, folder: str) -> Path:
        """Builds one program of the tree, linked statically: the DUT has another libc.

        Args:
            folder: where it is in the tree, such as `sbin/pfctl`.

        Returns:
            The program.

        Raises:
            LabFault: it cannot be built.
        """
        self.say(f"building {folder}")
        place = self.checkout.tree / folder
        shell = f"BUILDENV_SHELL=${{MAKE}} -C {place} NO_SHARED=yes obj all"
        well = self._make("buildenv", *self._arguments(), *_LEAN, shell, kernel=False)
        built = self.objects.folders(f"{folder}/{place.name}")
        if not well or not built:
            why = self.commands.first_error()
            raise self._failed(f"{folder}: {why}")
        return built[0]

    # ----------------------------------------------------------------------------- the stages

    def _buildkernel(self, compiler: str, config: str, *, fast: bool) -> bool:
        mark = self.objects.kernel
        mark.begin(compiler=compiler, config=config)
        kept = "kept" if self.objects.kernel_folders else "none"
        self.say(f"buildkernel {self.conf}, objects: {kept}")
        self.objects.forget_version()
        if self.layout:
            self.objects.forget_links()
        jobs = f"-j{self.builder.jobs}"
        quick = ["KERNFAST=1"] if fast else []
        well = self._make(jobs, "buildkernel", *self._kernel_arguments(), *quick)
        mark.end(well=well)
        return well

    def _toolchain(self, *, again: bool = False) -> None:
        """Makes the tree's tools where there are none, or those of this revision differ.

        Args:
            again: also where they seem to be the same.

        Raises:
            LabFault: they cannot be made.
        """
        of = self._tools_state()
        if self.objects.toolchain.done and self.objects.toolchain.says(of=of) and not again:
            return
        others = self.objects.place.exists() and not self.objects.toolchain.interrupted
        if not others:
            self.objects.wipe()  # also what is left of a wipe that was killed
        if self._make_toolchain(of):
            return
        if others:
            self.say("it fails; once more from nothing")
            self.objects.wipe()
            if self._make_toolchain(of):
                return
        why = f"kernel-toolchain: {self.commands.first_error()}"
        if any(self.builder.kernels.glob("*/")):
            raise self._failed(why)
        raise LabFault.of(
            Fault.BUILDER,
            f"builder {self.builder.name} has built no kernel yet, and cannot build its tools: "
            f"{why}",
        )

    def _make_toolchain(self, of: str) -> bool:
        self.say("kernel-toolchain")
        self.objects.toolchain.begin(of=of)
        jobs = f"-j{self.builder.jobs}"
        parts = [*_NOT_FOR_KERNELS, *(_OWN_COMPILER if self.builder.cross_bindir else ())]
        without = [f"WITHOUT_{part}=yes" for part in parts]
        arguments = [*without, *self._arguments()]
        well = self._make(jobs, "kernel-toolchain", *arguments, kernel=False)
        self.objects.toolchain.end(well=well)
        return well

    # ------------------------------------------------------------------------------ what it is

    def _tools_state(self) -> str:
        """The same for builds that need the same tools."""
        return fingerprint(
            self.checkout.state_of(*_TOOLS),
            self.builder.cross_bindir or self.checkout.state_of(*_COMPILER),
            version_of(compiler_of(self.builder)),
            *self._arguments(),
        )

    def _compiler_state(self) -> str:
        """The same for builds whose objects may be linked with each other."""
        own = self.objects.own_compiler()
        status = None if own is None else own.stat()
        return fingerprint(
            version_of(compiler_of(self.builder)),
            "" if status is None else f"{status.st_size} {status.st_mtime_ns}",
            *self._arguments(),
        )

    def _config_state(self) -> str:
        """The same for builds to which config(8) has the same to say."""
        return fingerprint(
            self.checkout.state_of(*_CONFIG, f"sys/{self.builder.arch}/conf"),
            fingerprint_of(self.checkout.source.kernel_configs),
            *self._kernel_arguments(),
        )

    # ----------------------------------------------------------------------------------- make

    def _make(self, *arguments: str, kernel: bool = True) -> bool:
        """Whether make ended well.

        Args:
            arguments: targets and variables.
            kernel: whether the compiler and the linker of the kernel are called.
        """
        self.objects.place.mkdir(parents=True, exist_ok=True)
        environment = {"MAKEOBJDIRPREFIX": str(self.objects.place)}
        if self.builder.cross_bindir is not None:
            environment["BROKEN_TESTS"] = _BROKEN_TESTS
        if kernel:
            environment |= self._flags()
        command = [*self.builder.make_command, *arguments]
        status = self.commands.run(command, environment, cwd=self.checkout.tree)
        if status is None:
            limit = self.builder.build_timeout
            raise LabFault.of(Fault.BUILD_HANGS, f"the build had not ended after {limit} s")
        return status == 0

    def _failed(self, why: str) -> LabFault:
        """The revision does not build, unless the log says that this host cannot build it."""
        return build_fault(self.commands.said(), why)

    def _flags(self) -> dict[str, str]:
        """For the compiler and the linker; in the environment, where makefiles add to them.

        The names of source files get into kernels (`vn_lock` notes its callers): they are to be
        the same wherever a tree lies, or two builders would make two images of one revision.
        """
        found = {}
        mapped = f"-fmacro-prefix-map={self.checkout.tree.resolve()}=/usr/src"
        own = self.objects.own_compiler()
        if takes(str(own or compiler_of(self.builder)), mapped):
            found["CONF_CFLAGS"] = f"{os.environ.get('CONF_CFLAGS', '')} {mapped}".strip()
        if self.layout:
            # What stands on the command line would replace the makefiles' own; sys.mk takes off
            # `-Wl,` where ld is called by itself.
            flags = [os.environ.get("LDFLAGS", ""), _SHUFFLE.format(self.layout)]
            found["LDFLAGS"] = " ".join(filter(None, flags))
        return found

    def _arguments(self) -> list[str]:
        """Of every call."""
        arch = self.builder.arch
        makefile = self.checkout.tree / "Makefile.inc1"
        old = makefile.is_file() and "MK_CLEAN" not in makefile.read_text(errors="replace")
        return [
            f"TARGET={arch}",
            f"TARGET_ARCH={arch}",
            "WITH_REPRODUCIBLE_BUILD=yes",
            "NO_CLEAN=yes" if old else "WITHOUT_CLEAN=yes",  # before 13 it had no other name
            *fast_options(self.builder.options),
            *self.builder.options,
        ]

    def _kernel_arguments(self) -> list[str]:
        """Of the calls that make or install a kernel; the lab file's own options come last."""
        arguments = [f"KERNCONF={self.conf}"]
        folder = self.checkout.source.kernel_configs
        if folder is not None and (folder / self.conf).is_file():
            arguments.append(f"KERNCONFDIR={folder}")
        modules = self.checkout.tree / "sys" / "modules"
        there = [name for name in self.builder.modules or () if (modules / name).is_dir()]
        if self.builder.modules:
            arguments.append(f"MODULES_OVERRIDE={' '.join(there)}")
        return [*arguments, *self._arguments()]
