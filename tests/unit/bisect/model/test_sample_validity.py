"""Problems of runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.sample_validity import MachineState, PortState, RunRecord

LINE_RATE = 1_488_095.0
PORTS = ("the router's ingress", "the router's egress", "the generator", "the receiver")
LOOK = MachineState(
    ports={part: PortState("igb2", "active", 1_000, 0, 0) for part in PORTS},
    settings={"net.inet.ip.redirect": "0"},
    clock=2400.0,
    top_clock=2401.0,
    programs={"sshd": 0.4, "devd": 0.0},
)
GOOD = RunRecord(
    pps=940_000.0,
    offered_pps=LINE_RATE,
    line_rate=LINE_RATE,
    offered=(0.36 * LINE_RATE, *(28 * [LINE_RATE]), 0.5 * LINE_RATE, 0.1 * LINE_RATE),
    received=(0.0, 0.0, 300_000.0, *(28 * [940_000.0]), 20_000.0, 0.0),
    before=LOOK,
    after=replace(
        LOOK, ports={part: PortState("igb2", "active", 40_001_000, 0, 0) for part in PORTS}
    ),
    wanted={"net.inet.ip.redirect": "0"},
)


def port(part: str, **changes: object) -> MachineState:
    """How it looks after the run when one port is another."""
    ports = GOOD.after.ports
    return replace(GOOD.after, ports={**ports, part: replace(ports[part], **changes)})  # type: ignore[arg-type] # of a field


def test_a_good_run_has_no_problem() -> None:
    assert sample_validity.problems(GOOD) == []


def test_unknown_values_are_accepted() -> None:
    """An older system has no counters, no sensors and no names for its clocks."""
    assert (
        sample_validity.problems(replace(GOOD, before=MachineState(), after=MachineState())) == []
    )
    assert sample_validity.problems(replace(GOOD, before=MachineState())) == []


SLOW = [*GOOD.offered]
SLOW[5:25:4] = 5 * [0.94 * LINE_RATE]
FADING = [LINE_RATE * (1.03 - 0.02 * second / 30) for second in range(31)]
GAP = [*GOOD.received]
GAP[12:15] = [0.0, 0.0, 0.0]
DOWN = "dut igb2 2x"


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            replace(GOOD, offered_pps=1_400_000.0),
            "the generator offered 1,400,000 pps, less than 99 % of 1,488,095",
        ),
        (
            replace(GOOD, offered=SLOW),
            "the generator offered less than 95 % of 1,488,095 pps in 5 of 28 seconds",
        ),
        (replace(GOOD, pps=1.01 * LINE_RATE), "received 1,502,976 pps, more than was offered"),
        (
            replace(GOOD, before=port("the receiver", link="no carrier")),
            "the receiver (igb2) has no link before the run: no carrier",
        ),
        (
            replace(GOOD, after=port("the router's egress", link="no carrier")),
            "the router's egress (igb2) has no link after the run: no carrier",
        ),
        (
            replace(GOOD, received=GAP, link_changes=(DOWN,)),
            f"packets were missing for 3 seconds, and links went down: {DOWN}",
        ),
        (
            replace(GOOD, after=port("the generator", errors=1_000)),
            "the generator (igb2) counted 1,000 errors during the run",
        ),
        (
            replace(GOOD, after=port("the router's ingress", damaged=12_345)),
            "the router's ingress (igb2) counted 12,345 packets with a wrong CRC during the run",
        ),
        (
            replace(GOOD, before=replace(LOOK, settings={"net.inet.ip.redirect": "1"})),
            "net.inet.ip.redirect was '1' before the run, ordered was '0'",
        ),
        (
            replace(GOOD, after=replace(GOOD.after, settings={"net.inet.ip.redirect": "1"})),
            "net.inet.ip.redirect changed during the run, from '0' to '1'",
        ),
        (
            replace(GOOD, after=replace(GOOD.after, clock=1200.0)),
            "the router ran at 1200 MHz of 2401 after the run",
        ),
        (
            replace(GOOD, after=replace(GOOD.after, tripped=("dev.cpu.0",))),
            "the router was throttled for its heat during the run: dev.cpu.0",
        ),
        (
            replace(GOOD, after=replace(GOOD.after, hot=("dev.cpu.0 101 of 100 C",))),
            "the router was too hot after the run: dev.cpu.0 101 of 100 C",
        ),
        (
            replace(GOOD, before=replace(LOOK, programs={"sshd": 1.0, "cc": 85.0, "make": 3.0})),
            "other programs took 89 % of a processor of the router before the run, cc most of it",
        ),
    ],
)
def test_problems(run: RunRecord, sentence: str) -> None:
    problems = sample_validity.problems(run)
    assert sentence in problems
    assert all(problem == sentence or sentence.startswith("net.inet") for problem in problems)


def test_drift_of_the_generator_is_a_warning() -> None:
    """A router beyond its limit forwards as much of a load that is a little lower."""
    run = replace(GOOD, offered=FADING)
    assert sample_validity.problems(run) == []
    assert sample_validity.warnings(run) == [
        "the rate of the generator drifted by -1.2 % within the run"
    ]


def with_queues(way: str, packets: tuple[int, ...]) -> RunRecord:
    """A good run with these packets by queue."""
    part = {"tx": "the router's egress", "rx": "the router's ingress"}[way]
    before = {f"{way} {number}": 5 for number in range(len(packets))}
    after = {f"{way} {number}": 5 + count for number, count in enumerate(packets)}
    return replace(GOOD, before=port(part, queues=before), after=port(part, queues=after))


@pytest.mark.parametrize(
    ("packets", "share"),
    [((700_000, 100_000, 100_000, 100_000), 70), ((1_000_000, 0), 100), ((760_000, 240_000), 76)],
)
def test_flows_that_meet_on_one_queue_are_a_warning(packets: tuple[int, ...], share: int) -> None:
    """From the middle between an even share and all packets."""
    run = with_queues("tx", packets)
    assert sample_validity.warnings(run) == [
        (
            f"flows meet on one queue: {share} % of the packets of the router's egress (igb2) went "
            f"through tx 0 of {len(packets)} queues"
        )
    ]
    assert sample_validity.problems(run) == sample_validity.problems(replace(run, flows=1))
    assert sample_validity.warnings(replace(run, flows=1)) == []


@pytest.mark.parametrize(
    "packets", [(620_000, 150_000, 150_000, 80_000), (700_000, 300_000), (9, 0)]
)
def test_evenly_used_queues_cause_no_warning(packets: tuple[int, ...]) -> None:
    assert sample_validity.warnings(with_queues("rx", packets)) == []


def test_saturation_starts_at_98_percent() -> None:
    assert sample_validity.saturated(0.98e6, 1e6)
    assert sample_validity.saturated(1.004e6, 1e6)
    assert not sample_validity.saturated(0.979e6, 1e6)
    assert not sample_validity.saturated(0.0, 0.0)
    assert not sample_validity.saturated(2e6, 1e6), "what was offered is not known then"


rates = st.lists(st.floats(min_value=0, max_value=1e8), max_size=60)


@given(rates, rates, st.floats(0, 1e8), st.floats(0, 1e8))
def test_any_counters_are_accepted(
    offered: list[float], received: list[float], pps: float, offered_pps: float
) -> None:
    run = replace(GOOD, offered=offered, received=received, pps=pps, offered_pps=offered_pps)
    assert all(problem and "\n" not in problem for problem in sample_validity.problems(run))
