"""Commands on a disk with two root partitions."""

from __future__ import annotations

from netbisect.demo.lab.partitions import DISK, DiskPartition
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell


def _by_device(router: SimulatedRouter, command: str, device: str) -> DiskPartition:
    for partition in router.partitions:
        if device == f"/dev/gpt/{partition.label}":
            return partition
    raise CommandFailedError(f"{command}: {device}: No such file or directory")


def mount(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """`mount -uw /`, `mount -ur /`, `mount DEVICE FOLDER`."""
    if arguments in (["-uw", "/"], ["-ur", "/"]):
        router.root_writable = arguments[0] == "-uw"
        return
    device, point = arguments
    partition = _by_device(router, "mount", device)
    if partition is router.booted:
        raise CommandFailedError(f"mount: {device}: Device busy")
    if not router.path(point).is_dir():
        raise CommandFailedError(f"mount: {point}: No such file or directory")
    router.mounts[router.clean(point)] = partition.folder


def umount(router: SimulatedRouter, _: Shell, arguments: list[str]) -> None:
    """`umount FOLDER`."""
    if router.mounts.pop(router.clean(arguments[0]), None) is None:
        raise CommandFailedError(f"umount: {arguments[0]}: not a file system root directory")


def fsck_ffs(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`fsck_ffs -p DEVICE`."""
    device = arguments[-1]
    _by_device(router, "fsck_ffs", device)
    shell.out(f"{device}: FILE SYSTEM CLEAN; SKIPPING CHECKS\n")


def gpart(router: SimulatedRouter, shell: Shell, arguments: list[str]) -> None:
    """`gpart show -lp`, `gpart set|unset -a ATTRIBUTE -i INDEX DISK`."""
    if arguments == ["show", "-lp"]:
        shell.out(f"=>       40  31277152    {DISK}  GPT  (15G)\n")
        shell.out(f"         40      1024  {DISK}p1  efiboot0  (512K)\n")
        for one in router.partitions:
            attributes = "".join(
                f"  [{','.join(sorted(one.attributes))}]" if one.attributes else ""
            )
            shell.out(
                f"    {2048 * one.index:7}   4194304  {DISK}p{one.index}  {one.label}{attributes}"
            )
            shell.out("  (2.0G)\n")
        return
    verb, _, attribute, _, index, disk = arguments
    found = [one for one in router.partitions if (disk, index) == (DISK, str(one.index))]
    if not found:
        raise CommandFailedError(f"gpart: index '{index}': No such file or directory")
    if verb == "set":
        found[0].attributes |= {attribute, *(["bootme"] if attribute == "bootonce" else [])}
    else:
        found[0].attributes.discard(attribute)
    shell.out(f"{attribute} {verb} on {disk}p{index}\n")


DISKS = {"fsck_ffs": fsck_ffs, "gpart": gpart, "mount": mount, "umount": umount}
