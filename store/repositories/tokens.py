"""API tokens, with digests of their secrets."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from netbisect.store.db.database import StoreError
from netbisect.store.db.records import Token
from netbisect.store.db.sessions import LedgerRepository, get_row
from netbisect.store.repositories import request_changes


class TokenRepository(LedgerRepository):
    """Stores and reads tokens."""

    def add(
        self, who: str, rights: Sequence[str], digest: str, *, by: str, expires_at: float | None
    ) -> Token:
        """Stores a new token of a user, with an audit entry; see `Token`."""
        with self.writing() as writing:
            row = Token(
                who=who,
                rights=tuple(rights),
                digest=digest,
                created_by=by,
                created_at=writing.now,
                expires_at=expires_at,
            )
            writing.session.add(row)
            writing.session.flush()
            data = {"token": row.id, "for": who, "rights": list(rights)}
            request_changes.add_audit_entry(writing, "token", who=by, via="command", data=data)
            return row

    def get(self, identifier: int) -> Token | None:
        """The token with this id, valid or not, or None."""
        return self._first(select(Token).where(Token.id == identifier))

    def all(self) -> list[Token]:
        """All tokens, valid or not, oldest first."""
        return self._all(select(Token).order_by(Token.id))

    def revoke(self, identifier: int, *, by: str) -> Token:
        """Revokes a token. Raises StoreError if there is none, or it was revoked before."""
        with self.writing() as writing:
            row = get_row(writing.session, Token, identifier)
            if row.revoked_at is not None:
                raise StoreError(f"token {identifier} was revoked before")
            row.revoked_at = writing.now
            data = {"token": identifier, "for": row.who}
            request_changes.add_audit_entry(writing, "revoke", who=by, via="command", data=data)
            return row
