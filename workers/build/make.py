"""Calls make: toolchain if needed, kernel on existing objects."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.build_host import accepts_flag, compiler_of, fast_options, version_of
from netbisect.workers.build.checkout import Checkout
from netbisect.workers.build.objects import Objects, fingerprint, fingerprint_of
from netbisect.workers.transport.errors import LabFault, build_fault

CALLS = 12
"""Maximal calls of make per kernel with its programs; each has the limit `build_timeout`."""
_TOOLS = ("Makefile.inc1", "tools/build", "usr.sbin/config", "contrib/elftoolchain")
"""Sources of `kernel-toolchain` besides the compiler."""
_COMPILER = ("contrib/llvm-project", "contrib/llvm", "lib/clang")
"""The compiler and its required version (FREEBSD_CC_VERSION)."""
_NOT_FOR_KERNELS = (
    *("BSNMP", "GAMES", "ICONV", "KERBEROS", "LOCALES", "RESCUE", "TCSH", "ZONEINFO"),
)
"""Parts of the system without use for kernels; see src.conf(5)."""
_OWN_COMPILER = ("CLANG", "LLD", "LLDB", "LLVM_BINUTILS")
"""Tools that a host compiler replaces."""
_CONFIG = ("sys/conf", "usr.sbin/config")
"""Sources of config(8)'s input, besides the configurations."""
_BROKEN_TESTS = "opt-debug-x-trace cmd-interrupt"
"""Self-tests of bmake that fail with newer shells, and where SIGINT is ignored, as in a background
job of sh(1)."""
_NOT_FOR_PROGRAMS = ("CLANG", "LLD", "LLDB", "LIB32", "OPENSSL", "CDDL", "TESTS", "MAN")
"""Parts of the world that network programs do not link with."""
_SHUFFLE = "-Wl,--shuffle-sections=.text*={}"
"""LLD option for a shuffled layout."""


class Make:
    """Builds one kernel from a work tree."""

    def __init__(self, checkout: Checkout, conf: str, layout: int = 0) -> None:
        """Prepares a build of a configuration without overlays.

        `layout` is the seed of a shuffled link order, or 0.
        """
        self.checkout = checkout
        self.conf = conf
        self.commands = checkout.commands
        self.builder = builder = checkout.commands.builder
        self.layout = layout
        place = builder.directory / ("obj-layout" if layout else "obj")
        self.objects = Objects(place, checkout.tree, builder.arch, conf)

    def kernel(self) -> None:
        """Builds the kernel and its modules.

        After a failure the build is repeated without old objects.

        Raises:
            LabFault: build failure.
        """
        if self.objects.from_future:
            self.commands.say("the clock was set back: building without earlier objects")
            self.objects.wipe()
        self._toolchain()
        mark = self.objects.kernel
        compiler, config = self._compiler_state(), self._config_state()
        known = mark.says(compiler=compiler) and not mark.interrupted
        if known and self.objects.kernel_folders:
            fast = mark.done and mark.says(config=config) and not self.checkout.patched
            if self._buildkernel(compiler, config, fast=fast):
                return
            self.commands.say("the build failed; retrying without the objects of other revisions")
            self._toolchain(again=True)
            compiler = self._compiler_state()
        mark.begin(compiler=compiler, config=config)
        self.objects.wipe_kernel()
        if not self._buildkernel(compiler, config, fast=False):
            raise self._failed()

    def install(self, stage: Path) -> Path:
        """Installs below `stage`; returns the kernel's folder.

        Raises:
            LabFault: failure.
        """
        self.commands.say(f"installkernel {self.conf}")
        where = [f"DESTDIR={stage}", "KODIR=/boot/kernel"]
        where += ["NO_ROOT=yes"] if os.geteuid() else []  # install(1) changes owners
        if not self._make("installkernel", *self._kernel_arguments(), *where):
            raise self._failed()
        return stage / "boot" / "kernel"

    def libraries(self) -> None:
        """Builds headers and libraries for programs of the tree.

        Raises:
            LabFault: build failure.
        """
        self.commands.say("toolchain")
        mark = self.objects.toolchain
        mark.begin(of=self._tools_state())  # it makes the kernel's tools too
        well = self._make(
            "toolchain",
            *self._arguments(),
            *self._without(_NOT_FOR_PROGRAMS),
            kernel=False,
            jobs=True,
        )
        mark.end(well=well)
        if not well:
            raise self._failed("toolchain: ")

    def program(self, folder: str) -> Path:
        """Builds a statically linked program, as the DUT has another libc; returns its path.

        Args:
            folder: Its folder in the tree, such as `sbin/pfctl`.

        Raises:
            LabFault: build failure.
        """
        self.commands.say(f"building {folder}")
        place = self.checkout.tree / folder
        shell = f"BUILDENV_SHELL=${{MAKE}} -C {place} NO_SHARED=yes obj all"
        well = self._make(
            "buildenv", *self._arguments(), *self._without(_NOT_FOR_PROGRAMS), shell, kernel=False
        )
        built = self.objects.folders(f"{folder}/{place.name}")
        if not well or not built:
            raise self._failed(f"{folder}: ")
        return built[0]

    # ----------------------------------------------------------------------------- the stages

    def _buildkernel(self, compiler: str, config: str, *, fast: bool) -> bool:
        mark = self.objects.kernel
        mark.begin(compiler=compiler, config=config)
        kept = "kept" if self.objects.kernel_folders else "none"
        self.commands.say(f"buildkernel {self.conf}, objects: {kept}")
        self.objects.forget_version()
        if self.layout:
            self.objects.forget_links()
        quick = ["KERNFAST=1"] if fast else []
        well = self._make("buildkernel", *self._kernel_arguments(), *quick, jobs=True)
        mark.end(well=well)
        return well

    def _toolchain(self, *, again: bool = False) -> None:
        """Builds the tree's tools if they are missing or outdated, or in any case if `again`.

        Raises:
            LabFault: build failure.
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
            self.commands.say("the build failed; retrying from scratch")
            self.objects.wipe()
            if self._make_toolchain(of):
                return
        what = "kernel-toolchain: "
        if any(self.builder.kernels.glob("*/")):
            raise self._failed(what)
        who = f"builder {self.builder.name} has built no kernel yet, and cannot build its tools"
        raise LabFault(Fault.BUILDER, f"{who}: {what}{self.commands.first_error()}")

    def _make_toolchain(self, of: str) -> bool:
        self.commands.say("kernel-toolchain")
        self.objects.toolchain.begin(of=of)
        arguments = [*self._without(_NOT_FOR_KERNELS), *self._arguments()]
        well = self._make("kernel-toolchain", *arguments, kernel=False, jobs=True)
        self.objects.toolchain.end(well=well)
        return well

    def _without(self, parts: Sequence[str]) -> list[str]:
        """Options to leave out these parts, and what a host compiler replaces."""
        own = _OWN_COMPILER if self.builder.cross_bindir else ()
        return [f"WITHOUT_{part}=yes" for part in dict.fromkeys((*parts, *own))]

    # ------------------------------------------------------------------------------ what it is

    def _tools_state(self) -> str:
        """Fingerprint of the required tools."""
        return fingerprint(
            self.checkout.state_of(*_TOOLS),
            self.builder.cross_bindir or self.checkout.state_of(*_COMPILER),
            version_of(compiler_of(self.builder)),
            *self._arguments(),
        )

    def _compiler_state(self) -> str:
        """Fingerprint of the compiler; equal ones allow old objects."""
        own = self.objects.own_compiler()
        status = None if own is None else own.stat()
        return fingerprint(
            version_of(compiler_of(self.builder)),
            "" if status is None else f"{status.st_size} {status.st_mtime_ns}",
            *self._arguments(),
        )

    def _config_state(self) -> str:
        """Fingerprint of config(8)'s input."""
        return fingerprint(
            self.checkout.state_of(*_CONFIG, f"sys/{self.builder.arch}/conf"),
            fingerprint_of(self.checkout.source.kernel_configs),
            *self._kernel_arguments(),
        )

    # ----------------------------------------------------------------------------------- make

    def _make(self, *arguments: str, kernel: bool = True, jobs: bool = False) -> bool:
        """Runs make with targets and variables; returns whether it succeeded.

        `kernel` is whether compiler and linker of kernels are used, `jobs` whether several
        processors are.
        """
        self.objects.place.mkdir(parents=True, exist_ok=True)
        environment = {"MAKEOBJDIRPREFIX": str(self.objects.place)}
        if "CCACHE_DIR" not in os.environ and not os.access(os.environ.get("HOME", "/"), os.W_OK):
            # Services of rc(8) have HOME=/, and ccache fails without its folder.
            environment["CCACHE_DIR"] = str(self.builder.directory / "ccache")
        if self.builder.cross_bindir is not None:
            environment["BROKEN_TESTS"] = _BROKEN_TESTS
        if kernel:
            environment |= self._flags()
        command = [*self.builder.make_command, *([f"-j{self.builder.jobs}"] if jobs else [])]
        status = self.commands.run([*command, *arguments], environment, cwd=self.checkout.tree)
        if status is None:
            limit = self.builder.build_timeout
            raise LabFault(Fault.BUILD_HANGS, f"the build had not ended after {limit} s")
        return status == 0

    def _failed(self, what: str = "") -> LabFault:
        """The fault of a failed build: the revision's, or the host's if the log shows that."""
        return build_fault(self.commands.last_output(), f"{what}{self.commands.first_error()}")

    def _flags(self) -> dict[str, str]:
        """Compiler and linker flags in the environment, where makefiles add to them.

        Source paths get into kernels (`vn_lock`); they must not depend on the builder.
        """
        found = {}
        mapped = f"-fmacro-prefix-map={self.checkout.tree.resolve()}=/usr/src"
        own = self.objects.own_compiler()
        if accepts_flag(str(own or compiler_of(self.builder)), mapped):
            found["CONF_CFLAGS"] = f"{os.environ.get('CONF_CFLAGS', '')} {mapped}".strip()
        if self.layout:
            # What stands on the command line would replace the makefiles' own; sys.mk takes off
            # `-Wl,` where ld is called by itself.
            flags = [os.environ.get("LDFLAGS", ""), _SHUFFLE.format(self.layout)]
            found["LDFLAGS"] = " ".join(filter(None, flags))
        return found

    def _arguments(self) -> list[str]:
        """Arguments of every call."""
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
        """Arguments for kernel targets; options of the lab file come last."""
        arguments = [f"KERNCONF={self.conf}"]
        folder = self.checkout.source.kernel_configs
        if folder is not None and (folder / self.conf).is_file():
            arguments.append(f"KERNCONFDIR={folder}")
        modules = self.checkout.tree / "sys" / "modules"
        there = [name for name in self.builder.modules or () if (modules / name).is_dir()]
        if self.builder.modules:
            arguments.append(f"MODULES_OVERRIDE={' '.join(there)}")
        return [*arguments, *self._arguments()]
