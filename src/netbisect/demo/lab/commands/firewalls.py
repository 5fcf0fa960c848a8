"""Commands for kernel modules, pf and ipfw.

The programs of the base system are those of the known-good kernel. A module with changed
structures refuses their requests.
"""

from __future__ import annotations

import getopt
import re

from netbisect.demo.lab import kernel
from netbisect.demo.lab.commands.clones import KINDS
from netbisect.demo.lab.kernel import NotBootableError
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import ANY_PATH, NOT_FOUND, CommandFailedError, Shell, named

_PF_LINE = re.compile(r"(pass|block|match|scrub|set|table)\b|#|$")
_IPFW_RULE = re.compile(r"\d+ (allow|accept|pass|permit|deny|drop|count) ")
_IN_KERNEL = {"aesni", "hwpmc", "ipl", "ipsec", *(f"if_{kind}" for kind in KINDS)}
_UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits(3)."""
_NOT_EXECUTABLE = 126


def kldload(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """`kldload -n NAME`: succeeds if the module is loaded already."""
    name = arguments[-1]
    if name in router.modules or name in _IN_KERNEL:
        router.firewalls.loaded.add(name)
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
    walls = router.firewalls
    if name in _IN_KERNEL & walls.loaded:
        walls.loaded.discard(name)
        walls.ipf_rules = []
    elif not router.unload_module(name):
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


async def pfctl(
    router: SimulatedRouter, shell: Shell, arguments: list[str], spoken: str | None = None
) -> None:
    """`pfctl -q -e`, `-d`, `-F all`, `-f -`, `-T add -f -`, `-T test ...`, `-s rules|info`.

    `spoken` is as in `LoadedImage`, by default that of the base system.
    """
    spoken = _of_the_base(router, "pf") if spoken is None else spoken
    found, words = getopt.getopt(arguments, "dF:ef:o:qs:T:t:v")
    options = dict(found)
    rules = (await shell.stdin.read()).decode().splitlines() if "-f" in options else []
    walls = router.firewalls
    if "pf" not in walls.loaded:
        raise CommandFailedError("pfctl: /dev/pf: No such file or directory")
    if "-s" in options:
        shown = {
            "rules": [rule for rule in walls.pf_rules if rule.startswith(("block", "pass"))],
            "info": [f"  current entries {walls.states('pf'):>22}"],
        }
        shell.out("".join(f"{line}\n" for line in shown[options["-s"]]))
    elif "-T" in options:
        _pf_table(router, spoken, rules, words if options["-T"] == "test" else [])
    elif "-f" in options:
        for number, line in enumerate(rules, 1):
            if not _PF_LINE.match(line):
                raise CommandFailedError(
                    f"stdin:{number}: syntax error\n"
                    "pfctl: Syntax error in config file: pf rules not loaded"
                )
        _must_match(router, spoken)
        walls.pf_rules = rules
    elif "-F" in options:
        walls.pf_rules = []
        walls.addresses.pop("pf", None)
    else:
        enable = "-e" in options
        if walls.pf_enabled == enable:
            state = "already enabled" if enable else "not enabled"
            raise CommandFailedError(f"pfctl: pf {state}")
        walls.pf_enabled = enable


def _pf_table(router: SimulatedRouter, spoken: str, added: list[str], tested: list[str]) -> None:
    _must_match(router, spoken)
    table = router.firewalls.addresses.setdefault("pf", set())
    table.update(added)
    if not table.issuperset(tested):
        raise CommandFailedError("", status=2)


def _must_match(router: SimulatedRouter, spoken: str) -> None:
    if spoken != router.modules["pf"].spoken:
        raise CommandFailedError("pfctl: DIOCADDRULE: Inappropriate ioctl for device")


async def ipfw(
    router: SimulatedRouter, shell: Shell, arguments: list[str], spoken: str | None = None
) -> None:
    """`ipfw -q COMMAND`, or `ipfw -q /dev/stdin` with commands; `spoken` as of `pfctl`."""
    spoken = _of_the_base(router, "ipfw") if spoken is None else spoken
    lines = [arguments]
    if arguments[-1] == "/dev/stdin":
        lines = [line.split() for line in (await shell.stdin.read()).decode().splitlines()]
    for words in lines:
        _ipfw(router, shell, words, spoken)


def _ipfw(router: SimulatedRouter, shell: Shell, arguments: list[str], spoken: str) -> None:
    """`-f flush`, `add RULE`, `delete NUMBER`, `list`, `table NAME create|add|info|destroy`."""
    words = [word for word in arguments if not word.startswith("-")]
    walls = router.firewalls
    if "ipfw" not in walls.loaded:
        raise CommandFailedError(
            "ipfw: setsockopt(IP_FW_XFLUSH): Protocol not available"
            if words == ["flush"]
            else "ipfw: getsockopt(IP_FW_XADD): Protocol not available",
            _UNAVAILABLE,
        )
    if words[0] == "table":
        _ipfw_table(router, shell, words)
        return
    if words[0] == "list":
        shell.out("".join(f"{rule}\n" for rule in walls.ipfw_rules))
        return
    if words[0] in ("flush", "delete"):
        rest = [one for one in walls.ipfw_rules if words[1:] and one.split()[0] != words[1]]
        walls.ipfw_rules = rest
        return
    rule = " ".join(words[1:])
    if words[0] != "add" or not _IPFW_RULE.match(rule):
        raise CommandFailedError(f"ipfw: bad command `{words[0]} {rule}'", 64)
    if spoken != router.modules["ipfw"].spoken:
        raise CommandFailedError("ipfw: getsockopt(IP_FW_XADD): Invalid argument", _UNAVAILABLE)
    walls.ipfw_rules.append(rule)


def _ipfw_table(router: SimulatedRouter, shell: Shell, words: list[str]) -> None:
    tables, name, action = router.firewalls.addresses, words[1], words[2]
    if action == "create":
        tables["ipfw"] = set()
    elif "ipfw" not in tables:
        raise CommandFailedError("ipfw: failed to request table info: No such process", 71)
    elif action == "add":
        tables["ipfw"].add(words[3])
    elif action == "info":
        shell.out(f"--- table({name}), set(0) ---\n items: {len(tables['ipfw'])}, size: 296\n")
    elif any(f"table({name})" in rule for rule in router.firewalls.ipfw_rules):
        raise CommandFailedError(f"ipfw: failed to destroy table {name}: Device busy", 71)
    else:
        del tables["ipfw"]


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
    program = {"pfctl": pfctl, "ipfw": ipfw}.get(path.name)
    if program is None:
        return await shell.execute([path.name, *words[1:]])
    await program(router, shell, words[1:], spoken)
    return 0


FIREWALLS = {ANY_PATH: run_file, **named(ipfw, kldload, kldstat, kldunload, pfctl)}
