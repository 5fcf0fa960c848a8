"""`netbisect-lab image-noise` and `calibrate`: measurement noise of a testbed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from netbisect.bisect.model.entities import Failure, Kernel
from netbisect.workers.build.artifacts import ArtefactStore
from netbisect.workers.cli import options, output
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.measure import calibrate, image_noise, noise_report

_kept_option = click.option(
    "-o",
    "--output",
    "kept",
    type=options.PATH,
    metavar="FILE",
    help="Store all facts there as JSON lines; those it has are not measured again.",
)


@click.command(
    "image-noise",
    epilog=options.example(
        "image-noise --testbed c2558 --revision 0a1b2c3d4e5f... --builds 8 -o images.jsonl"
    ),
)
@options.testbed_option
@click.option("--builder", help="Name of the builder (default: the first of that arch).")
@click.option(
    "--revision", type=options.CommitHash(), required=True, help="Full hash of the commit."
)
@click.option(
    "--config", default="", help="Kernel configuration (default: the only one of the testbed)."
)
@click.option("--builds", type=options.SEVERAL, required=True, help="Images to build.")
@click.option(
    "--boots", type=options.SEVERAL, default=3, show_default=True, help="Boots of each image."
)
@_kept_option
@options.logs_option
@options.as_json_option
@options.scenarios_option
@options.with_lab
def image_noise_command(
    lab: Lab,
    *,
    testbed: str,
    builder: str | None,
    revision: str,
    config: str,
    builds: int,
    boots: int,
    kept: Path | None,
    logs: Path | None,
    as_json: bool,
    names: Sequence[str],
) -> int:
    """Measure how much kernels built from the same code differ.

    Builds one revision several times with different link layouts, boots the images interleaved,
    and separates image noise from boot noise. Run it on the build host.
    """
    bed = lab.testbed(testbed)
    if not config and len(bed.kernel_configs) > 1:
        raise click.UsageError(
            f"{bed.name} has several kernel configurations; "
            f"expected --config {' or '.join(bed.kernel_configs)}"
        )
    same = [one.name for one in lab.builders if one.arch == bed.arch]
    plan = image_noise.ImageNoisePlan(
        lab=lab,
        testbed=bed,
        builder=lab.builder(builder or same[0]),
        revision=revision,
        config=config or bed.kernel_configs[0],
        builds=builds,
        boots=boots,
        kept=kept,
        scenarios=options.load_scenarios(lab, names or bed.scenarios),
        logs=options.folder_of_logs(logs),
        say=options.say,
    )
    rates = image_noise.measure(plan)
    if isinstance(rates, Failure):
        output.emit(rates)
        options.say(f"no image noise: {rates.why}")
        return output.EXIT_UNMEASURABLE
    click.echo(
        json.dumps(image_noise.as_data(plan, rates))
        if as_json
        else image_noise.as_text(plan, rates)
    )
    options.prune(ArtefactStore(plan.builder.kernels), lab)
    return 0


@click.command(
    "calibrate",
    epilog=options.example("calibrate --testbed c2558 --kernel 5f3a... --boots 10 -o c2558.jsonl"),
)
@options.with_kernel
@click.option("--boots", type=options.SEVERAL, default=8, show_default=True, help="Boots.")
@click.option(
    "--runs",
    type=options.COUNT,
    default=3,
    show_default=True,
    help="Runs of each scenario within a boot.",
)
@click.option(
    "--image-noise",
    "image_percent",
    type=options.FiniteRange(min=0, max=50, max_open=True),
    metavar="PERCENT",
    help="Standard deviation between images, as image-noise measures it.",
)
@_kept_option
@options.as_json_option
@options.scenarios_option
def calibrate_command(
    lab: Lab,
    testbed: Testbed,
    kernel: Kernel,
    archive: Path,
    logs: Path,
    *,
    boots: int,
    runs: int,
    image_percent: float | None,
    kept: Path | None,
    as_json: bool,
    names: Sequence[str],
) -> int:
    """Measure the noise of a testbed.

    Boots one kernel several times and runs each scenario several times on every boot. Prints the
    noise of boots and of runs, their costs, and the smallest detectable drop.
    """
    plan = calibrate.CalibrationPlan(
        lab=lab,
        testbed=testbed,
        kernel=kernel,
        archive=archive,
        boots=boots,
        runs=runs,
        scenarios=options.load_scenarios(lab, names or testbed.scenarios),
        logs=logs,
        say=options.say,
        image_sd=None if image_percent is None else image_percent / 100,
        kept=kept,
    )
    found = calibrate.measure(plan)
    text = json.dumps(noise_report.as_data(plan, found)) if as_json else ""
    click.echo(text or noise_report.as_text(plan, found))
    return 0
