"""Commands for the running system and its reboot."""

from __future__ import annotations

import re
import time

from netbisect.demo.lab.machine import SimulatedMachine
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell, named

_WRITABLE = ("kern.hwpmc.mincount", "kern.random.harvest.mask")
"""Writable ones of those below kern and hw."""
_OF_ALL_PORTS = re.compile(r"dev\.(em|igb)\.\d+\.fc")
"""They show the value that was set last: `input` of em_set_flowcntl() is static."""


def _sysctls(machine: SimulatedMachine) -> dict[str, str]:
    second, micro = divmod(round(machine.boottime * 1e6), 1_000_000)
    return {
        **machine.sysctls,
        **machine.sensors(),
        "kern.bootfile": machine.bootfile,
        "kern.boottime": f"{{ sec = {second}, usec = {micro} }} {time.ctime(second)}",
    }


def sysctl(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> int:
    """Shows and sets values: `sysctl [-n] [-ie] NAME[=VALUE] ...`.

    A name that others begin with stands for all of them; `-i` is silent on names that are not
    there, `-e` prints with an equals sign.
    """
    options = "".join(argument[1:] for argument in arguments if argument.startswith("-"))
    bare = "n" in options
    joint = "=" if "e" in options else ": "
    status = 0
    for argument in arguments:
        if argument.startswith("-"):
            continue
        name, equals, value = argument.partition("=")
        known = _sysctls(machine)
        below = {one: text for one, text in known.items() if one.startswith(f"{name}.")}
        if below:
            shell.out("".join(f"{one}{joint}{text}\n" for one, text in below.items()))
            continue
        if name not in known:
            if "i" in options:
                continue
            shell.err(f"sysctl: unknown oid '{name}'\n")
            status = 1
            continue
        if equals and name == "kern.hz":
            shell.err(f"sysctl: oid '{name}' is a read only tunable\n")
            raise CommandFailedError("sysctl: Tunable values are set in /boot/loader.conf")
        if equals and name.startswith(("kern.", "hw.")) and name not in _WRITABLE:
            shell.err(f"sysctl: oid '{name}' is read only\n")
            status = 1
            continue
        text = known[name]
        if equals:
            shared = _OF_ALL_PORTS.fullmatch(name)
            names = filter(_OF_ALL_PORTS.fullmatch, known) if shared else [name]
            machine.sysctls |= dict.fromkeys(names, value)
            text += f" -> {value}"
        shell.out(f"{text}\n" if bare else f"{name}{joint}{text}\n")
    return status


def uname(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`uname -v`, `uname -r`."""
    version = machine.version
    shell.out(f"{version.split()[1] if arguments == ['-r'] else version}\n")


def kenv(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """Shows the kernel environment, or sets a variable; `-q` for no message."""
    quiet = arguments[:1] == ["-q"]
    arguments = arguments[quiet:]
    if not arguments:
        shown = sorted(machine.environment.items())
    else:
        name, equals, value = arguments[0].partition("=")
        if equals:
            machine.environment[name] = value
        elif name not in machine.environment:
            raise CommandFailedError("" if quiet else f"kenv: unable to get {name}", status=255)
        else:
            shell.out(f"{machine.environment[name]}\n")
            return
        shown = [(name, machine.environment[name])]
    shell.out("".join(f'{name}="{value}"\n' for name, value in shown))


def date(machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`date +%s`, the time of the lab; `date -u +%s`, the real one."""
    shell.out(f"{time.time() if '-u' in arguments else machine.clock.now():.0f}\n")


def nextboot(router: SimulatedRouter, _shell: Shell, arguments: list[str]) -> None:
    """`nextboot -e NAME=VALUE -k KERNEL`, `nextboot -D`, as of FreeBSD 15.

    With a root on ZFS the label of the pool enables the file, and keeps that after `-D`.
    """
    place = router.path("nextboot.conf", "/boot")
    if router.read_only("nextboot.conf", "/boot"):
        raise CommandFailedError("nextboot: /boot/nextboot.conf: Read-only file system")
    if arguments == ["-D"]:
        if not place.exists():
            raise CommandFailedError("nextboot: unlink: No such file or directory")
        place.unlink()
        return
    lines = [] if router.environments else ['nextboot_enable="YES"']
    for option, value in zip(arguments[::2], arguments[1::2], strict=True):
        if option == "-k" and not router.path(value, "/boot").is_dir():
            raise CommandFailedError(f"Error: /boot/{value} doesn't exist. Use -f to override.")
        setting = f"kernel={value}" if option == "-k" else value
        name, _, text = setting.partition("=")
        lines.append(f'{name}="{text}"')
    place.write_text("\n".join(lines) + "\n")
    router.labelled = bool(router.environments)


def shutdown(router: SimulatedRouter, shell: Shell, _: list[str]) -> None:
    """`shutdown -r now`: answers, then reboots."""
    shell.out("Shutdown NOW!\nshutdown: [pid 1742]\n")
    router.reboot()


def dumpon(_router: SimulatedRouter, _shell: Shell, arguments: list[str]) -> None:
    """`dumpon off`."""
    if arguments != ["off"]:
        raise CommandFailedError("usage: dumpon off")


def watchdogd(_router: SimulatedRouter, _shell: Shell, _arguments: list[str]) -> None:
    """`watchdogd -t SECONDS`, of a machine without a watchdog."""
    raise CommandFailedError("watchdogd: patting the dog: Operation not supported")


def dmesg(machine: SimulatedMachine, shell: Shell, _: list[str]) -> None:
    """Kernel messages."""
    shell.out("".join(f"{message}\n" for message in machine.messages))


SYSTEM = named(date, dmesg, kenv, sysctl, uname)
START = named(dumpon, nextboot, shutdown, watchdogd)
