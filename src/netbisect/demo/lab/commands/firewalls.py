"""Commands for kernel modules, pf and ipfw.

The programs of the base system are those of the known-good kernel. A module with changed
structures refuses their requests.
"""

from __future__ import annotations

import re

from netbisect.demo.lab import kernel
from netbisect.demo.lab.commands.clones import KINDS
from netbisect.demo.lab.kernel import NotBootableError
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import ANY_PATH, NOT_FOUND, CommandFailedError, Shell, named

_PF_LINE = re.compile(r"(pass|block|match|scrub|set)\b|#|$")
_IPFW_RULE = re.compile(r"\d+ (allow|accept|pass|permit|deny|drop|count) ")
_IN_KERNEL = {"aesni", "hwpmc", "ipsec", *(f"if_{kind}" for kind in KINDS)}
_UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits(3)."""
_NOT_EXECUTABLE = 126


def kldload(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """`kldload -n NAME`: succeeds if the module is loaded already."""
    name = arguments[-1]
    if name in router.modules or name in _IN_KERNEL:
        if "-n" in arguments:
            return
        raise CommandFailedError(f"kldload: can't load {name}: module already loaded or in kernel")
    try:
        router.load_module(name)
    except NotBootableError:
        raise CommandFailedError(f"kldload: can't load {name}: No such file or directory") from None


def kldunload(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """Unloads a module, with its rules and states."""
    name = arguments[-1]
    if not router.unload_module(name):
        raise CommandFailedError(f"kldunload: can't find file {name}")


def kldstat(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """Lists loaded modules, or one with `-m NAME`."""
    if "-m" in arguments:
        name = arguments[-1]
        if name not in router.modules:
            raise CommandFailedError(
                f"kldstat: can't find module {name}: No such file or directory"
            )
        shell.out(f"Id  Refs Name\n500    1 {name}\n")
        return
    shell.out("Id Refs Address                Size Name\n")
    for number, name in enumerate(["kernel", *(f"{name}.ko" for name in router.modules)], 1):
        shell.out(f"{number:2} {1:4} 0xffffffff{0x80200000 + 0x1000000 * number:x} {0x1F000:8x} ")
        shell.out(f"{name}\n")


def _of_the_base(router: SimulatedRouter, module: str) -> str:
    try:
        return kernel.read(router.path(f"{module}.ko", "/boot/kernel")).spoken
    except NotBootableError:
        return ""


async def pfctl(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`pfctl -q -e`, `-d`, `-F all`, `-f -`."""
    await _pfctl(router, shell, arguments, _of_the_base(router, "pf"))


async def _pfctl(router: SimulatedRouter, shell: Shell, arguments: list[str], spoken: str) -> None:
    rules = (await shell.stdin.read()).decode().splitlines() if "-f" in arguments else []
    walls = router.firewalls
    if "pf" not in walls.loaded:
        raise CommandFailedError("pfctl: /dev/pf: No such file or directory")
    if "-f" in arguments:
        for number, line in enumerate(rules, 1):
            if not _PF_LINE.match(line):
                raise CommandFailedError(
                    f"stdin:{number}: syntax error\n"
                    "pfctl: Syntax error in config file: pf rules not loaded"
                )
        if spoken != router.modules["pf"].spoken:
            raise CommandFailedError("pfctl: DIOCADDRULE: Inappropriate ioctl for device")
        walls.pf_rules = rules
    elif "-F" in arguments:
        walls.pf_rules = []
    else:
        enable = "-e" in arguments
        if walls.pf_enabled == enable:
            state = "already enabled" if enable else "not enabled"
            raise CommandFailedError(f"pfctl: pf {state}")
        walls.pf_enabled = enable


def ipfw(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """`ipfw -q -f flush`, `ipfw -q add RULE`."""
    _ipfw(router, arguments, _of_the_base(router, "ipfw"))


def _ipfw(router: SimulatedRouter, arguments: list[str], spoken: str) -> None:
    words = [word for word in arguments if not word.startswith("-")]
    walls = router.firewalls
    if "ipfw" not in walls.loaded:
        raise CommandFailedError(
            "ipfw: setsockopt(IP_FW_XFLUSH): Protocol not available"
            if words == ["flush"]
            else "ipfw: getsockopt(IP_FW_XADD): Protocol not available",
            _UNAVAILABLE,
        )
    if words == ["flush"]:
        walls.ipfw_rules = []
        return
    rule = " ".join(words[1:])
    if words[0] != "add" or not _IPFW_RULE.match(rule):
        raise CommandFailedError(f"ipfw: bad command `{words[0]} {rule}'", 64)
    if spoken != router.modules["ipfw"].spoken:
        raise CommandFailedError("ipfw: getsockopt(IP_FW_XADD): Invalid argument", _UNAVAILABLE)
    walls.ipfw_rules.append(rule)


async def run_file(router: SimulatedRouter, shell: Shell, words: list[str]) -> int:
    """Runs a program from the disk."""
    path = router.path(words[0])
    if not path.is_file():
        raise CommandFailedError(f"sh: {words[0]}: not found", NOT_FOUND)
    if not path.stat().st_mode & 0o111:
        raise CommandFailedError(f"sh: {words[0]}: Permission denied", _NOT_EXECUTABLE)
    try:
        spoken = kernel.read(path).spoken
    except NotBootableError:
        raise CommandFailedError(f"sh: {words[0]}: Exec format error", _NOT_EXECUTABLE) from None
    if path.name == "pfctl":
        await _pfctl(router, shell, words[1:], spoken)
    elif path.name == "ipfw":
        _ipfw(router, words[1:], spoken)
    else:
        return await shell.execute([path.name, *words[1:]])
    return 0


FIREWALLS = {ANY_PATH: run_file, **named(ipfw, kldload, kldstat, kldunload, pfctl)}
