"""`netbisect revision`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from netbisect.cli.listing import json_option, print_json
from netbisect.reports.documents.api import RevisionMatches
from netbisect.reports.render import words
from netbisect.steps.queries.revision import answer, refusal
from netbisect.steps.service.database_thread import open_history
from netbisect.steps.service.options import folder_option, settings_file
from netbisect.steps.service.settings import load
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
    """Show the commit that a name means.

    NAME is a full or abbreviated hash, a Subversion revision (r311849, stable/10@295802), a number
    of `uname -v` (n302145, main-n302145-0a1b2c3d), a branch, a tag, a day (2026-11-01), any of
    these with a suffix ~3, a review (D5180, D5180@stable/14) or a range (A..B).

    The exit status is 1 if a name is unknown and 2 if it is ambiguous; the candidates are listed.
    """
    settings, lab = load(settings_file(folder))
    history = open_history(settings, lab)
    if not no_fetch or not history.is_clone():
        history.update()
    answers, status = [], 0
    for name in names:
        try:
            found = resolve(history, name, default_branch=branch or settings.branches[0])
            answers.append(_match(answer(history, name, found)))
        except RevisionError as error:
            refused = asdict(refusal(error))
            answers.append({"name": name, **{key: refused[key] for key in ("error", "candidates")}})
            status = max(status, _AMBIGUOUS if error.candidates else _WRONG)
    if as_json:
        print_json(answers)
    else:
        click.echo("\n\n".join("\n".join(_lines(one)) for one in answers))
    sys.exit(status)


def _match(found: RevisionMatches) -> dict[str, Any]:
    """The meaning of a name, as --json prints it."""
    data = asdict(found)
    if found.kind == "commit":
        return {"name": found.name, **data["commit"]}
    if found.kind == "review":
        return {"name": found.name, "review": found.review, "base": data["commit"]}
    return {key: data[key] for key in ("name", "good", "bad", "commits")}


def _lines(document: dict[str, Any]) -> Iterator[str]:
    """An answer as lines of text without control characters."""
    yield words.clean(document["name"])
    if "error" in document:
        yield f"  {words.clean(document['error'])}"
        for one in document["candidates"]:
            yield f"    {one['name']}  {one['date'][:10]}  {words.clean(one['subject'])}"
    elif "review" in document:
        yield f"  review      {document['review']}"
        if document["base"] is not None:
            yield "  its base"
            yield from (f"  {line}" for line in _of_commit(document["base"]))
    elif "good" in document:
        yield f"  range of    {words.count(document['commits'], 'commit')}"
        for end in ("good", "bad"):
            yield f"  {end}"
            yield from (f"  {line}" for line in _of_commit(document[end]))
    else:
        yield from _of_commit(document)


def _of_commit(document: dict[str, Any]) -> Iterator[str]:
    branches = document["branches"]
    more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
    rows = {
        "hash": document["revision"],
        "label": document["label"],
        "branches": ", ".join(branches[:_SHOWN]) + more or "none",
        "Subversion": ", ".join(document["subversion"]),
        "date": document["date"].replace("T", " ").replace("+00:00", " UTC"),
        "author": document["author"],
        "subject": document["subject"],
    }
    for what, text in rows.items():
        if text:
            yield f"  {what:<11} {words.clean(text)}"
