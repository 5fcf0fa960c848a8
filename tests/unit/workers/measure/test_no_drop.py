"""The search for the no-drop rate, with a router of fixed capacity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.config.testbed import TrafficHost
from netbisect.workers.measure import no_drop, pktgen
from netbisect.workers.measure.commands import MeasureError
from netbisect.workers.measure.pktgen import Outputs

HOST = TrafficHost("pkt1", PortSelector("igb2"))
CAPACITY = 500_000
EMPTY = Outputs({"the generator": ""}, {"the receiver": ""})


def output(rate: float, seconds: int, verb: str) -> str:
    line = f"982.0 main_thread [2277] {rate:.0f} pps (1 pkts 1 bps in 1000000 usec)\n"
    total = f"{verb} {rate * seconds:.0f} packets\n"
    return "start\n" * 15 + line * seconds + "end\n" * 10 + total


def run(rate: float, share: float = 1.0, capacity: float = CAPACITY) -> Outputs:
    """Outputs of sender and receiver; the sender offers this share of the rate."""
    offered = share * rate
    sent, received = output(offered, 20, "Sent"), output(min(offered, capacity), 20, "Received")
    return Outputs({"the generator": sent}, {"the receiver": received})


def test_search_halves_the_interval() -> None:
    rates: list[int] = []

    def send(rate: int) -> Outputs:
        rates.append(rate)
        return run(rate)

    found = no_drop.search(run(1_488_095), 8, send)
    assert rates[:3] == [400_000, 475_000, 512_500]
    assert len(rates) == 8
    assert CAPACITY - 0.6 * CAPACITY / 2**8 - 1 <= found <= CAPACITY


def test_loss_is_tolerated_up_to_a_key_of_the_scenario() -> None:
    found = no_drop.search(run(1_488_095), 8, lambda rate: run(rate, capacity=rate * (1 - 9e-6)))
    assert found > CAPACITY
    with pytest.raises(MeasureError, match="lost at every rate from 250,000 to 550,000 pps"):
        no_drop.search(run(1_488_095), 8, lambda rate: run(rate, capacity=rate * (1 - 2e-5)))

    # Scenario inet4-equilibrium tolerates more loss than inet4-no-drop.
    loss = load_scenario("inet4-equilibrium").no_drop_loss
    found = no_drop.search(
        run(1_488_095), 8, lambda rate: run(rate, capacity=rate * (1 - 9e-4)), loss
    )
    assert found > CAPACITY
    scenario = load_scenario("inet4-no-drop")
    assert scenario.no_drop_loss == 1e-5
    with pytest.raises(ValueError, match="no_drop_loss 1: expected a share from 0 to below 1"):
        replace(scenario, no_drop_loss=1.0)


@pytest.mark.parametrize(
    ("full", "step", "message"),
    [
        (run(400_000), run(1), "the router forwards all of 400,000 pps"),
        (run(1_488_095), run(400_000, share=0.98), "the generator offered 392,000 of 400,000 pps"),
        (run(1_488_095), EMPTY, "at 400,000 pps: pkt-gen printed no summary"),
        (EMPTY, run(1), "the sender reports 0 seconds of traffic"),
    ],
)
def test_failed_search_is_reported_in_one_sentence(
    full: Outputs, step: Outputs, message: str
) -> None:
    with pytest.raises(MeasureError, match=f"^no-drop rate: {message}"):
        no_drop.search(full, 8, lambda _: step)


def test_steps_are_bounded_and_need_traffic_and_option_r() -> None:
    scenario = load_scenario("inet4-no-drop")
    assert "R" in pktgen.needed_options(scenario, HOST, HOST)
    assert "R" not in pktgen.needed_options(replace(scenario, no_drop_steps=0), HOST, HOST)
    changes: tuple[dict[str, Any], ...] = ({"no_drop_steps": 21}, {"traffic": None})
    for change in changes:
        with pytest.raises(ValueError, match="expected 0 to 20, and"):
            replace(scenario, **change)
