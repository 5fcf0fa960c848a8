"""Problems of runs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model import sample_validity
from netbisect.bisect.model.faults import Fault, fault_of_run
from netbisect.bisect.model.sample_validity import MachineState, PortState, RunRecord

LINE_RATE = 1_488_095.0
GENERATOR, RECEIVER = "the generator", "the receiver"
PORTS = ("the router's ingress", "the router's egress", GENERATOR, RECEIVER)
STATE = MachineState(
    ports={part: PortState("igb2", "active", 1_000, 0, 0) for part in PORTS},
    settings={"net.inet.ip.redirect": "0"},
    clock=2400.0,
    top_clock=2401.0,
    programs={"sshd": 0.4, "devd": 0.0},
)
GOOD = RunRecord(
    pps=940_000.0,
    offered_pps={GENERATOR: LINE_RATE},
    line_rate=LINE_RATE,
    offered={GENERATOR: (0.36 * LINE_RATE, *(28 * [LINE_RATE]), 0.5 * LINE_RATE, 0.1 * LINE_RATE)},
    received={RECEIVER: (0.0, 0.0, 300_000.0, *(28 * [940_000.0]), 20_000.0, 0.0)},
    before=STATE,
    after=replace(
        STATE, ports={part: PortState("igb2", "active", 40_001_000, 0, 0) for part in PORTS}
    ),
    wanted={"net.inet.ip.redirect": "0"},
)


def port(part: str, **changes: object) -> MachineState:
    """The state of the machine after the run, with changes to one port."""
    ports = GOOD.after.ports
    return replace(GOOD.after, ports={**ports, part: replace(ports[part], **changes)})  # type: ignore[arg-type] # of a field


def test_a_good_run_has_no_problem() -> None:
    """Older systems lack counters, sensors and clock frequencies."""
    unknown = replace(GOOD, before=MachineState())
    for run in (GOOD, unknown, replace(unknown, after=MachineState())):
        assert sample_validity.problems(run) == []


SLOW = [*GOOD.offered[GENERATOR]]
SLOW[5:25:4] = 5 * [0.94 * LINE_RATE]
FADING = [LINE_RATE * (1.03 - 0.02 * second / 30) for second in range(31)]
GAP = [*GOOD.received[RECEIVER]]
GAP[12:15] = [0.0, 0.0, 0.0]
DOWN = "dut igb2 2x"


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            replace(GOOD, offered_pps={GENERATOR: 1_400_000.0}),
            "the generator offered 1,400,000 pps, less than 99 % of 1,488,095",
        ),
        (
            replace(GOOD, offered={GENERATOR: SLOW}),
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
            replace(GOOD, received={RECEIVER: GAP}, link_changes=(DOWN,)),
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
            replace(GOOD, before=replace(STATE, settings={"net.inet.ip.redirect": "1"})),
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
            replace(GOOD, before=replace(STATE, programs={"sshd": 1.0, "cc": 85.0, "make": 3.0})),
            "other programs took 89 % of a processor of the router before the run, cc most of it",
        ),
    ],
)
def test_problems(run: RunRecord, sentence: str) -> None:
    problems = sample_validity.problems(run)
    assert sentence in problems
    assert all(problem == sentence or sentence.startswith("net.inet") for problem in problems)


def test_each_size_of_a_mix_has_its_share() -> None:
    """Missing large packets are reported even if the sum of the rates is right."""
    sizes = {"the generator (60 bytes)": 7 / 12, "the generator (1514 bytes)": 5 / 12}
    found = []
    for factors in ((1.0, 1.0), (1.01, 0.985)):
        rates = {
            name: LINE_RATE * share * factor
            for (name, share), factor in zip(sizes.items(), factors, strict=True)
        }
        offered = {name: 30 * [rate] for name, rate in rates.items()}
        run = replace(GOOD, offered_pps=rates, offered=offered, shares=sizes)
        found.append(sample_validity.problems(run))
    good, problems = found
    assert good == []
    assert problems == ["the generator (1514 bytes) offered 610,739 pps, less than 99 % of 620,040"]
    assert fault_of_run(problems) is Fault.WRONG_RATE


def test_drift_of_the_generator_is_a_warning() -> None:
    """An overloaded router forwards the same rate at a slightly lower load."""
    run = replace(GOOD, offered={GENERATOR: FADING})
    assert sample_validity.problems(run) == []
    assert sample_validity.warnings(run) == [
        "the rate of the generator drifted by -1.2 % within the run"
    ]


def two_generators(late: int = 0, lost: int = 0, ends: int = 0) -> RunRecord:
    """A run of two generators; the second begins late, sends nothing for a while, or ends early."""
    half, offered = LINE_RATE / 2, GOOD.offered[GENERATOR]
    gap = range(10, 10 + lost)
    first = [rate / 2 for rate in offered]
    second = [rate for at, rate in enumerate(first[: len(first) - ends]) if at not in gap]
    arriving = [first[at : at + 1] for at in range(len(first) + late)]
    both = [sum(one) / 2 for one in arriving]
    for at in range(len(first) - ends):
        both[at + late] += first[at] / 2 * (at not in gap)
    return replace(
        GOOD,
        offered_pps={"generator 1 on a": half, "generator 2 on b": half},
        offered={"generator 1 on a": first, "generator 2 on b": second},
        received={"receiver 1 on c": both, "receiver 2 on d": both},
        link_changes=(DOWN,),
    )


def test_each_of_several_generators_offers_its_share_all_the_time() -> None:
    run = two_generators()
    assert sample_validity.problems(run) == []
    slow = replace(run, offered_pps={"generator 1 on a": 8e5, "generator 2 on b": 7e5})
    assert sample_validity.problems(slow) == [
        "generator 2 on b offered 700,000 pps, less than 99 % of 744,048"
    ]
    unknown = replace(run, offered_pps={"generator 1 on a": 8e5, "generator 2 on b": 0.0})
    assert sample_validity.problems(unknown) == [], "unknown rates are reported elsewhere"
    assert sample_validity.problems(two_generators(lost=2)) == [
        f"packets were missing for 2 seconds, and links went down: {DOWN}"
    ]


def test_a_slow_generator_is_the_only_problem() -> None:
    """It sends the same packets for longer; the other does not end too early."""
    run = two_generators()
    first, pps = run.offered["generator 1 on a"], 0.6 * LINE_RATE / 2
    slow = {"generator 2 on b": (0.36 * pps, *(47 * [pps]), 0.5 * pps, 0.1 * pps)}
    run = replace(run, offered={"generator 1 on a": first, **slow})
    rates = {"generator 1 on a": LINE_RATE / 2, "generator 2 on b": pps}
    problems = sample_validity.problems(replace(run, offered_pps=rates))
    assert [one for one in problems if "offered" in one] == [
        "generator 2 on b offered 446,428 pps, less than 99 % of 744,048"
    ]


def test_generators_send_at_the_same_time() -> None:
    """Offsets of a few seconds at either end are tolerated; the medians ignore them."""
    assert sample_validity.problems(two_generators(late=1, ends=2)) == []
    assert sample_validity.problems(two_generators(ends=8)) == [
        "generator 2 on b offered less than 95 % of 744,048 pps in 6 of 28 seconds"
    ]
    assert (
        "the generators did not send at the same time: each sent for at most 31 seconds, and "
        "packets arrived for 38"
    ) in sample_validity.problems(two_generators(late=7))


def test_stray_packets_before_and_after_the_run_are_ignored() -> None:
    """Tunnels send handshake packets before the traffic."""
    rates = [7.0, *9 * [0.0], *GOOD.received[RECEIVER], 0.0, 3.0]
    run = replace(GOOD, received={RECEIVER: rates}, link_changes=(DOWN,))
    assert sample_validity.problems(run) == []


@pytest.mark.parametrize(
    ("direction", "packets", "share"),
    [
        ("tx", (700_000, 100_000, 100_000, 100_000), 70),
        ("tx", (1_000_000, 0), 100),
        ("tx", (760_000, 240_000), 76),
        ("rx", (620_000, 150_000, 150_000, 80_000), None),
        ("rx", (700_000, 300_000), None),
        ("rx", (9, 0), None),
    ],
)
def test_uneven_use_of_queues_is_a_warning(
    direction: str, packets: tuple[int, ...], share: int | None
) -> None:
    """The threshold is halfway between an even share and all packets."""
    part = {"tx": "the router's egress", "rx": "the router's ingress"}[direction]
    before = {f"{direction} {number}": 5 for number in range(len(packets))}
    after = {f"{direction} {number}": 5 + count for number, count in enumerate(packets)}
    run = replace(GOOD, before=port(part, queues=before), after=port(part, queues=after))
    meeting = (
        f"flows meet on one queue: {share} % of the packets of the router's egress (igb2) went "
        f"through tx 0 of {len(packets)} queues"
    )
    assert sample_validity.warnings(run) == ([] if share is None else [meeting])
    assert sample_validity.problems(run) == sample_validity.problems(replace(run, flows=1))
    assert sample_validity.warnings(replace(run, flows=1)) == []


def test_saturation_starts_at_98_percent() -> None:
    assert sample_validity.saturated(0.98e6, 1e6)
    assert sample_validity.saturated(1.004e6, 1e6)
    assert not sample_validity.saturated(0.979e6, 1e6)
    assert not sample_validity.saturated(0.0, 0.0)
    assert not sample_validity.saturated(2e6, 1e6), "the offered rate is unknown"


rates = st.lists(st.floats(min_value=0, max_value=1e8), max_size=60)


@given(rates, rates, st.floats(0, 1e8), st.floats(0, 1e8))
def test_any_counters_are_accepted(
    offered: list[float], received: list[float], pps: float, offered_pps: float
) -> None:
    run = replace(
        GOOD,
        offered={GENERATOR: offered, "generator 2": offered[::2]},
        received={RECEIVER: received, "receiver 2": received[1:]},
        pps=pps,
        offered_pps={GENERATOR: offered_pps, "generator 2": offered_pps / 2},
    )
    assert all(problem and "\n" not in problem for problem in sample_validity.problems(run))
