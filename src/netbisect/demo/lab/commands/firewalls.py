"""Commands on kernel modules, pf and ipfw."""

from __future__ import annotations

import re

from netbisect.demo.lab.kernel import NotBootableError
from netbisect.demo.lab.router import Router
from netbisect.demo.lab.shell import CommandFailedError, Shell

_PF_LINE = re.compile(r"(pass|block|match|scrub|set)\b|#|$")
_IPFW_RULE = re.compile(r"\d+ (allow|accept|pass|permit|deny|drop|count) ")
_UNAVAILABLE = 69
"""EX_UNAVAILABLE of sysexits(3)."""


def kldload(router: Router, _: Shell, arguments: list[str]) -> None:
    """`kldload -n NAME`: nothing to say when it is loaded already."""
    name = arguments[-1]
    if name in router.modules:
        if "-n" in arguments:
            return
        raise CommandFailedError(f"kldload: can't load {name}: module already loaded or in kernel")
    try:
        router.load_module(name)
    except NotBootableError:
        raise CommandFailedError(f"kldload: can't load {name}: No such file or directory") from None


def kldunload(router: Router, _: Shell, arguments: list[str]) -> None:
    """Unloads a module, with its rules and states."""
    name = arguments[-1]
    if not router.unload_module(name):
        raise CommandFailedError(f"kldunload: can't find file {name}")


def kldstat(router: Router, shell: Shell, _: list[str]) -> None:
    """Lists what is loaded."""
    shell.out("Id Refs Address                Size Name\n")
    for number, name in enumerate(["kernel", *(f"{name}.ko" for name in router.modules)], 1):
        shell.out(f"{number:2} {1:4} 0xffffffff{0x80200000 + 0x1000000 * number:x} {0x1F000:8x} ")
        shell.out(f"{name}\n")


async def pfctl(router: Router, shell: Shell, arguments: list[str]) -> None:
    """`pfctl -q -e`, `-d`, `-F all`, `-f -`."""
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
        walls.pf_rules = rules
    elif "-F" in arguments:
        walls.pf_rules = []
    else:
        enable = "-e" in arguments
        if walls.pf_enabled == enable:
            state = "already enabled" if enable else "not enabled"
            raise CommandFailedError(f"pfctl: pf {state}")
        walls.pf_enabled = enable


def ipfw(router: Router, _: Shell, arguments: list[str]) -> None:
    """`ipfw -q -f flush`, `ipfw -q add RULE`."""
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
    walls.ipfw_rules.append(rule)


FIREWALLS = {
    "ipfw": ipfw,
    "kldload": kldload,
    "kldstat": kldstat,
    "kldunload": kldunload,
    "pfctl": pfctl,
}
