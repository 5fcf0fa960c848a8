"""`netbisect profile`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from netbisect.bisect.model.jobs import ProfileJob
from netbisect.bisect.model.results import Unfinished
from netbisect.steps.policy import profiles
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.settings import Settings, load
from netbisect.steps.service.storage import open_history, open_service_ledger
from netbisect.store.db.records import JobRecord
from netbisect.store.git.resolve import commit_named
from netbisect.store.ledger import Ledger
from netbisect.workers.config.toml import FileError

_MOST = 2


@click.command(
    epilog="Example: netbisect profile --testbed c2558 --scenario inet4-forwarding "
    "0a1b2c3d 4e5f6071 --folder /var/netbisect"
)
@click.argument("revisions", metavar="REV [REV]", nargs=-1, required=True)
@click.option("--testbed", "testbed_name", required=True, help="Testbed.")
@click.option("--scenario", help="Scenario (default: the first of the testbed).")
@click.option("--branch", help="Branch of the revisions (default: the first of the settings).")
@click.option("--who", metavar="NAME", default="", help="Requester.")
@folder_option
def profile(
    revisions: tuple[str, ...],
    testbed_name: str,
    scenario: str | None,
    branch: str | None,
    who: str,
    folder: Path | None,
) -> None:
    """Profile a kernel, or compare the profiles of two.

    The job has a low priority. It boots each revision once and samples it at a load below
    saturation. The measurements do not enter a series.
    """
    if len(revisions) > _MOST:
        raise click.UsageError("expected one or two revisions")
    settings, lab = load(settings_file(folder))
    testbed = lab.testbed(testbed_name)
    if scenario is not None and scenario not in testbed.scenarios:
        raise FileError(
            f"{testbed.name} has no scenario {scenario!r}; found {', '.join(testbed.scenarios)}"
        )
    history = open_history(settings, lab)
    history.update()
    ledger = open_service_ledger(settings)
    branch = branch or settings.branches[0]
    named = (commit_named(history, one, default_branch=branch) for one in revisions)
    commits = list({commit.revision: commit for commit in named}.values())
    ledger.commits.learn(commits, branch)
    hashes = tuple(commit.revision for commit in commits)
    job = ProfileJob(branch, testbed.name, hashes, (scenario or testbed.scenarios[0],))
    record = _queue(ledger, profiles.with_load(ledger, job), who)
    state = "queued" if record.result is None else "done before"
    click.echo(f"job {record.id}: {state}; result: {_address(ledger, settings, record)}")


def _queue(ledger: Ledger, job: ProfileJob, who: str) -> JobRecord:
    """Queues the job; a job that failed is queued again at most once a day."""
    key = profiles.key_of(job)
    priority = profiles.PRIORITY_REQUEST
    record = ledger.jobs.add(job, key=key, priority=priority, requested_by=who)
    if isinstance(record.result, Unfinished):
        key = f"{key}:{time.strftime('%Y-%m-%d', time.gmtime())}"
        record = ledger.jobs.add(job, key=key, priority=priority, requested_by=who)
    return record


def _address(ledger: Ledger, settings: Settings, record: JobRecord) -> str:
    """URL of the result: the report of the alert that requested it too, or a page of its own."""
    alert = ledger.alerts.of_job(record.parent) if record.parent is not None else None
    if alert is not None:
        return settings.report_address(alert.id)
    return settings.profile_address(record.id)
