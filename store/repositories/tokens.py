"""API tokens, with digests of their secrets."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Token
from netbisect.store.db.rows import record_of
from netbisect.store.db.sessions import LedgerRepository, get_row
from netbisect.store.db.tables import TokenRow
from netbisect.store.repositories import request_changes


class TokenRepository(LedgerRepository):
    """Stores and reads tokens."""

    def add(
        self, who: str, rights: Sequence[str], digest: str, *, by: str, expires_at: float | None
    ) -> Token:
        """Stores a new token, with an audit entry.

        Args:
            who: Its user.
            rights: Names of rights.
            digest: SHA-256 of its secret, in hexadecimal digits.
            by: Author.
            expires_at: Time of expiry, or None.
        """
        with self.writing() as writing:
            row = TokenRow(
                who=who,
                rights=list(rights),
                digest=digest,
                created_by=by,
                created_at=writing.now,
                expires_at=expires_at,
                revoked_at=None,
            )
            writing.session.add(row)
            writing.session.flush()
            data = {"token": row.id, "for": who, "rights": list(rights)}
            request_changes.add_audit_entry(
                writing, None, "token", who=by, via="command", data=data
            )
            return record_of(Token, row)

    def get(self, identifier: int) -> Token | None:
        """The token with this id, valid or not, or None."""
        with self.reading() as session:
            row = session.get(TokenRow, identifier)
            return None if row is None else record_of(Token, row)

    def all(self) -> list[Token]:
        """All tokens, valid or not, oldest first."""
        with self.reading() as session:
            return [
                record_of(Token, row) for row in session.scalars(select(TokenRow).order_by("id"))
            ]

    def revoke(self, identifier: int, *, by: str) -> Token:
        """Revokes a token.

        Raises:
            StoreError: there is none, or it is revoked already.
        """
        with self.writing() as writing:
            row = get_row(writing.session, TokenRow, identifier)
            if row.revoked_at is not None:
                raise StoreError(f"token {identifier} was revoked before")
            row.revoked_at = writing.now
            data = {"token": identifier, "for": row.who}
            request_changes.add_audit_entry(
                writing, None, "revoke", who=by, via="command", data=data
            )
            return record_of(Token, row)
