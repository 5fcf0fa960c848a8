"""Marks of users on commits of searches."""

from __future__ import annotations

from dataclasses import asdict

from netbisect.bisect.model.jobs import BisectJob
from netbisect.bisect.model.marks import CommitMark, MarkVerdict
from netbisect.store.db.database import NotAllowedError
from netbisect.store.db.records import Alert, JobRecord, MarkRow
from netbisect.store.db.sessions import LedgerRepository, get_row
from netbisect.store.repositories.alert_changes import note_change
from netbisect.store.repositories.evidence import marks_of


class MarkRepository(LedgerRepository):
    """Stores and reads marks."""

    def add(self, alert: int, name: str, verdict: MarkVerdict, *, who: str, why: str) -> CommitMark:
        """Marks a candidate of the search of an alert, and notes it in the alert's history.

        `name` is the beginning of the commit's hash.

        Raises:
            NotFoundError: There is no such alert.
            NotAllowedError: It has no search, the search has ended, it has not exactly one such
                candidate, or the reason is empty.
        """
        if not why.strip():
            raise NotAllowedError(f"a mark of {name} needs a reason, and none was given")
        with self.writing() as writing:
            row = get_row(writing.session, Alert, alert)
            search = None
            if row.bisection is not None:
                search = get_row(writing.session, JobRecord, row.bisection)
            mark = CommitMark(_candidate(search, alert, name), verdict, why, who, writing.now)
            note_change(writing, row, who=who, what=f"{mark.revision[:12]} was {mark}")
            assert search is not None
            writing.session.add(MarkRow(job=search.id, **asdict(mark)))
            return mark

    def of_search(self, search: int) -> list[CommitMark]:
        """The marks of a search, oldest first."""
        with self.reading() as session:
            return marks_of(session, search)


def _candidate(search: JobRecord | None, alert: int, name: str) -> str:
    """The one candidate whose hash begins with `name`."""
    if search is None or search.result is not None or not isinstance(search.job, BisectJob):
        raise NotAllowedError(f"alert {alert} has no running search; marks apply to its candidates")
    every = [one.revision for one in search.job.candidates]
    found = [revision for revision in every if name and revision.startswith(name)]
    if len(found) != 1:
        raise NotAllowedError(
            f"{name!r}: expected the first digits of one of the {len(every)} candidates of "
            f"alert {alert}, and {len(found)} begin so"
        )
    return found[0]
