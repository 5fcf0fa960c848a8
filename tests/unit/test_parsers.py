"""Parsers of external input return a value or raise their own exception."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from email import message_from_bytes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netbisect.bisect import commit_trailers, mail_commands
from netbisect.bisect.model.entities import Commit
from netbisect.steps.policy import mail_answers
from netbisect.steps.service import secrets
from netbisect.steps.service.settings import MailSettings
from netbisect.workers.build import identity, patches
from netbisect.workers.config import toml
from netbisect.workers.config.dut import Dut, NanoBsd, PortSelector
from netbisect.workers.config.lab import Ssh
from netbisect.workers.doctor import checks
from netbisect.workers.dut import firewall, freebsd_tools, kernel_folder, ports, running_kernel
from netbisect.workers.dut.nanobsd import NanoBsdBoot
from netbisect.workers.measure import pktgen, profile, telemetry
from netbisect.workers.transport import panic
from netbisect.workers.transport.errors import CommandError, LabFault
from netbisect.workers.transport.ssh import _END, Machine

HASH = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
DIGITS = "9" * 5000
"""More digits than int() accepts."""
ODD = (
    *(b"-1", b"1e999", b"nan", b"\xc2\xb2", DIGITS.encode(), b"null", b"\xed\xa0\x80", b"..", b"/"),
    *(b"%s", b"\0", b"[" * 3000, b'{"a":' * 2000, b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1b]", b"("),
)


class ConstantMachine(Machine):
    """A machine that answers every command with the same text, like a broken or hostile one."""

    def __init__(self, text: str, *, marked: bool = True) -> None:
        super().__init__("dut", Ssh(), Path("socket"), 0)
        self.text, self.marked = text, marked

    @contextlib.contextmanager
    def _running_line(self, line: str, *_: object, **__: object) -> Iterator[Callable[[], str]]:
        marks = line.count(_END) * self.marked
        yield lambda: f"{self.text}{_END}\n" * marks or self.text


def read_pktgen(text: str) -> None:
    for look in (pktgen.crashed, pktgen.complaint, pktgen.ready, pktgen.all_rates):
        look(text)
    for rate in (pktgen.median_rate, pktgen.offered_rate):
        with contextlib.suppress(pktgen.PktGenOutputError):
            rate(text)


def read_console(data: bytes) -> None:
    text = panic.plain(data)
    panic.prompt_in(text)
    panic.console_excerpt(panic.find_panic(text), text)


def read_ports(text: str) -> None:
    found = ports.read_inventory(ConstantMachine(text), [PortSelector(pci="pci0:2:0:0")])
    for port in (
        PortSelector(pci="pci0:2:0:0"),
        PortSelector(mac="00:1b:21:c4:95:7a"),
        PortSelector(interface="igb2"),
    ):
        with contextlib.suppress(ports.PortNotFoundError):
            checks.link(found.find(port), {}, 1_488_095)


def read_running(text: str) -> None:
    running_kernel.read_running_kernel(ConstantMachine(text))
    running_kernel.use_shipped_tools(ConstantMachine(text))


def read_sensors(text: str) -> None:
    values, lines = freebsd_tools.parse_sysctls(text), text.splitlines()
    freebsd_tools.parse_sensors(values)
    freebsd_tools.parse_port("igb2", "active", text, values.values(), overloaded=False)
    freebsd_tools.parse_ps(text)
    freebsd_tools.new_lines(lines[: len(lines) // 2], lines[len(lines) // 3 :])
    look = telemetry._router_look(values, text, text, text)
    telemetry.link_changes(
        telemetry.Snapshot(look), telemetry.Snapshot(look, {"dut": lines}, {"dut": {"igb2"}})
    )


def read_checks(text: str) -> None:
    list(checks.room(text, text, "kernel"))
    checks.route(text, "198.18.0.1", "igb2")
    checks.neighbour(text, "198.18.0.1", "")
    checks.clock(text, 0.0, 1.0)
    checks.netmap(text, text)


def read_partitions(text: str) -> None:
    gpt = NanoBsd("BSDRP1", "BSDRP2")
    dut = Dut(
        "d", PortSelector(interface="a"), PortSelector(interface="b"), deploy="nanobsd", nanobsd=gpt
    )
    connections = SimpleNamespace(machine=lambda _: ConstantMachine(text))
    NanoBsdBoot(dut, connections)._partitions()  # type: ignore[arg-type]  # all it calls


def read_kernel_folder(text: str) -> None:
    place = kernel_folder.BootFolder(ConstantMachine(text), "/boot", 2, "kernel")
    kernel_folder._make_room(place, "kernel.nb-0123456789ab", 0)
    kernel_folder._hashes(text)


def read_counters(text: str) -> None:
    profile._counter(ConstantMachine(text))
    profile.choose(text)


def read_image(data: bytes) -> None:
    for look in (identity.identity_of_file, identity.ident_of, identity.build_id_of):
        look(data)


def as_file(data: bytes, read: Callable[[Path], object]) -> None:
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        file.write(data)
        file.flush()
        read(Path(file.name))


def read_message(text: str) -> None:
    subject, _, body = text.partition("\n")
    one = Commit(HASH, 1, subject, "", "", body, 0.0)
    commit_trailers.merge_status(one, [one], {"stable/15": [one]})


def read_answer(data: bytes) -> None:
    message = message_from_bytes(data)
    mail_answers._authorised_alert(message, MailSettings(("a@b.c",), "a@b.c", answers="reply@b.c"))
    mail_answers._is_automatic(message)
    mail_answers._message_id(message)
    mail_commands.parse(mail_answers._text(message))


def of_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode(errors="replace"))


IFCONFIG = b"""igb2: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
\tether 00:1b:21:c4:95:7a\n\tmedia: Ethernet autoselect (1000baseT <full-duplex,rxpause>)
\tstatus: active\nigb2@pci0:2:0:0:\tclass=0x020000 rev=0x01\ndev.igb.2.%parent=igb2\n"""
SYSCTL = b"""kern.bootfile=/boot/kernel/kernel\nkern.boottime={ sec = 1700000000, usec = 5 } Tue
kern.ident=GENERIC\nFreeBSD 15.0-CURRENT #0 n302145-0a1b2c3d4e5f\nvfs.root.mountfrom="ufs:/dev/da0"
dev.cpu.0.freq=2400\ndev.cpu.0.freq_levels=2401/95000 1200/5000\ndev.cpu.0.temperature=41.0C
dev.igb.2.mac_stats.crc_errs=0\nirq264: igb2:rxq0   12345   12\n   0  0.0 kernel
igb2: link state changed to DOWN\n"""
NETSTAT = b'{"statistics": {"interface": [{"name": "igb2", "received-packets": 1}]}}'
DF = b"""Filesystem 1024-blocks Used Avail Capacity Mounted on\n/dev/ada0p2 ufs 1000 500 420 54% /
   route to: 198.18.0.1\n  interface: igb2
? (198.18.0.1) at 00:1b:21:c4:95:7a on igb2 [ethernet]\n"""
KLDSTAT = (
    b"Id Refs Address Size Name\n 1 45 0xffffffff80200000 1f3e2d0 kernel\n 2 1 0xff 54a30 pf.ko\n"
)
TRAP = b"""Fatal trap 12: page fault while in kernel mode\nfault virtual address\t= 0x28
panic: page fault\ncpuid = 3\ntime = 1700000000\nKDB: stack backtrace:\n#0 0xffffffff at f+0x65
f() at f+0x2b/frame 0xfffffe00\nUptime: 1m2s\n\x1b[1;31mdb>\x1b[0m\n"""
MESSAGE = f"""igb: do less\n\nMFC after:\t2 weeks\nMFC to: stable/14, 13
Fixes: {HASH[:12]} ("igb: do more"), r311849\n(cherry picked from commit {HASH})
MFC r311849, r311850-r311852:\nThis reverts commit {HASH}.\n""".encode()
RATE = b"982.1 main_thread [2277] 968000 pps (970243 pkts 465716640 bps in 1001894 usec) 0 avg\n"
GPART = (
    b"=> 40 9 da0 GPT (15G)\n 40 1 da0p1 (null)\n 1 2 da0p2 BSDRP1 [bootme]\n 3 4 da0p3 BSDRP2\n"
)
ANSWER = b"""From: =?utf-8?q?Ann?= <ann@example.org>\nTo: reply+1.a@b.c\nMIME-Version: 1.0
Content-Type: multipart/alternative; boundary="x"\n\n--x\nContent-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: quoted-printable\n\nack\n--x\nContent-Type: text/html\n\nack\n--x--\n"""
PARSERS: dict[
    str, tuple[Callable[[bytes], object], tuple[type[Exception], ...], tuple[bytes, ...]]
] = {
    "pkt-gen": (of_text(read_pktgen), (), (RATE * 40, b"] Cannot open netmap:x\n")),
    "answer": (read_answer, (mail_commands.MailCommandError,), (ANSWER,)),
    "console": (read_console, (), (TRAP, b"\rOK ", b"mountroot> ")),
    "ifconfig": (of_text(read_ports), (), (IFCONFIG,)),
    "sysctl": (of_text(read_running), (CommandError,), (SYSCTL,)),
    "sensors": (of_text(read_sensors), (), (SYSCTL, NETSTAT, KLDSTAT)),
    "interrupts": (of_text(freebsd_tools.parse_vmstat), (), (SYSCTL,)),
    "doctor": (of_text(read_checks), (), (DF, IFCONFIG)),
    "kldstat": (
        of_text(lambda text: firewall.switch_off(ConstantMachine(text))),
        (CommandError,),
        (KLDSTAT,),
    ),
    "gpart": (of_text(read_partitions), (LabFault,), (GPART,)),
    "df": (
        of_text(read_kernel_folder),
        (CommandError, LabFault),
        (DF, b"F\nd 9 9 9 9% /\nkernel\n"),
    ),
    "pmccontrol": (
        of_text(read_counters),
        (profile.NoProfileError,),
        (b"CORE:\n  cpu_clk_unhalted.thread\n", b"17\n"),
    ),
    "image": (
        read_image,
        (),
        (b"\x7fELF\x02\x01\x01" + 57 * b"\0", b"@(#)FreeBSD 15.0 n1-0a1b GENERIC\0"),
    ),
    "commit message": (of_text(read_message), (), (MESSAGE,)),
    "htpasswd": (
        lambda data: as_file(data, secrets.read_htpasswd),
        (toml.FileError,),
        (b"ann:$2b$04$" + 53 * b"a" + b"\n",),
    ),
}
"""Parser, exceptions that it may raise, and examples of valid input."""


@st.composite
def mutations(draw: Any, examples: tuple[bytes, ...]) -> bytes:
    """An example with parts removed, repeated, replaced or inserted."""
    data: bytes = draw(st.sampled_from(examples))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 40)))
        piece = draw(st.sampled_from((b"", data[start:end], *ODD)) | st.binary(max_size=8))
        data = data[:start] + piece * draw(st.sampled_from((1, 2, 30))) + data[end:]
    return data


@pytest.mark.long
@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_mutated_input_is_parsed_or_rejected(name: str, data: st.DataObject) -> None:
    parse, refusals, examples = PARSERS[name]
    with contextlib.suppress(*refusals):
        parse(data.draw(mutations(examples)))


@pytest.mark.parametrize("name", PARSERS)
def test_examples_are_parsed(name: str) -> None:
    parse, _, examples = PARSERS[name]
    parse(examples[0])


def test_too_long_numbers_are_rejected() -> None:
    """Superscript digits, which str.isdigit() accepts, are rejected as well."""
    for text in (DIGITS, "\N{SUPERSCRIPT TWO}", "-1", ""):
        assert freebsd_tools.parse_count(text) is None
        assert not checks.clock(text, 0, 1).good
    assert freebsd_tools.parse_count(" 17\n") == 17
    assert freebsd_tools.parse_vmstat(
        f"irq1: a   {DIGITS}  1\nirq264: igb2:rxq0  12  3\nTotal 12 3\n"
    ) == {"irq264: igb2:rxq0": 12}
    assert commit_trailers.parse_trailers(f"MFC after: {DIGITS} days").mfc_after is None
    with pytest.raises(patches.PatchError):
        patches.read("D1", f"@@ -1,{DIGITS} +1 @@\n".encode())
    with pytest.raises(CommandError):
        running_kernel.read_running_kernel(
            ConstantMachine(f"kern.bootfile=/k\nkern.boottime={{ sec = {DIGITS}, usec = 1 }}")
        )


def test_missing_answers_of_a_machine_are_reported() -> None:
    """Outputs are not assigned to the wrong commands."""
    with pytest.raises(CommandError, match="answers are missing"):
        ports.read_inventory(
            ConstantMachine("only this", marked=False), [PortSelector(pci="pci0:2:0:0")]
        )
    with pytest.raises(CommandError):
        firewall.switch_off(ConstantMachine("Id Refs\n\n \n"))
