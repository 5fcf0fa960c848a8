"""Series as a whole: the same levels and baselines as one at a time, and earlier epochs too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model.entities import Level
from netbisect.store.db.database import open_database
from netbisect.store.ledger import Ledger
from netbisect.store.repositories.series import EndedChange, EndedChanges


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    engine = open_database(url)
    yield Ledger(engine)
    engine.dispose()


_FEW = st.integers(0, 12)


@given(st.lists(st.builds(EndedChange, _FEW, st.none() | _FEW, _FEW)), _FEW, _FEW)
def test_a_level_is_kept_unless_a_change_that_is_over_was_there(
    gaps: list[EndedChange], number: int, at: int
) -> None:
    """From the commit with which it came to that with which it went, or until it was over."""

    def there(gap: EndedChange) -> bool:
        gone = at >= gap.closed_at if gap.end is None else number >= gap.end
        return number >= gap.start and not gone

    level = Level("r", "k", float(at), (0.0,), saturated=False)
    assert EndedChanges(gaps).keep(number, level) is not any(map(there, gaps))
