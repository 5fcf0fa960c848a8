"""Revisions by the names that users give them."""

from __future__ import annotations

from netbisect.bisect.model.entities import Commit
from netbisect.steps.queries.lab_context import known_commit
from netbisect.steps.site.folder import SiteRevisionError
from netbisect.store.ledger import Ledger


def resolve(ledger: Ledger, name: str) -> Commit:
    """The measured revision of a hash, its beginning, or n302145. Raises SiteRevisionError."""
    measured = ledger.commits.booted()
    like = [name] if name in measured else [one for one in measured if one.startswith(name)]
    number, _, start = name.lstrip("n").partition("-")
    if not like and number.isdecimal():
        like = [
            one.revision
            for one in ledger.commits.find(measured).values()
            if one.number == int(number) and one.revision.startswith(start)
        ]
    if len(like) != 1:
        known = f"{len(like)} of them begin so" if like else "no kernel of it was measured"
        raise SiteRevisionError(
            f"{name}: {known}; expected more of its hash, or a label such as n302145-0a1b2c3d4e5f"
        )
    return known_commit(ledger, like[0])
