"""`netbisect-lab build`: the kernel of a revision."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from netbisect.bisect.model.entities import Failure, Reaction
from netbisect.bisect.model.revision_key import OVERLAY_MARK
from netbisect.workers.build import phabricator, userland
from netbisect.workers.build.build import KernelBuild
from netbisect.workers.build.patches import PatchStore, read_file
from netbisect.workers.cli import options, output
from netbisect.workers.config.lab import Lab

_STATUS = {Reaction.INFRA: output.EXIT_LAB, Reaction.ABORT: output.EXIT_USAGE}
"""Exit status by reaction of a failed build."""


@click.command(
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
    options.prune(work.kernels, lab, result.key)
    options.say(
        f"built {result.version} in {result.seconds:.1f} s: {work.kernels.archive(result.key)}"
    )
    return 0
