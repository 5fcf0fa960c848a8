"""netbisect-lab: what the lab can do, one command at a time, with or without the service.

Facts go to standard output, one JSON line each; prose goes to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from netbisect.bisect import wire
from netbisect.bisect.model import Boot, Dud, Fact, Kernel, Reaction
from netbisect.bisect.subject import OVERLAY_MARK
from netbisect.workers import vm
from netbisect.workers.artefact import FACT, ArtefactError, ArtefactStore
from netbisect.workers.aside import aside
from netbisect.workers.bench import Bench
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Lab, Scenario, load_lab, load_scenario
from netbisect.workers.patches import PatchError, PatchStore, read_file
from netbisect.workers.profile import ProfileOrder, file_of
from netbisect.workers.router import Router
from netbisect.workers.soundness import faults
from netbisect.workers.ssh import Connections
from netbisect.workers.tomlfile import FileError
from netbisect.workers.trial import Trial
from netbisect.workers.vm_host import switch_on

EXIT_FAILED = 1
"""Passing trouble: the same again may go well."""
EXIT_USAGE = 2
EXIT_DUD = 3
"""The revision cannot be measured; a Dud on standard output says why."""
EXIT_LAB = 4
"""The testbed or the builder needs its owner."""

_REHEARSALS = 4

_STATUS = {Reaction.INFRA: EXIT_LAB, Reaction.ABORT: EXIT_USAGE}
"""Of a build that gave no kernel, where that is not the revision's doing."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _emit(fact: Fact) -> None:
    print(wire.dumps(fact), flush=True)


@functools.cache
def command_line() -> argparse.ArgumentParser:
    """As argparse has it; completion and the manual page are made from it too."""
    parser = argparse.ArgumentParser(
        prog="netbisect-lab",
        description="Builds kernels, boots them on a testbed, sends packets through them. "
        "Facts are printed as JSON lines on standard output, prose on standard error.",
        epilog="example: netbisect-lab --lab lab.toml doctor",
    )
    parser.add_argument(
        "--lab", type=Path, default=Path("lab.toml"), help="the lab file (default: lab.toml)"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, about: str, example: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=about, description=about, epilog=f"example: netbisect-lab {example}"
        )

    build = command(
        "build",
        "Build the kernel of a revision into the builder's artefact store.",
        "--lab lab.toml build --builder amd64 --revision 0a1b2c3d4e5f... --config GENERIC-NODEBUG",
    )
    build.add_argument("--builder", required=True, help="name of the builder in the lab file")
    build.add_argument(
        "--revision",
        required=True,
        help="full hash of the commit; HASH#3 links it in layout 3, its code at other addresses",
    )
    build.add_argument(
        "--config",
        required=True,
        help="kernel configuration (KERNCONF); GENERIC+fix-igb is GENERIC with that overlay",
    )
    build.add_argument(
        "--review",
        action="append",
        default=[],
        metavar="D5180",
        help="a review whose newest diff is applied first; may be given several times",
    )
    build.add_argument(
        "--patch",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a patch that is applied after the reviews; may be given several times",
    )

    for name, about in (
        ("boot", "Deploy a kernel to a testbed, boot it once, prove that it runs."),
        ("trial", "Boot a kernel once and run scenarios on it: one visit."),
    ):
        one = command(
            name, about, f"--lab lab.toml {name} --testbed c2558 --kernel 5f3a... --kernels kernels"
        )
        _add_kernel(one)
        if name == "trial":
            _add_scenarios(one)
            one.add_argument(
                "--runs",
                type=_count,
                default=1,
                help="runs of each scenario within the boot (default: 1)",
            )

    _add_profile(
        command(
            "profile",
            "Boot a kernel once, send packets at a load below saturation, and see by pmcstat in "
            "which functions it spends its time. Nothing of it enters a series.",
            "--lab lab.toml profile --testbed c2558 --kernel 5f3a... --scenario inet4-forwarding",
        )
    )

    bench = command(
        "bench",
        "Run scenarios on whatever kernel the testbed runs now; for a look, not for the records.",
        "--lab lab.toml bench --testbed c2558 --scenario inet4-forwarding",
    )
    bench.add_argument("--testbed", required=True, help="name of the testbed in the lab file")
    bench.add_argument("--logs", type=Path, help="folder for pkt-gen output")
    _add_scenarios(bench)

    noise = command(
        "image-noise",
        "Measure how much kernels differ that do the same work: build one revision several "
        "times with its code in another order, boot each in turns, tell scatter of images from "
        "scatter of boots. Runs where the builder is, and drives the testbed from there.",
        "--lab lab.toml image-noise --testbed c2558 --revision 0a1b2c3d4e5f... --builds 8",
    )
    noise.add_argument("--testbed", required=True, help="name of the testbed in the lab file")
    noise.add_argument("--builder", help="name of the builder (default: the first of that arch)")
    noise.add_argument("--revision", required=True, help="full hash of the commit")
    noise.add_argument("--builds", type=_several, required=True, help="images to build, 2 or more")
    noise.add_argument(
        "--boots", type=_several, default=3, help="of each image, 2 or more (default: 3)"
    )
    noise.add_argument("--logs", type=Path, help="folder for console and pkt-gen output")
    noise.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _add_scenarios(noise)

    _add_calibrate(command)

    recover = command(
        "recover",
        "Bring a testbed back to its known-good kernel, by its power switch if need be.",
        "--lab lab.toml recover --testbed c2558",
    )
    recover.add_argument("--testbed", required=True, help="name of the testbed in the lab file")
    recover.add_argument(
        "--look",
        action="store_true",
        help="look at its machines and links then; exit status 4 when something is wrong",
    )

    doctor = command(
        "doctor",
        "Look at every machine of the lab; exit status 0 when all is well. Nothing is changed.",
        "--lab lab.toml doctor",
    )
    doctor.add_argument("--testbed", default="", help="look at this one alone")
    doctor.add_argument(
        "--rates",
        action="store_true",
        help="also send packets for ten seconds through whatever each router runs now",
    )
    doctor.add_argument("--json", action="store_true", help="print JSON instead of a table")

    _add_vm(command)
    return parser


def _add_vm(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    one = command(
        "vm",
        "Prepare the virtual machine of a testbed from an image of FreeBSD, once; switch it on, "
        "off, or off and on; or say whether it runs.",
        "--lab lab.toml vm prepare --testbed vm1 FreeBSD-14.3-RELEASE-amd64-BASIC-CI-ufs.qcow2",
    )
    actions = one.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, about in (
        ("prepare", "Make its disk and its key from an image, which is only read."),
        ("start", "Switch it on, with a fresh disk over the prepared one."),
        ("stop", "Switch it off, as a power switch does."),
        ("cycle", "Switch it off and on."),
        ("status", "Say whether it runs; exit status 1 when not."),
    ):
        action = actions.add_parser(name, help=about, description=about)
        action.add_argument("--testbed", required=True, help="name of the testbed in the lab file")
        if name == "prepare":
            action.add_argument("image", type=Path, help="raw or qcow2, of FreeBSD on UFS")


def _add_calibrate(command: Callable[[str, str, str], argparse.ArgumentParser]) -> None:
    one = command(
        "calibrate",
        "Measure the scatter of a testbed: boot one kernel several times, run each scenario "
        "several times on every boot; tell scatter of boots from scatter of runs, what both cost, "
        "and the smallest drop that can be seen.",
        "--lab lab.toml calibrate --testbed c2558 --kernel 5f3a... --boots 10 -o c2558.jsonl",
    )
    one.add_argument("--testbed", required=True, help="name of the testbed in the lab file")
    one.add_argument("--kernel", required=True, help="key of the kernel in the artefact store")
    one.add_argument("--kernels", type=Path, help="artefact store (default: the lab file's)")
    one.add_argument("--boots", type=_several, default=8, help="2 or more (default: 8)")
    one.add_argument(
        "--runs", type=_count, default=3, help="of each scenario within a boot (default: 3)"
    )
    one.add_argument(
        "--image-noise",
        type=_percent,
        metavar="PERCENT",
        help="standard deviation between images, as image-noise measures it",
    )
    one.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="keep every fact there, as JSON lines; what it has already is not measured again",
    )
    one.add_argument("--logs", type=Path, help="folder for console and pkt-gen output")
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    _add_scenarios(one)


def _percent(text: str) -> float:
    number = float(text)
    if not 0 <= number < 50:  # noqa: PLR2004 - half the packets are no noise
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or more, less than 50")
    return number


_percent.__name__ = "number"


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--testbed", required=True, help="name of the testbed in the lab file")
    add("--kernel", required=True, help="key of the kernel in the artefact store")
    add("--kernels", type=Path, help="artefact store (default: the lab file's)")
    add("--logs", type=Path, help="folder for console and pkt-gen output")


def _add_profile(parser: argparse.ArgumentParser) -> None:
    _add_kernel(parser)
    add = parser.add_argument
    add("--scenario", metavar="NAME", help="(default: the first of this testbed)")
    add(
        "--rate",
        type=_positive,
        metavar="PPS",
        help="packets per second to send, below what the kernel forwards (default: the next one)",
    )
    add(
        "--rate-percent",
        type=_positive,
        default=70.0,
        metavar="PERCENT",
        help="of what the kernel forwards, which a run before tells (default: 70)",
    )
    add("--seconds", type=_positive, default=30.0, help="for which to sample (default: 30)")
    add("--event", default="", help="for pmcstat (default: the lab file's, or a common one)")


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return number


_positive.__name__ = "number"  # as argparse names it in its complaint


def _several(text: str) -> int:
    """For argparse: a number without which there is no scatter to see."""
    number = int(text)
    if number < 2:  # noqa: PLR2004 - what several means
        raise argparse.ArgumentTypeError(f"{number}: expected 2 or more")
    return number


_several.__name__ = "number"  # as argparse names it in its complaint


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: expected 1 or more")
    return int(text)


def _add_scenarios(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scenario",
        action="append",
        dest="scenarios",
        metavar="NAME",
        help="may be given several times (default: all that the lab file gives this testbed)",
    )


def _logs(arguments: argparse.Namespace) -> Path:
    if arguments.logs:
        return Path(arguments.logs)
    return Path("netbisect-logs") / time.strftime("%Y%m%d-%H%M%S")


def _build(lab: Lab, arguments: argparse.Namespace) -> int:
    from netbisect.workers import review, userland  # noqa: PLC0415 - a visit loads no more than it needs
    from netbisect.workers.build import KernelBuild  # noqa: PLC0415 - a visit loads no more than it needs

    builder = lab.builder(arguments.builder)
    store = PatchStore(builder.patches)
    patches = [
        *(review.fetch(name, lab.source.review_url) for name in arguments.review),
        *map(read_file, arguments.patch),
    ]
    config = OVERLAY_MARK.join([arguments.config, *map(store.put, patches)])
    needs = userland.needs_of(lab, builder.arch, config.partition(OVERLAY_MARK)[0])
    build = KernelBuild(builder, lab.source, arguments.revision, config, _say, needs=needs)
    result = build.run()
    _emit(result)
    if isinstance(result, Dud):
        _say(f"no kernel: {result.why}")
        return _STATUS.get(result.reaction, EXIT_DUD)
    build.kernels.prune(lab.kernel_bytes, [result.key])
    _say(f"built {result.version} in {result.seconds:.1f} s: {build.kernels.archive(result.key)}")
    return 0


def _fact(path: Path) -> Kernel:
    try:
        return wire.loads_as(path.read_text(), Kernel)
    except (OSError, wire.WireError) as error:
        raise ArtefactError(f"{path}: {error}") from error


def _scenarios(lab: Lab, names: Sequence[str]) -> list[Scenario]:
    return [load_scenario(name, lab.scenario_directories) for name in names]


@contextlib.contextmanager
def _kernel(lab: Lab, arguments: argparse.Namespace) -> Iterator[tuple[Kernel, Path]]:
    """The kernel, which stays where it is as long as it is used."""
    store = ArtefactStore(arguments.kernels or lab.kernels)
    with store.lease(arguments.kernel) as archive:
        yield aside(functools.partial(_fact, archive.parent / FACT)), archive
    if not arguments.kernels:  # what somebody else names is not ours to tidy
        store.prune(lab.kernel_bytes, [arguments.kernel])


def _boot(lab: Lab, arguments: argparse.Namespace) -> int:
    return _trial(lab, arguments, names=[], runs=1)


def _trial(
    lab: Lab,
    arguments: argparse.Namespace,
    names: Sequence[str] | None = None,
    runs: int | None = None,
) -> int:
    testbed = lab.testbed(arguments.testbed)
    if names is None:
        names = arguments.scenarios or testbed.scenarios
    scenarios = aside(functools.partial(_scenarios, lab, names))
    emitted: list[Fact] = []

    def emit(fact: Fact) -> None:
        emitted.append(fact)
        _emit(fact)

    with _kernel(lab, arguments) as (kernel, archive), Connections(lab.ssh) as connections:
        trial = Trial(testbed, kernel, archive, scenarios, _logs(arguments), runs or arguments.runs)
        sound = trial.run(connections, emit, _say)
    if not sound:
        return EXIT_LAB
    return EXIT_DUD if any(isinstance(fact, Dud) for fact in emitted) else 0


def _profile(lab: Lab, arguments: argparse.Namespace) -> int:
    testbed = lab.testbed(arguments.testbed)
    name = arguments.scenario or testbed.scenarios[0]
    (scenario,) = aside(functools.partial(_scenarios, lab, [name]))
    logs = _logs(arguments)
    try:
        with _kernel(lab, arguments) as (kernel, archive), Connections(lab.ssh) as connections:
            profile = ProfileOrder(
                testbed,
                kernel,
                archive,
                scenario,
                logs,
                pps=arguments.rate or 0.0,
                rate_percent=arguments.rate_percent,
                seconds=arguments.seconds,
                event=arguments.event,
            ).run(connections, _emit, _say)
    except LabFault as fault:
        _say(f"netbisect-lab: {fault.why}")
        return EXIT_LAB if fault.reaction is Reaction.QUARANTINE else EXIT_FAILED
    if profile is None:
        return EXIT_DUD
    print(wire.dumps(profile), flush=True)
    if profile.problem:
        _say(f"no profile: {profile.problem}")
        return EXIT_DUD
    _say(f"{profile.samples:,} samples: {logs / file_of(name, 'folded')}")
    return 0


def _bench(lab: Lab, arguments: argparse.Namespace) -> int:
    testbed = lab.testbed(arguments.testbed)
    names = arguments.scenarios or testbed.scenarios
    scenarios = _scenarios(lab, names)
    with Connections(lab.ssh) as connections:
        running = Router(testbed, connections, _say).reach()
        boot = Boot("by-hand", testbed.name, "", running.version, running.boottime, 0.0)
        bench = Bench(testbed, connections, _say, _logs(arguments))
        try:
            for scenario in scenarios:
                _, sample = bench.measure(scenario, boot)
                _emit(sample)
        finally:
            bench.clean_up()
    return 0


def _image_noise(lab: Lab, arguments: argparse.Namespace) -> int:
    from netbisect.workers.image_noise import (  # noqa: PLC0415 - a visit loads no more than it needs
        ImageNoiseError,
        Plan,
        as_data,
        as_text,
        measure,
    )

    testbed = lab.testbed(arguments.testbed)
    same = [builder.name for builder in lab.builders if builder.arch == testbed.arch]
    plan = Plan(
        lab=lab,
        testbed=testbed,
        builder=lab.builder(arguments.builder or same[0]),
        revision=arguments.revision,
        builds=arguments.builds,
        boots=arguments.boots,
        scenarios=_scenarios(lab, arguments.scenarios or testbed.scenarios),
        logs=_logs(arguments),
        say=_say,
    )
    try:
        rates = measure(plan)
        if isinstance(rates, Dud):
            _emit(rates)
            _say(f"no image noise: {rates.why}")
            return EXIT_DUD
        print(json.dumps(as_data(plan, rates)) if arguments.json else as_text(plan, rates))
    except ImageNoiseError as error:
        _say(f"netbisect-lab: {error}")
        return EXIT_LAB
    ArtefactStore(plan.builder.kernels).prune(lab.kernel_bytes)
    return 0


def _calibrate(lab: Lab, arguments: argparse.Namespace) -> int:
    from netbisect.workers import calibrate, scatter  # noqa: PLC0415 - a visit loads no more than it needs

    testbed = lab.testbed(arguments.testbed)
    with _kernel(lab, arguments) as (kernel, archive):
        noise = arguments.image_noise
        plan = calibrate.Plan(
            lab=lab,
            testbed=testbed,
            kernel=kernel,
            archive=archive,
            boots=arguments.boots,
            runs=arguments.runs,
            scenarios=_scenarios(lab, arguments.scenarios or testbed.scenarios),
            logs=_logs(arguments),
            say=_say,
            image_sd=None if noise is None else noise / 100,
            kept=arguments.output,
        )
        try:
            runs = calibrate.measure(plan)
            if arguments.json:
                print(json.dumps(scatter.as_data(plan, runs)))
            else:
                print(scatter.as_text(plan, runs))
        except calibrate.CalibrationError as error:
            _say(f"netbisect-lab: {error}")
            return EXIT_LAB
    return 0


def _recover(lab: Lab, arguments: argparse.Namespace) -> int:
    testbed = lab.testbed(arguments.testbed)
    with Connections(lab.ssh) as connections:
        running = Router(testbed, connections, _say).recover()
        _say(f"{testbed.name}: on {running.directory}")
        wrong = [fault.why for fault in faults(testbed, connections)] if arguments.look else []
    if wrong:
        _say(f"netbisect-lab: {'; '.join(wrong)}")
    return EXIT_LAB if wrong else 0


def _doctor(lab: Lab, arguments: argparse.Namespace) -> int:
    from netbisect.workers.doctor import examine  # noqa: PLC0415 - a visit loads no more than it needs

    checks = list(examine(lab, testbed=arguments.testbed, rates=arguments.rates))
    if arguments.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        widths = [max(len(getattr(check, name)) for check in checks) for name in ("where", "what")]
        for check in checks:
            mark = "ok  " if check.good else "FAIL"
            print(f"{mark} {check.where:{widths[0]}}  {check.what:{widths[1]}}  {check.found}")
        bad = sum(not check.good for check in checks)
        _say(f"{len(checks)} checks, {bad} failed" if bad else f"{len(checks)} checks, all well")
    return 0 if all(check.good for check in checks) else EXIT_LAB


def _vm(lab: Lab, arguments: argparse.Namespace) -> int:
    from netbisect.workers import vm_prepare  # noqa: PLC0415 - a visit loads no more than it needs

    testbed = lab.testbed(arguments.testbed)
    machine, action = testbed.vm, arguments.action
    if machine is None:
        raise FileError(f"testbed {testbed.name!r} has no table `vm` in the lab file")
    try:
        if action == "prepare":
            vm_prepare.prepare(machine, arguments.image, testbed.timing.boot_timeout, _say)
            _say(f"{testbed.name}: prepared in {machine.directory}")
        if action in ("stop", "cycle"):
            vm.stop(machine)
        if action in ("start", "cycle"):
            switch_on(testbed)
        if action == "status":
            process = vm.process_of(machine)
            _say(f"{testbed.name}: {f'on, process {process}' if process else 'off'}")
            return 0 if process else EXIT_FAILED
        if action in ("start", "cycle"):
            for concern in vm.concerns():
                _say(f"{testbed.name}: {concern}")
    except vm.VmError as error:
        _say(f"netbisect-lab: {error}")
        return EXIT_LAB
    return 0


def _read(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Lab]:
    parsed = command_line().parse_args(arguments)
    return parsed, load_lab(parsed.lab)


def rehearse(arguments: Sequence[str]) -> None:
    """Does what a command begins with, and drops what comes of it.

    Code that has run a few times has got its final form, and what is forked then shares it.
    """
    wire.prepare()
    with contextlib.suppress(SystemExit, FileError):
        for _ in range(_REHEARSALS):
            _, lab = _read(arguments)
            _scenarios(lab, lab.testbeds[0].scenarios)


def _stop(number: int, _: object) -> NoReturn:
    # As an exception, so that every `finally` on the way leaves its machine clean.
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    actions = {
        "build": _build,
        "boot": _boot,
        "trial": _trial,
        "profile": _profile,
        "bench": _bench,
        "image-noise": _image_noise,
        "calibrate": _calibrate,
        "recover": _recover,
        "doctor": _doctor,
        "vm": _vm,
    }
    try:
        parsed, lab = aside(functools.partial(_read, arguments))
        return actions[parsed.command](lab, parsed)
    except (FileError, ArtefactError, PatchError) as error:
        _say(f"netbisect-lab: {error}")
        return EXIT_USAGE
    except LabFault as fault:
        _say(f"netbisect-lab: {fault.why}")
        return EXIT_LAB
    except KeyboardInterrupt:
        _say("netbisect-lab: stopped")
        return 130


if __name__ == "__main__":
    sys.exit(main())
