"""Commands on boot environments of a root on ZFS."""

from __future__ import annotations

import shutil

from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell


def bectl(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`bectl list -H`, `create NAME`, `mount NAME POINT`, `umount NAME`, `activate -t|-T NAME`."""
    verb, *rest = arguments
    if verb == "list":
        for name in router.environments:
            now = "NR" if name == router.running_environment else "-"
            shell.out(f"{name}\t{now}\t/\t1.2G\t2026-11-01 12:00\n")
        return
    name = rest[-1] if verb == "activate" else rest[0]
    if (name in router.environments) is (verb == "create"):
        raise CommandFailedError(f"{name} does {'' if verb == 'create' else 'not '}exist")
    if verb == "create":
        place = router.place / f"environment-{name}"
        shutil.copytree(router.root, place)
        router.environments[name] = place
    elif verb == "mount":
        if name == router.running_environment:
            raise CommandFailedError(f"failed to mount bootenv {name}: already mounted at /")
        router.mounts[router.clean(rest[1])] = router.environments[name]
    elif verb == "umount":
        points = [one for one, to in router.mounts.items() if to == router.environments[name]]
        if not points:
            raise CommandFailedError(f"failed to unmount bootenv {name}: not mounted")
        del router.mounts[points[0]]
    else:
        router.environment_once = name if rest[0] == "-t" else ""


ENVIRONMENTS = {"bectl": bectl}
