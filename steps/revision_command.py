"""`netbisect revision`: which commit a name means."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from netbisect.bisect.model import Commit
from netbisect.reports import words
from netbisect.steps import control
from netbisect.steps.commands import sentences
from netbisect.steps.memory import history_of
from netbisect.steps.settings import load
from netbisect.store.history import History
from netbisect.store.revision_names import RevisionError
from netbisect.store.revisions import Range, Review, resolve, whereabouts

_SHOWN = 6
"""Branches that are told; an old commit is on all that came after it."""
_WRONG, _AMBIGUOUS = 1, 2


@click.command(
    epilog="Example: netbisect revision r311849 main-n302145-0a1b2c3d r311848..stable/12 "
    "--folder /var/netbisect"
)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--branch", help="For numbers and days (default: the first of the settings).")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Where netbisect.toml is (default: the current folder).",
)
@click.option("--no-fetch", is_flag=True, help="Take the tree as it was last fetched.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@sentences
def revision(
    names: tuple[str, ...], branch: str | None, folder: Path, *, no_fetch: bool, as_json: bool
) -> None:
    """Say which commit a name means.

    NAME is a hash or the beginning of one, a number of Subversion (r311849, stable/10@295802), a
    number as in `uname -v` (n302145, main-n302145-0a1b2c3d), a branch, a tag, a day (2026-11-01),
    any of them with ~3 behind it, a review (D5180, D5180@stable/14) or a range (A..B).

    The exit status is 2 where a name may mean several commits, which are listed, and 1 where it
    means none.
    """
    settings, lab = load(folder / control.SETTINGS)
    history = history_of(settings, lab)
    if not no_fetch or not history.is_clone():
        history.update()
    answers, status = [], 0
    for name in names:
        try:
            found = resolve(history, name, default_branch=branch or settings.branches[0])
            answers.append(_answer(history, name, found))
        except RevisionError as error:
            answers.append(_refusal(name, error))
            status = max(status, _AMBIGUOUS if error.candidates else _WRONG)
    if as_json:
        click.echo(json.dumps(answers, indent=2))
    else:
        click.echo("\n\n".join("\n".join(_lines(answer)) for answer in answers))
    sys.exit(status)


def _answer(history: History, name: str, found: Commit | Review | Range) -> dict[str, Any]:
    if isinstance(found, Commit):
        return {"name": name, **_commit(history, found)}
    if isinstance(found, Review):
        base = found.base and _commit(history, found.base)
        return {"name": name, "review": found.name, "base": base}
    return {
        "name": name,
        "good": _commit(history, found.good),
        "bad": _commit(history, found.bad),
        "commits": found.bad.number - found.good.number,
    }


def _commit(history: History, commit: Commit) -> dict[str, Any]:
    there = whereabouts(history, commit.revision)
    return {
        "revision": commit.revision,
        "label": commit.label,
        "number": commit.number,
        "branches": list(there.branches),
        "subversion": list(there.subversion),
        "date": datetime.fromtimestamp(commit.at, UTC).isoformat(),
        "author": f"{commit.author} <{commit.email}>",
        "subject": commit.subject,
    }


def _refusal(name: str, error: RevisionError) -> dict[str, Any]:
    candidates = [
        {
            "name": one.name,
            "revision": one.commit.revision,
            "label": one.commit.label,
            "date": datetime.fromtimestamp(one.commit.at, UTC).isoformat(),
            "subject": one.commit.subject,
        }
        for one in error.candidates
    ]
    return {"name": name, "error": str(error), "candidates": candidates}


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    """An answer as text, whose lines are safe on a terminal."""
    yield words.clean(answer["name"])
    if "error" in answer:
        yield f"  {words.clean(answer['error'])}"
        for one in answer["candidates"]:
            yield f"    {one['name']}  {one['date'][:10]}  {words.clean(one['subject'])}"
    elif "review" in answer:
        yield f"  review      {answer['review']}"
        if answer["base"] is not None:
            yield "  its base"
            yield from (f"  {line}" for line in _of_commit(answer["base"]))
    elif "good" in answer:
        yield f"  range of    {words.count(answer['commits'], 'commit')}"
        for end in ("good", "bad"):
            yield f"  {end}"
            yield from (f"  {line}" for line in _of_commit(answer[end]))
    else:
        yield from _of_commit(answer)


def _of_commit(told: dict[str, Any]) -> Iterator[str]:
    branches = told["branches"]
    more = f" and {len(branches) - _SHOWN} more" if len(branches) > _SHOWN else ""
    rows = {
        "hash": told["revision"],
        "label": told["label"],
        "branches": ", ".join(branches[:_SHOWN]) + more or "none; it was merged from elsewhere",
        "Subversion": ", ".join(told["subversion"]),
        "date": told["date"].replace("T", " ").replace("+00:00", " UTC"),
        "author": told["author"],
        "subject": told["subject"],
    }
    for what, text in rows.items():
        if text:
            yield f"  {what:<11} {words.clean(text)}"
