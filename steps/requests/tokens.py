"""API tokens: `netbisect-`, a number, and 32 random bytes.

The database keeps the SHA-256 of the bytes. A slow hash is not needed, because random bytes cannot
be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from netbisect.steps.service.rights import Right
from netbisect.store.db.records import Token
from netbisect.store.ledger import Ledger

_PREFIX = "netbisect"
_BYTES = 32
_DAY = 86400.0
_FORM = re.compile(rf"{_PREFIX}-([1-9][0-9]{{0,8}})-([A-Za-z0-9_-]{{43}})")
_NO_DIGEST = hashlib.sha256(b"").hexdigest()


def create(
    ledger: Ledger, who: str, rights: frozenset[Right], *, by: str, days: float | None
) -> tuple[Token, str]:
    """Stores a new token for `who`, which is valid for so many days, or unlimited.

    Returns the record, and the text of the token, which is not stored.
    """
    secret = secrets.token_urlsafe(_BYTES)
    expires_at = None if days is None else ledger.clock() + days * _DAY
    names = sorted(right.value for right in rights)
    token = ledger.tokens.add(who, names, _digest(secret), by=by, expires_at=expires_at)
    return token, f"{_PREFIX}-{token.id}-{secret}"


def authenticate(ledger: Ledger, text: str) -> Token | None:
    """Returns the valid token with this text, or None."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    token = ledger.tokens.get(int(form[1]))
    # Always compared, and in constant time, so that timing reveals nothing.
    same = hmac.compare_digest(token.digest if token else _NO_DIGEST, _digest(form[2]))
    return token if same and token is not None and token.counts(ledger.clock()) else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
