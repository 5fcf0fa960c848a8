"""`netbisect revision`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from netbisect.cli.listing import json_option, print_json
from netbisect.reports.documents.api import NamedCommit, Refusal, RevisionMatches
from netbisect.reports.documents.json_schema import as_plain
from netbisect.reports.render import words
from netbisect.steps.queries.revision import answer, refusal
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.settings import load
from netbisect.steps.service.storage import open_history
from netbisect.store.git.grammar import RevisionError
from netbisect.store.git.resolve import resolve

_SHOWN = 6
"""Number of branches listed."""
_WRONG, _AMBIGUOUS = 1, 2


@click.command(
    epilog="Example: netbisect revision r311849 main-n302145-0a1b2c3d r311848..stable/12 "
    "--folder /var/netbisect"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--branch", help="Branch of numbers and days (default: the first of the settings).")
@folder_option
@click.option("--no-fetch", is_flag=True, help="Do not fetch first.")
@json_option
def revision(
    names: tuple[str, ...],
    branch: str | None,
    folder: Path | None,
    *,
    no_fetch: bool,
    as_json: bool,
) -> None:
    """Show the commit that a name refers to.

    NAME is a full or abbreviated hash, a Subversion revision (r311849, stable/10@295802), a number
    of `uname -v` (n302145, main-n302145-0a1b2c3d), a branch, a tag, a day (2026-11-01), any of
    these with a suffix ~3, a review (D5180, D5180@stable/14) or a range (A..B).

    The exit status is 1 if a name is unknown and 2 if it is ambiguous; the candidates are listed.
    """
    settings, lab = load(settings_file(folder))
    history = open_history(settings, lab)
    if not no_fetch or not history.is_clone():
        history.update()
    answers: list[tuple[str, RevisionMatches | Refusal]] = []
    status = 0
    for name in names:
        try:
            found = resolve(history, name, default_branch=branch or settings.branches[0])
            answers.append((name, answer(history, name, found)))
        except RevisionError as error:
            answers.append((name, refusal(error)))
            status = max(status, _AMBIGUOUS if error.candidates else _WRONG)
    if as_json:
        print_json([{"name": name} | as_plain(found) for name, found in answers])
    else:
        click.echo("\n\n".join("\n".join(_lines(*one)) for one in answers))
    sys.exit(status)


def _lines(name: str, found: RevisionMatches | Refusal) -> Iterator[str]:
    """An answer as lines of text without control characters."""
    yield words.clean(name)
    if isinstance(found, Refusal):
        yield f"  {words.clean(found.error)}"
        for one in found.candidates:
            yield f"    {one.name}  {one.date[:10]}  {words.clean(one.subject)}"
        return
    if found.review:
        yield f"  review      {found.review}"
    if found.commits is not None:
        yield f"  range of    {words.count(found.commits, 'commit')}"
    parts = {"its base": found.commit, "good": found.good, "bad": found.bad}
    for title, commit in parts.items():
        if commit is not None and found.kind == "commit":
            yield from _of_commit(commit)
        elif commit is not None:
            yield f"  {title}"
            yield from (f"  {line}" for line in _of_commit(commit))


def _of_commit(commit: NamedCommit) -> Iterator[str]:
    more = len(commit.branches) - _SHOWN
    branches = ", ".join(commit.branches[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    rows = {
        "hash": commit.revision,
        "label": commit.label,
        "branches": branches or "none",
        "Subversion": ", ".join(commit.subversion),
        "date": commit.date.replace("T", " ").replace("+00:00", " UTC"),
        "author": commit.author,
        "subject": commit.subject,
    }
    for what, text in rows.items():
        if text:
            yield f"  {what:<11} {words.clean(text)}"
