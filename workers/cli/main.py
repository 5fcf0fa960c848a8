"""The command `netbisect-lab`: lab operations with or without the service.

Facts are JSON lines on standard output; messages go to standard error.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from netbisect.bisect.model import profile_stacks, serialization
from netbisect.bisect.model.entities import Boot, Failure, Kernel, Reaction
from netbisect.bisect.model.faults import Fault
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.workers.build import phabricator, userland
from netbisect.workers.build.artifacts import ArtefactError
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.build.patches import PatchError, PatchStore, read_file
from netbisect.workers.cli import options, output
from netbisect.workers.cli.noise_report import calibrate_command, image_noise_command
from netbisect.workers.cli.vm import vm_commands
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.config.toml import FileError
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.dut.device import DeviceUnderTest
from netbisect.workers.measure.bench import Bench
from netbisect.workers.measure.calibrate import NoiseError
from netbisect.workers.measure.profile import ProfileOrder
from netbisect.workers.measure.trial import TrialRunner, find_faults
from netbisect.workers.transport.errors import LabFault
from netbisect.workers.transport.lifetime import ending_with_reader
from netbisect.workers.transport.locks import lock_testbed
from netbisect.workers.transport.ssh import Connections
from netbisect.workers.vm.vm import VmError

_STATUS = {Reaction.INFRA: output.EXIT_LAB, Reaction.ABORT: output.EXIT_USAGE}
"""Exit status by reaction of a failed build."""


@click.group(
    epilog=f"Example: {options.PROGRAM} --lab lab.toml doctor",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--lab", type=options.PATH, default="lab.toml", show_default=True, help="The lab file."
)
@click.pass_context
def netbisect_lab(context: click.Context, lab: Path) -> None:
    """Build kernels, boot them on a testbed, send packets through them.

    Facts are printed as JSON lines on standard output, messages on standard error.
    """
    context.obj = lab


@netbisect_lab.command(
    short_help="Build the kernel of a revision.",
    epilog=options.example(
        "build --builder amd64 --revision 0a1b2c3d4e5f... --config GENERIC-NODEBUG"
    ),
)
@click.option("--builder", required=True, help="Name of the builder in the lab file.")
@click.option(
    "--revision",
    type=options.CommitHash(layouts=True),
    required=True,
    help="Full hash of the commit; HASH#3 links it in layout 3, its code at other addresses.",
)
@click.option(
    "--config",
    required=True,
    help="Kernel configuration (KERNCONF); GENERIC+fix-igb is GENERIC with that overlay.",
)
@click.option(
    "--review",
    "reviews",
    multiple=True,
    metavar="D5180",
    help="A review whose newest diff is applied first; may be given several times.",
)
@click.option(
    "--patch",
    "files",
    type=options.PATH,
    multiple=True,
    metavar="FILE",
    help="A patch that is applied after the reviews; may be given several times.",
)
@options.with_lab
def build(
    lab: Lab,
    builder: str,
    revision: str,
    config: str,
    reviews: Sequence[str],
    files: Sequence[Path],
) -> int:
    """Build the kernel of a revision into the builder's artefact store."""
    host = lab.builder(builder)
    store = PatchStore(host.patches)
    patches = [
        *(phabricator.fetch(name, lab.source.review_url) for name in reviews),
        *map(read_file, files),
    ]
    needs = userland.needs_of(lab, host.arch, config.partition(OVERLAY_MARK)[0])
    config = OVERLAY_MARK.join([config, *map(store.put, patches)])
    work = KernelBuild(host, lab.source, revision, config, options.say, needs=needs)
    result = work.run()
    output.emit(result)
    if isinstance(result, Failure):
        options.say(f"no kernel: {result.why}")
        return _STATUS.get(result.reaction, output.EXIT_UNMEASURABLE)
    work.kernels.prune(lab.kernel_bytes, [result.key])
    options.say(
        f"built {result.version} in {result.seconds:.1f} s: {work.kernels.archive(result.key)}"
    )
    return 0


@netbisect_lab.command(
    epilog=options.example("boot --testbed c2558 --kernel 5f3a... --kernels kernels"),
)
@options.with_kernel
def boot(lab: Lab, testbed: Testbed, kernel: Kernel, archive: Path, logs: Path) -> int:
    """Boot a kernel once on a testbed and verify it."""
    return _run_trial(lab, TrialRunner(testbed, kernel, archive, [], logs))


@netbisect_lab.command(
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
    started = time.time()
    try:
        with _connections(lab, work.testbed, waits=True) as connections:
            if not work.run(connections, output.emit, options.say):
                return output.EXIT_LAB
    except LabFault as fault:
        _report_busy(fault, work.kernel, work.testbed, started)
        return output.EXIT_UNMEASURABLE
    return output.EXIT_UNMEASURABLE if any(isinstance(fact, Failure) for fact in work.facts) else 0


@netbisect_lab.command(
    short_help="Boot a kernel once and profile it with pmcstat.",
    epilog=options.example("profile --testbed c2558 --kernel 5f3a... --scenario inet4-forwarding"),
)
@options.with_kernel
@click.option("--scenario", metavar="NAME", help="(default: the testbed's first)")
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
    help="Of what the kernel forwards, which a run before shows.",
)
@click.option(
    "--seconds",
    type=options.POSITIVE,
    default=30.0,
    show_default=True,
    help="Duration of sampling.",
)
@click.option("--event", default="", help="For pmcstat (default: the lab file's, or a common one).")
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
    started = time.time()
    try:
        with _connections(lab, testbed, waits=True) as connections:
            result = order.run(connections, output.emit, options.say)
    except LabFault as fault:
        _report_busy(fault, kernel, testbed, started)
        return output.EXIT_LAB if fault.reaction is Reaction.QUARANTINE else output.EXIT_FAILED
    if result is None:
        return output.EXIT_UNMEASURABLE
    click.echo(serialization.dumps(result))
    if result.problem:
        options.say(f"no profile: {result.problem}")
        return output.EXIT_UNMEASURABLE
    options.say(f"{result.samples:,} samples: {logs / profile_stacks.file_name(name, 'folded')}")
    return 0


@netbisect_lab.command(epilog=options.example("bench --testbed c2558 --scenario inet4-forwarding"))
@options.testbed_option
@options.logs_option
@options.scenarios_option
@options.with_lab
def bench(lab: Lab, testbed: str, logs: Path | None, names: Sequence[str]) -> int:
    """Run scenarios on the kernel that runs now; not recorded."""
    bed = lab.testbed(testbed)
    scenarios = options.load_scenarios(lab, names or bed.scenarios)
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
                for _, sample in work.measure(scenario, boot):
                    output.emit(sample)
        finally:
            work.clean_up()
    return 0


@netbisect_lab.command(
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
        wrong = [fault.why for fault in find_faults(bed, connections)] if look else []
    if wrong:
        options.say(f"{options.PROGRAM}: {'; '.join(wrong)}")
    return output.EXIT_LAB if wrong else 0


@netbisect_lab.command(epilog=options.example("doctor"))
@click.option("--testbed", default="", help="Only this one.")
@click.option(
    "--rates",
    is_flag=True,
    help="Also send packets for ten seconds through whatever each router runs now.",
)
@options.as_json_option
@options.with_lab
def doctor(lab: Lab, testbed: str, rates: bool, as_json: bool) -> int:
    """Check every machine of the lab. Nothing is changed."""
    checks = list(examine(lab, testbed=testbed, rates=rates))
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        widths = [max(len(getattr(check, name)) for check in checks) for name in ("where", "what")]
        for check in checks:
            mark = "ok  " if check.good else "FAIL"
            print(f"{mark} {check.where:{widths[0]}}  {check.what:{widths[1]}}  {check.found}")
        bad = sum(not check.good for check in checks)
        options.say(
            f"{len(checks)} checks, {bad} failed" if bad else f"{len(checks)} checks, all well"
        )
    return 0 if all(check.good for check in checks) else output.EXIT_LAB


for _command in (image_noise_command, calibrate_command, vm_commands):
    netbisect_lab.add_command(_command)


@contextlib.contextmanager
def _connections(lab: Lab, testbed: Testbed, *, waits: bool = False) -> Iterator[Connections]:
    """Connections to a locked testbed, until the reader of standard output ends.

    `waits` for another command until the boot timeout.

    Raises:
        LabFault: another command has the testbed.
    """
    doing = f"running {click.get_current_context().command_path}"
    seconds = testbed.timing.boot_timeout if waits else 0.0
    with (
        ending_with_reader(),
        lock_testbed(lab, testbed, doing, options.say, seconds=seconds),
        Connections(lab.ssh) as connections,
    ):
        yield connections


def _report_busy(fault: LabFault, kernel: Kernel, testbed: Testbed, started: float) -> None:
    options.say(f"{options.PROGRAM}: {fault.why}")
    if fault.fault is Fault.BUSY:  # else the trial has reported it
        output.emit(fault.failure(kernel.revision, started, testbed=testbed.name))


def _stop(number: int, _: object) -> NoReturn:
    # As an exception, so that every `finally` on the way leaves its machine clean.
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # ignored by nohup(1)
        signal.signal(signal.SIGHUP, _stop)
    try:
        result: int = netbisect_lab.main(
            arguments, prog_name=options.PROGRAM, standalone_mode=False
        )
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (FileError, ArtefactError, PatchError) as error:
        options.say(f"{options.PROGRAM}: {error}")
        return output.EXIT_USAGE
    except (VmError, LabFault, NoiseError) as error:
        options.say(f"{options.PROGRAM}: {error}")
        busy = isinstance(error, LabFault) and error.fault is Fault.BUSY
        return output.EXIT_FAILED if busy else output.EXIT_LAB
    except OSError as error:
        where = error.filename or "a file cannot be written"
        options.say(f"{options.PROGRAM}: {where}: {error.strerror}")
        return output.EXIT_FAILED
    except click.Abort:
        options.say(f"{options.PROGRAM}: stopped")
        return 130
    return result


if __name__ == "__main__":
    sys.exit(main())
