"""Output of the command `measure`."""

from __future__ import annotations

import json

import pytest

from netbisect.bisect.model.entities import Reaction
from netbisect.workers.config.custom_measurement import HostCommand, MetricTable
from netbisect.workers.config.scenario import load_scenario
from netbisect.workers.measure import commands
from netbisect.workers.transport.errors import CommandError

CPU = MetricTable("cpu", "%", "lower", most=95.0)
SPEED = MetricTable("speed", "bit/s", "higher")


def test_numbers_are_parsed_with_and_without_unit() -> None:
    output = json.dumps({"cpu": {"value": 41.5, "unit": "%"}, "speed": 9e8})
    assert commands.numbers(output, [CPU, SPEED]) == {"cpu": 41.5, "speed": 9e8}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "measure printed nothing; expected a JSON object"),
        ("cpu 41", "measure printed 'cpu 41'; expected a JSON object"),
        ("[1]", "measure printed '[1]'; expected a JSON object"),
        ("{}", "measure printed None for cpu; expected a number above 0"),
        ('{"cpu": 0}', "measure printed 0 for cpu; expected a number above 0"),
        ('{"cpu": true}', "measure printed True for cpu; expected a number above 0"),
        ('{"cpu": NaN}', "measure printed nan for cpu; expected a number above 0"),
        (
            f'{{"cpu": 1{400 * "0"}}}',
            f"measure printed 1{39 * '0'} for cpu; expected a number above 0",
        ),
        ('{"cpu": 99}', "cpu is 99 %, expected 0 to 95"),
        (
            '{"cpu": {"value": 1, "unit": "ms"}}',
            "measure printed cpu in 'ms'; the scenario declares '%'",
        ),
        (
            '{"cpu": 1, "drops": 3}',
            "measure printed the metric 'drops', which the scenario does not declare; expected cpu",
        ),
    ],
)
def test_invalid_output_is_reported_in_one_sentence(output: str, message: str) -> None:
    with pytest.raises(commands.MeasureError) as error:
        commands.numbers(output, [CPU])
    assert str(error.value) == message


def test_output_of_iperf3_is_parsed_and_its_error_quoted() -> None:
    metrics = load_scenario("tcp-one-flow").metrics
    output = json.dumps({"end": {"sum_received": {"bits_per_second": 941e6, "seconds": 30}}})
    assert commands.numbers(output, metrics) == {"throughput": 941e6}
    output = json.dumps({"error": "unable to connect to server: Connection refused"})
    with pytest.raises(commands.MeasureError, match="measure failed: unable to connect"):
        commands.numbers(output, metrics)


def test_only_failures_on_the_router_skip_the_kernel() -> None:
    for on, status, reaction in (
        ("dut", 1, Reaction.SKIP),
        ("dut", 127, Reaction.RETRY),
        ("dut", None, Reaction.RETRY),
        ("receiver", 1, Reaction.RETRY),
    ):
        error = CommandError("pkt1", "sh", status, "a\nsetkey: not found\n")
        fault = commands.failed_preparation(HostCommand(on, "x"), error, "mine")
        assert fault.reaction is reaction
        assert fault.why == f"mine: prepare on the {on} failed: setkey: not found"
