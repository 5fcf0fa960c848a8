"""The ledger: everything that is remembered, behind one door.

No SQL outside this folder. Every method is one short transaction of its own, so that a ledger
can be used from any thread, and from several processes at once.
"""

from __future__ import annotations

from netbisect.store.alerts import Alerts
from netbisect.store.beside import Besides
from netbisect.store.counts import Counts
from netbisect.store.decisions import Decisions
from netbisect.store.evidence import EvidenceReader
from netbisect.store.facts import Facts
from netbisect.store.lead import Lead
from netbisect.store.lookup import Lookup
from netbisect.store.marks import Marks
from netbisect.store.nights import Nights
from netbisect.store.outbox import Outbox
from netbisect.store.quarantines import Quarantines
from netbisect.store.questions import Questions
from netbisect.store.requests import Requests
from netbisect.store.samples import Samples
from netbisect.store.series import Series
from netbisect.store.sessions import Events
from netbisect.store.tokens import Tokens
from netbisect.store.trails import Trails


class Ledger(
    Facts,
    Questions,
    Decisions,
    EvidenceReader,
    Series,
    Samples,
    Trails,
    Besides,
    Marks,
    Nights,
    Alerts,
    Outbox,
    Events,
    Lookup,
    Lead,
    Quarantines,
    Requests,
    Tokens,
    Counts,
):
    """Append and read; made as `Ledger(open_database(url))` once `migrate` has been called."""
