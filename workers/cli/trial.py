"""`netbisect-lab boot`, `trial`, `profile`, `bench` and `recover`: the use of one testbed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from netbisect.bisect.model import profile_stacks, serialization
from netbisect.bisect.model.entities import Boot, Failure, Kernel, Reaction
from netbisect.bisect.model.faults import Fault
from netbisect.workers.cli import options, output
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.measure.bench import Bench
from netbisect.workers.measure.profile import ProfileOrder
from netbisect.workers.measure.trial import TrialRunner, find_faults, measured
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.lifetime import ending_with_reader
from netbisect.workers.transport.locks import lock_testbed
from netbisect.workers.transport.ssh import Connections


@click.command(
    epilog=options.example("boot --testbed c2558 --kernel 5f3a... --kernels kernels"),
)
@options.with_kernel
def boot(lab: Lab, testbed: Testbed, kernel: Kernel, archive: Path, logs: Path) -> int:
    """Boot a kernel once on a testbed and verify it."""
    return _run_trial(lab, TrialRunner(testbed, kernel, archive, [], logs))


@click.command(
    epilog=options.example("trial --testbed c2558 --kernel 5f3a... --kernels kernels"),
)
@options.with_kernel
@options.scenarios_option
@click.option(
    "--runs",
    type=options.COUNT,
    default=1,
    show_default=True,
    help="Runs of each scenario within the boot.",
)
def trial(
    lab: Lab,
    testbed: Testbed,
    kernel: Kernel,
    archive: Path,
    logs: Path,
    *,
    names: Sequence[str],
    runs: int,
) -> int:
    """Boot a kernel once and run scenarios."""
    scenarios = options.load_scenarios(lab, names or testbed.scenarios)
    return _run_trial(lab, TrialRunner(testbed, kernel, archive, scenarios, logs, runs))


def _run_trial(lab: Lab, work: TrialRunner) -> int:
    with _connections(lab, work.testbed, waits=True) as connections:
        if not work.run(connections, output.emit, options.say):
            return output.EXIT_LAB
    return output.EXIT_UNMEASURABLE if any(isinstance(fact, Failure) for fact in work.facts) else 0


@click.command(
    short_help="Boot a kernel once and profile it with pmcstat.",
    epilog=options.example("profile --testbed c2558 --kernel 5f3a... --scenario inet4-forwarding"),
)
@options.with_kernel
@click.option("--scenario", metavar="NAME", help="Scenario (default: the testbed's first).")
@click.option(
    "--rate",
    type=options.POSITIVE,
    metavar="PPS",
    help="Packets per second to send, below what the kernel forwards "
    "(default: a percentage, see --rate-percent).",
)
@click.option(
    "--rate-percent",
    type=options.POSITIVE,
    default=70.0,
    show_default=True,
    metavar="PERCENT",
    help="Percentage of the forwarding rate, which a first run measures.",
)
@click.option(
    "--seconds",
    type=options.POSITIVE,
    default=30.0,
    show_default=True,
    help="Duration of sampling.",
)
@click.option("--event", default="", help="Event (default: the lab file's, or a common one).")
def profile(
    lab: Lab,
    testbed: Testbed,
    kernel: Kernel,
    archive: Path,
    logs: Path,
    *,
    scenario: str | None,
    rate: float | None,
    **more: Any,  # noqa: ANN401 - the rest of an order
) -> int:
    """Boot a kernel once and profile it with pmcstat below saturation.

    Shows the functions in which the kernel spends its time. The runs enter no series.
    """
    name = scenario or testbed.scenarios[0]
    (loaded,) = options.load_scenarios(lab, [name])
    order = ProfileOrder(testbed, kernel, archive, loaded, logs, pps=rate or 0.0, **more)
    try:
        with _connections(lab, testbed, waits=True) as connections:
            result = order.run(connections, output.emit, options.say)
    except LabFault as fault:
        options.say(f"{options.PROGRAM}: {fault.why}")
        return output.EXIT_LAB if fault.reaction is Reaction.QUARANTINE else output.EXIT_FAILED
    if result is None:
        return output.EXIT_UNMEASURABLE
    click.echo(serialization.dumps(result))
    if result.problem:
        options.say(f"no profile: {result.problem}")
        return output.EXIT_UNMEASURABLE
    options.say(f"{result.samples:,} samples: {logs / profile_stacks.file_name(name, 'folded')}")
    return 0


@click.command(epilog=options.example("bench --testbed c2558 --scenario inet4-forwarding"))
@options.testbed_option
@options.logs_option
@options.scenarios_option
@options.with_lab
def bench(lab: Lab, testbed: str, logs: Path | None, names: Sequence[str]) -> int:
    """Run scenarios on the running kernel; nothing is recorded."""
    bed = lab.testbed(testbed)
    scenarios = options.load_scenarios(lab, names or bed.scenarios)
    status = 0
    with _connections(lab, bed) as connections:
        running = DeviceUnderTest(bed, connections, options.say).reach()
        boot = Boot("by-hand", bed.name, "", running.version, running.boottime, 0.0)
        work = Bench(bed, connections, options.say, options.folder_of_logs(logs))
        try:
            for scenario in scenarios:
                if scenario.tunables:
                    options.say(
                        f"{scenario.name}: without its tunables, which need a boot: `trial`"
                    )
                try:
                    found = work.measure(scenario, boot)
                except LabFault as fault:
                    if fault.fault is not Fault.SCENARIO:
                        raise
                    options.say(f"{bed.name}: {scenario.name}: {fault.why}")
                    status = output.EXIT_UNMEASURABLE
                    continue
                for _, sample in found:
                    output.emit(sample)
                    options.say(f"{bed.name}: {sample.scenario}: {measured(sample)}")
                    status = status if sample.valid else output.EXIT_UNMEASURABLE
                for warning in sample.warnings:
                    options.say(f"{bed.name}: {scenario.name}: warning: {warning}")
        finally:
            work.clean_up()
    return status


@click.command(
    short_help="Return a testbed to its known-good kernel.",
    epilog=options.example("recover --testbed c2558"),
)
@options.testbed_option
@click.option(
    "--look",
    is_flag=True,
    help="Then check its machines and links; exit status 4 if a check fails.",
)
@options.with_lab
def recover(lab: Lab, testbed: str, look: bool) -> int:
    """Return a testbed to its known-good kernel, with a power cycle if needed."""
    bed = lab.testbed(testbed)
    with _connections(lab, bed, waits=True) as connections:
        running = DeviceUnderTest(bed, connections, options.say).recover()
        options.say(f"{bed.name}: on {running.directory}")
        found = find_faults(bed, connections) if look else ()
        wrong = dict.fromkeys(fault.why for fault in found)  # machines with several ports once
    if wrong:
        options.say(f"{options.PROGRAM}: {'; '.join(wrong)}")
    return output.EXIT_LAB if wrong else 0


@contextlib.contextmanager
def _connections(lab: Lab, testbed: Testbed, *, waits: bool = False) -> Iterator[Connections]:
    """Connections to a locked testbed, until the reader of standard output ends.

    `waits` for another command for up to the boot timeout.

    Raises:
        BusyError: another command has the testbed, and this one does not wait.
    """
    doing = f"running {click.get_current_context().command_path}"
    seconds = testbed.timing.boot_timeout if waits else 0.0
    with (
        ending_with_reader(),
        lock_testbed(lab, testbed, doing, options.say, seconds=seconds),
        Connections(lab.ssh) as connections,
    ):
        yield connections
