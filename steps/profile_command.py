"""`netbisect profile`: asks the lab where kernels spend their time."""

from __future__ import annotations

import time
from pathlib import Path

import click

from netbisect.bisect.model import Profiling, Unfinished
from netbisect.steps import control, profiles
from netbisect.steps.commands import sentences
from netbisect.steps.memory import history_of, ledger_of
from netbisect.steps.settings import Settings, load
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked
from netbisect.store.revisions import commit_named
from netbisect.workers.tomlfile import FileError

_MOST = 2


@click.command(
    epilog="Example: netbisect profile --testbed c2558 --scenario inet4-forwarding "
    "0a1b2c3d 4e5f6071 --folder /var/netbisect"
)
@click.argument("revisions", metavar="REV [REV]", nargs=-1, required=True)
@click.option("--testbed", "testbed_name", required=True, help="Where.")
@click.option("--scenario", help="Under which load (default: the first of the testbed).")
@click.option("--branch", help="Of the revisions (default: the first that the settings name).")
@click.option("--who", metavar="NAME", default="", help="Who wants to know, for all who ask later.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where netbisect.toml is (default: the current folder).",
)
@sentences
def profile(
    revisions: tuple[str, ...],
    testbed_name: str,
    scenario: str | None,
    branch: str | None,
    who: str,
    folder: Path,
) -> None:
    """See in which functions a kernel spends its time, or what became hotter between two.

    The lab does it when neither a search nor a comparison wants the testbed: a boot for each
    revision, at a load below saturation. Nothing of it enters a series.
    """
    if len(revisions) > _MOST:
        raise click.UsageError("one revision, or the earlier and the later of two, would be right")
    settings, lab = load(folder / control.SETTINGS)
    testbed = lab.testbed(testbed_name)
    if scenario is not None and scenario not in testbed.scenarios:
        raise FileError(
            f"{testbed.name} has no scenario {scenario!r}; there is {', '.join(testbed.scenarios)}"
        )
    history = history_of(settings, lab)
    history.update()
    ledger = ledger_of(settings)
    branch = branch or settings.branches[0]
    named = (commit_named(history, one, default_branch=branch) for one in revisions)
    commits = list({commit.revision: commit for commit in named}.values())
    ledger.learn(commits, branch)
    question = profiles.with_load(
        ledger,
        Profiling(
            branch,
            testbed.name,
            tuple(commit.revision for commit in commits),
            (scenario or testbed.scenarios[0],),
        ),
    )
    asked = _ask(ledger, question, who)
    state = "is asked" if asked.finding is None else "was answered before"
    click.echo(f"question {asked.id} {state}; the answer: {_address(ledger, settings, asked)}")


def _ask(ledger: Ledger, question: Profiling, who: str) -> Asked:
    """Asks; again, once a day, where the last answer was none."""
    key = profiles.key_of(question)
    priority = profiles.PRIORITY_REQUEST
    asked = ledger.ask(question, key=key, priority=priority, requested_by=who)
    if isinstance(asked.finding, Unfinished):
        key = f"{key}:{time.strftime('%Y-%m-%d', time.gmtime())}"
        asked = ledger.ask(question, key=key, priority=priority, requested_by=who)
    return asked


def _address(ledger: Ledger, settings: Settings, asked: Asked) -> str:
    """Where people find what comes of it: on the page of an alert that has asked for it too."""
    alert = ledger.alert_about(asked.parent) if asked.parent is not None else None
    if alert is not None:
        return settings.report_address(alert.id)
    return settings.profile_address(asked.id)
