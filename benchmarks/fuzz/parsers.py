"""The parsers that eat what comes from elsewhere, with something of what they are meant to eat.

Each takes bytes, as they come from a wire, and may refuse them by its own errors and no other.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from netbisect.bisect import stacks, trailers, wire
from netbisect.bisect.model import Boot, Commit, Dud, Kernel, Reaction, Stage
from netbisect.reports import api, ministat_input
from netbisect.reports.ministat import Variant
from netbisect.steps import api_bodies, login
from netbisect.steps.wish import WishError
from netbisect.store import netbenches_files
from netbisect.workers import (
    checkup,
    firewall,
    freebsd,
    identity,
    kernel_folder,
    last_words,
    observe,
    panic,
    patches,
    pktgen,
    ports,
    profile,
    running,
    tomlfile,
    userland,
)
from netbisect.workers.deploy_nanobsd import TwoPartitions
from netbisect.workers.faults import CommandError, LabFault
from netbisect.workers.lab import Dut, Lab, NanoBsd, Port, Scenario, Ssh
from netbisect.workers.ssh import _END, Machine

_REVISION = "a" * 40
_GPT = NanoBsd("BSDRP1", "BSDRP2")


@dataclass(frozen=True)
class Parser:
    """One parser, or several that are given the same text."""

    eat: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]
    """By what it may say that this is nothing for it."""
    meals: tuple[bytes, ...]
    """What it is meant to eat, to begin with."""


class Told(Machine):
    """A machine that answers everything with the same text, as a broken or a hostile one might."""

    def __init__(self, data: bytes) -> None:
        super().__init__("dut", Ssh(), Path("socket"))
        self._told = data.decode(errors="replace")

    @contextlib.contextmanager
    def _running_line(
        self, line: str, stdin: bytes | IO[bytes] | None = None, timeout: float | None = None
    ) -> Iterator[Callable[[], str]]:
        del stdin, timeout
        asked = line.count(_END)
        yield lambda: f"{self._told}{_END}\n" * asked if asked else self._told


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


# -------------------------------------------------------------------------------------- workers


def _pktgen(data: bytes) -> None:
    said = _text(data)
    pktgen.crashed(said)
    pktgen.complaint(said)
    pktgen.ready(said)
    pktgen.all_rates(said)
    for rate in (pktgen.sample, pktgen.offered_rate):
        try:
            rate(said)
        except pktgen.NoRateError:
            continue


def _console(data: bytes) -> None:
    said = panic.plain(data)
    found = panic.find_panic(said)
    panic.prompt_in(said)
    last_words.last_words(found, said)


def _ports(data: bytes) -> None:
    found = ports.look(Told(data), [Port(pci="pci0:2:0:0")])
    for port in (Port(pci="pci0:2:0:0"), Port(mac="00:1b:21:c4:95:7a"), Port(interface="igb2")):
        try:
            checkup.link(found.find(port), {}, 1_488_095)
        except ports.NoPortError:
            continue


def _running(data: bytes) -> None:
    found = running.look(Told(data))
    assert found.directory is not None
    assert found.root is not None
    userland.use(Told(data))


def _sensors(data: bytes) -> None:
    said = _text(data)
    values = freebsd.values_in(said)
    freebsd.sensors(values)
    freebsd.port("igb2", "active", said, values, overloaded=False)
    freebsd.programs(said)
    freebsd.interrupts(said)
    lines = said.splitlines()
    freebsd.new_lines(lines[: len(lines) // 2], lines[len(lines) // 3 :])
    look = observe.Seen(_router_look(said), {"dut": lines}, {"dut": {"igb2"}})
    observe.link_changes(observe.Seen(look.look), look)


def _router_look(said: str) -> freebsd.Look:
    return observe._router_look(freebsd.values_in(said), said, said, said)  # noqa: SLF001 - no machine has it alone


def _checkup(data: bytes) -> None:
    said = _text(data)
    list(checkup.room(said, said, "kernel"))
    checkup.route(said, "198.18.0.1", "igb2")
    checkup.neighbour(said, "198.18.0.1", "")
    checkup.clock(said, 0.0, 1.0)
    checkup.netmap(said, said)


def _firewall(data: bytes) -> None:
    firewall.switch_off(Told(data))


def _partitions(data: bytes) -> None:
    dut = Dut("d", Port(interface="a"), Port(interface="b"), deploy="nanobsd", nanobsd=_GPT)
    TwoPartitions(Told(data), _GPT, dut)._partitions()  # noqa: SLF001 - the rest writes


def _room(data: bytes) -> None:
    place = kernel_folder.Place(Told(data), "/boot", 2, "kernel")
    kernel_folder._make_room(place, "kernel.nb-0123456789ab", 0)  # noqa: SLF001 - `put` wants an archive
    kernel_folder._hashes(_text(data))  # noqa: SLF001 - as above


def _profile(data: bytes) -> None:
    profile._counter(Told(data))  # noqa: SLF001 - a boot goes with all that is public
    profile.choose(_text(data))


def _image(data: bytes) -> None:
    identity.identity_of_file(data)
    identity.ident_of(data)
    identity.build_id_of(data)


def _lab(data: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        for kind in (Lab, Scenario):
            try:
                tomlfile.load(Path(file.name), kind)
            except tomlfile.FileError:
                continue


def _patch(data: bytes) -> None:
    found = patches.read("D5180", data)
    assert patches.is_mark(found.mark)
    patches.level_of(found, {"sys", "lib"})


# ---------------------------------------------------------------------------------------- master


def _stacks(data: bytes) -> None:
    found = stacks.read(_text(data))
    again = stacks.read(stacks.folded(found))
    assert stacks.total(again) == stacks.total(found)


def _trailers(data: bytes) -> None:
    message = _text(data)
    trailers.read(message)
    subject, _, body = message.partition("\n")
    one = Commit(_REVISION, 1, subject, "", "", body, 0.0)
    trailers.fate(one, [one], {"stable/15": [one]})


def _wire(data: bytes) -> None:
    assert wire.loads(wire.dumps(wire.loads(_text(data)))) is not None


def _ministat(data: bytes) -> None:
    for variant in Variant:
        ministat_input.read_points(data, "x", variant=variant)


def _netbenches(data: bytes) -> None:
    found = netbenches_files.parsed(_text(data), "x:1")
    list(netbenches_files.images_of(found, "x:1", skip=lambda _: None))


def _body(data: bytes) -> None:
    api_bodies.read(data, api.AskBody)


def _users(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        login.users(Path(file.name))


# ------------------------------------------------------------------------------------ their meals

_RATES = b"".join(
    b"982.%06d main_thread [2277] %d pps (970243 pkts 465716640 bps in 1001894 usec) 0 avg\n"
    % (second, 968_000 + second)
    for second in range(40)
)
_PANIC = b"""Fatal trap 12: page fault while in kernel mode
cpuid = 3; apic id = 03
fault virtual address\t= 0x28
panic: page fault
cpuid = 3
time = 1700000000
KDB: stack backtrace:
#0 0xffffffff80c1d0d5 at kdb_backtrace+0x65
db_trace_self_wrapper() at db_trace_self_wrapper+0x2b/frame 0xfffffe00
#5 0xffffffff810c8d18 at calltrap+0x8
#6 0xffffffff80d4a8b9 at ip_tryforward+0x39
Uptime: 1m2s
\x1b[1;31mdb>\x1b[0m
"""
_IFCONFIG = b"""igb2: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
\tether 00:1b:21:c4:95:7a
\tmedia: Ethernet autoselect (1000baseT <full-duplex,rxpause>)
\tstatus: active
igb2@pci0:2:0:0:\tclass=0x020000 rev=0x01
dev.igb.2.%parent=igb2
"""
_SYSCTLS = b"""kern.bootfile=/boot/kernel/kernel
kern.boottime={ sec = 1700000000, usec = 5 } Tue
kern.ident=GENERIC
FreeBSD 15.0-CURRENT #0 n302145-0a1b2c3d4e5f
vfs.root.mountfrom="ufs:/dev/gpt/root"
dev.cpu.0.freq=2400
dev.cpu.0.freq_levels=2401/95000 2400/95000 1200/5000
dev.cpu.0.temperature=41.0C
dev.cpu.0.coretemp.tjmax=100.0C
dev.igb.2.mac_stats.crc_errs=0
irq264: igb2:rxq0   12345   12
   0  0.0 kernel
 812  3.5 sshd
igb2: link state changed to DOWN
"""
_NETSTAT = (
    b'{"statistics": {"interface": [{"name": "igb2", "network": "<Link#3>", "received-packets": 1,'
    b' "sent-packets": 2, "received-errors": 0, "send-errors": 0}]}}'
)
_KLDSTAT = b"""Id Refs Address                Size Name
 1   45 0xffffffff80200000  1f3e2d0 kernel
 2    1 0xffffffff82140000    54a30 pf.ko
"""
_GPART = b"""=>      40  31277152  da0  GPT  (15G)
        40      1024  da0p1  (null)  (512K)
      1064   2097152  da0p2  BSDRP1  [bootme]  (1.0G)
   2098216   2097152  da0p3  BSDRP2  (1.0G)
"""
_DF = b"""Filesystem 1024-blocks Used Avail Capacity Mounted on
/dev/ada0p2 ufs 1000000 500000 420000 54% /
1700000000
   route to: 198.18.0.1
destination: 198.18.0.0
  interface: igb2
? (198.18.0.1) at 00:1b:21:c4:95:7a on igb2 permanent [ethernet]
"""
_LAB = b"""kernel_space = "20 GB"
[source]
repository = "https://git.freebsd.org/src.git"
[[builders]]
name = "build1"
arch = "amd64"
directory = "/var/build"
[[testbeds]]
name = "c2558"
arch = "amd64"
kernel_config = "GENERIC"
line_rate_pps = 1_488_095
scenarios = ["inet4-forwarding"]
dut = { address = "d", ingress = { interface = "a" }, egress = { mac = "00:1b:21:c4:95:7a" } }
generator = { address = "g", port = { interface = "a" } }
receiver = { address = "g", port = { pci = "pci0:2:0:0" } }
[testbeds.timing]
settle = 5
"""
_SCENARIO = b"""name = "x"
title = "X"
firewall = "pf"
rules = ["pass"]
[sysctls]
"net.inet.ip.redirect" = 0
[traffic]
family = "inet4"
source = "198.18.10.1:2001-198.18.10.20"
destination = "198.19.10.1:2001-198.19.10.100"
"""
_PATCH = b"""diff --git a/sys/net/if.c b/sys/net/if.c
index 0a1b2c3d..4e5f6071 100644
--- a/sys/net/if.c
+++ b/sys/net/if.c
@@ -1,2 +1,3 @@
 a
-b
+c
+d
"""
_CALLGRAPH = b"""@ cpu_clk_unhalted.thread [40 samples]

45.00%  [18]       ip_tryforward @ /boot/kernel/kernel
 100.0%  [18]       ether_demux
  100.0%  [18]       ether_nh_input

55.00%  [22]       igb_rx @ /boot/kernel/if_igb.ko
"""
_MESSAGE = b"""igb: do less

MFC after:\t2 weeks
MFC to: stable/14, 13
Fixes: 0a1b2c3d4e5f ("igb: do more"), r311849
(cherry picked from commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567)
MFC r311849, r311850-r311852:
This reverts commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567.
git-svn-id: svn+ssh://svn.freebsd.org/base/head@311849
"""
_FACTS = tuple(
    wire.dumps(fact).encode()
    for fact in (
        Kernel(_REVISION, "GENERIC", "amd64", "b" * 64, "c" * 64, "n1-0a1b2c3", 1, 0.0, 1.0),
        Boot("d" * 32, "c2558", "b" * 64, _REVISION, 0.0, 40.0),
        Dud("e" * 32, _REVISION, Stage.BOOT, Reaction.SKIP, "it panics", 0.0, 1.0),
    )
)
_HISTORY = (
    b'{"hw": "C2558", "nic": "igb", "dir": "fwd", "cfg": "x", "pktgen": "1",'
    b' "points": [{"rev": 311849, "v": [968409, 970243.5], "release": "12"}]}'
)
_ASK = b'{"kind": "compare", "subjects": ["main~5", "main"], "boots": 10, "why": "so"}'
_USERS = b"ann:$2b$04$" + 53 * b"a" + b"\n\nbob:$2y$12$" + 53 * b"/" + b"\n"

PARSERS = {
    "pkt-gen": Parser(_pktgen, (), (_RATES, b"] Cannot open netmap:x\n")),
    "console": Parser(_console, (), (_PANIC, b"\rOK ", b"mountroot> ")),
    "ifconfig": Parser(_ports, (), (_IFCONFIG,)),
    "sysctl": Parser(_running, (CommandError,), (_SYSCTLS,)),
    "sensors": Parser(_sensors, (), (_SYSCTLS, _NETSTAT, _KLDSTAT)),
    "doctor": Parser(_checkup, (), (_DF, _IFCONFIG)),
    "kldstat": Parser(_firewall, (CommandError,), (_KLDSTAT,)),
    "gpart": Parser(_partitions, (LabFault,), (_GPART,)),
    "df": Parser(
        _room,
        (CommandError, LabFault),
        (_DF, b"F\nd 9 9 9 9% /\nkernel.nb-1\nkernel\n", b"0a1b kernel\n"),
    ),
    "pmccontrol": Parser(
        _profile,
        (profile.NoProfileError,),
        (b"CORE:\n  cpu_clk_unhalted.thread\n", b"17\n"),
    ),
    "image": Parser(
        _image,
        (),
        (b"\x7fELF\x02\x01\x01" + 57 * b"\0", b"@(#)FreeBSD 15.0 n1-0a1b2c3d GENERIC\0"),
    ),
    "lab file": Parser(_lab, (), (_LAB, _SCENARIO)),
    "patch": Parser(
        _patch,
        (patches.PatchError,),
        (_PATCH, b"Index: head/x.c\n--- head/x.c\t(r1)\n+++ head/x.c\t(r2)\n@@ -1 +1 @@\n-a\n+b\n"),
    ),
    "pmcstat": Parser(
        _stacks,
        (stacks.StacksError,),
        (_CALLGRAPH, b"ether_input;ip_tryforward 12\nidle 3\n"),
    ),
    "commit message": Parser(_trailers, (), (_MESSAGE,)),
    "facts": Parser(_wire, (wire.WireError,), _FACTS),
    "ministat": Parser(_ministat, (ValueError,), (b"# x\n1 2\n3.5e2\n0x1p3\ninf\n", b"1\n2\n3\n")),
    "netbenches": Parser(_netbenches, (netbenches_files.NetbenchesError,), (_HISTORY,)),
    "API": Parser(_body, (api_bodies.BodyError, WishError), (_ASK,)),
    "htpasswd": Parser(_users, (tomlfile.FileError,), (_USERS,)),
}
