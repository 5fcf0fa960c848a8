"""What comes from machines and from people: whatever it is, it is read or refused, and soon."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # benchmarks/ is run from the checkout, and not installed

from benchmarks.fuzz import __main__ as command  # noqa: E402 - see above
from benchmarks.fuzz import judge, modules, parsers  # noqa: E402 - see above
from netbisect.bisect import stacks, trailers, wire  # noqa: E402 - see above
from netbisect.bisect.stacks import StacksError  # noqa: E402 - see above
from netbisect.store.netbenches_files import NetbenchesError, parsed  # noqa: E402 - see above
from netbisect.workers import (  # noqa: E402 - see above
    checkup,
    firewall,
    freebsd,
    patches,
    pktgen,
    ports,
    running,
    tomlfile,
)
from netbisect.workers.faults import CommandError  # noqa: E402 - see above
from netbisect.workers.lab import Lab, Port  # noqa: E402 - see above

NAMES = list(parsers.PARSERS)
SECONDS = 10.0
"""Of processor time, in which a search that takes n * n steps for 100 kB does not end."""
DIGITS = "9" * 5000
"""More than Python makes a number of."""


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_sent_is_read_or_refused(name: str) -> None:
    """A seeded hundred of inputs; `python -m benchmarks.fuzz` looks for more of them."""
    parser = parsers.PARSERS[name]
    luck = random.Random(name)

    for meal in parser.meals:
        assert judge.fault(parser, meal, SECONDS) == ""
    for data in islice(judge.changed(parser.meals, luck), 200):
        assert judge.fault(parser, data, SECONDS) == "", data
    for data in islice(judge.stretched(parser.meals, 100_000, luck), 15):
        assert judge.fault(parser, data, SECONDS) == "", data[:200]


def test_every_parser_has_modules_that_are_watched() -> None:
    """Names of modules that are there."""
    assert modules.MODULES.keys() == parsers.PARSERS.keys()
    for name in {module for watched in modules.MODULES.values() for module in watched}:
        importlib.import_module(name)


def test_what_became_of_a_parser_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many inputs there were, short and long; of a crash the input is kept."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)  # by chance alone
    found = command.run("facts", 0.3, 1, tmp_path)

    assert (found.parser, found.guided, found.crashes) == ("facts", False, 0)
    assert found.inputs > 20
    assert found.long_inputs > 0
    fragile = parsers.Parser(lambda data: data[10_000], (), (b"{}",))
    monkeypatch.setitem(parsers.PARSERS, "facts", fragile)
    assert command.run("facts", 0.3, 1, tmp_path).crashes == 1
    assert "IndexError" in capsys.readouterr().err
    assert len((tmp_path / "facts-1").read_bytes()) < 10_000


def test_a_parser_that_fails_or_does_not_end_is_a_crash() -> None:
    """Its own errors are not; whatever else is, with where it came from."""

    def eat(data: bytes) -> None:
        while data == b"forever":
            pass
        raise (ValueError if data == b"no" else KeyError)(data)

    parser = parsers.Parser(eat, (ValueError,), (b"no",))

    assert judge.fault(parser, b"no", 1) == ""
    assert "KeyError" in judge.fault(parser, b"yes", 1)
    assert judge.fault(parser, b"forever", 0.05) == "no end after 0.05 s with 7 bytes"


# ------------------------------------------------------------------ what was found, each for itself


@pytest.mark.parametrize(
    "text", [f'{{"is": "boot", "at": {DIGITS}}}', '{"is": []}', '{"is": ' + 5000 * "["]
)
def test_a_line_of_json_that_python_stumbles_over_is_no_fact(text: str) -> None:
    """Long numbers, names that are lists, and lists within lists."""
    with pytest.raises(wire.WireError):
        wire.loads(text)
    with pytest.raises(NetbenchesError):
        parsed(text.replace("[]", DIGITS), "x:1")


@pytest.mark.parametrize("text", [f"kernels = {DIGITS}", f"kernels = {5000 * '['}"])
def test_a_file_that_python_stumbles_over_is_no_toml(tmp_path: Path, text: str) -> None:
    """With the name of the file."""
    (tmp_path / "lab.toml").write_text(text)
    with pytest.raises(tomlfile.FileError, match=r"lab\.toml: not a TOML file"):
        tomlfile.load(tmp_path / "lab.toml", Lab)


def test_numbers_without_end_are_none() -> None:
    """Also those that only Python's `isdigit` calls so."""
    for text in (DIGITS, "\N{SUPERSCRIPT TWO}", "-1", ""):
        assert freebsd.count(text) is None
        assert not checkup.clock(text, 0, 1).good
    assert freebsd.count(" 17\n") == 17
    assert freebsd.interrupts(f"irq1: a   {DIGITS}  1\nirq264: igb2:rxq0  12  3\nTotal 12 3\n") == {
        "irq264: igb2:rxq0": 12
    }
    assert trailers.read(f"MFC after: {DIGITS} days").mfc_after is None
    with pytest.raises(patches.PatchError):
        patches.read("D1", f"@@ -1,{DIGITS} +1 @@\n".encode())
    with pytest.raises(CommandError):
        running.look(
            parsers.Told(f"kern.bootfile=/k\nkern.boottime={{ sec = {DIGITS}, usec = 1 }}".encode())
        )


def test_a_machine_that_says_less_than_it_was_asked_is_told_of() -> None:
    """Instead of an answer being taken for another's."""

    class Terse(parsers.Told):
        @contextlib.contextmanager
        def _running_line(self, *_: object, **__: object) -> Iterator[Callable[[], str]]:
            yield lambda: "only this"

    with pytest.raises(CommandError, match="less than it was asked"):
        ports.look(Terse(b""), [Port(pci="pci0:2:0:0")])
    with pytest.raises(CommandError):
        firewall.switch_off(parsers.Told(b"Id Refs\n\n \n"))


def test_a_function_that_is_called_like_a_line_of_pmcstat_stays_a_function() -> None:
    """Folded and read again, the profile is the same."""
    text = "@ event [4 samples]\n100.0%  [4]       99.0%  [19]   evil @ /boot/kernel/kernel\n"
    found = stacks.read(text)

    assert found == {("[99.0%  [19]   evil]",): 4}
    assert stacks.read(stacks.folded(found)) == found
    with pytest.raises(StacksError):
        stacks.read(f"45.00%  [18]       a{' ' * 200_000}@\n  0%")


def test_what_opens_and_never_closes_is_looked_for_once() -> None:
    """Of a commit's message and of pkt-gen: as many steps as letters, not their square."""
    many = 100_000
    message = (
        f"Fixes: 0a1b2c3d4e5f{'(' * many}, 123456789ab (x), {'(' * many}\nMFC to:{' ' * many}x"
    )
    parser = parsers.PARSERS
    for name, data in (
        ("commit message", message.encode()),
        ("pkt-gen", b"main_thread [1] 1 " * many),
        ("ifconfig", b"a: flags=1<" * many),
        ("ifconfig", b"igb2: flags=8843<UP> metric 0\n" + b"\n" * many),
        ("sensors", b"a\n" * many + b"b\n" + b"a\n" * many),
        ("pmcstat", b"45.00%  [18]   a" + b" " * many + b"b"),
    ):
        assert judge.fault(parser[name], data, SECONDS) == "", name
    assert trailers.read("Fixes: 0a1b2c3d4e5f (x), 123456789ab (y").fixes == (
        "0a1b2c3d4e5f",
        "123456789ab",
    )


def test_lines_of_pkt_gen_are_those_that_netbenches_takes() -> None:
    """A rate, and packets per second after it."""
    line = "1.0 main_thread [2277] {} pps (0 pkts 0 bps in 1 usec) 0 avg 0 min"
    said = "\n".join([*(line.format(n) for n in range(30)), *(["x"] * 15)])

    assert pktgen.kept_rates(said) == [float(n) for n in range(15, 30)]
