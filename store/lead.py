"""Which of several masters conducts: with one ledger, only one of them may give orders."""

from __future__ import annotations

from sqlalchemy import Connection, exc, text

from netbisect.store.database import speaking
from netbisect.store.sessions import Sessions

_THE_LEAD = 6328_2475
"""The advisory lock's number, beside that of writers' turns."""


class Lead(Sessions):
    """A lock of the database that ends with the connection that has it.

    It is released by whatever ends this process or its way to the database, and by nothing else.
    """

    _held: Connection | None = None

    def leads(self) -> bool:
        """Whether this ledger's process is the one that gives orders; it tries to become that.

        On SQLite, whose file is of one host and one master, it always is.

        Raises:
            LostError: the database is away.
        """
        if self.has_lead():
            return True
        with speaking(self.engine):
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            if connection.scalar(text(f"SELECT pg_try_advisory_lock({_THE_LEAD})")):
                self._held = connection
                return True
            connection.close()
            return False

    def has_lead(self) -> bool:
        """Whether it is that already, and still; it tries nothing."""
        if self.engine.dialect.name == "sqlite":
            return True
        if self._held is not None:
            try:
                # It is there, and so is the lock: they end together.
                self._held.execute(text("SELECT 1"))
            except exc.DBAPIError:
                self.give_up_lead()
        return self._held is not None

    def give_up_lead(self) -> None:
        """Lets another one lead."""
        if self._held is not None:
            # The server forgets the lock with the connection, which must not return to the pool.
            self._held.invalidate()
            self._held.close()
            self._held = None
