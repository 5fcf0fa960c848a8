"""Tokens: what programs show instead of a login. A token is a number and 32 random bytes.

Of the bytes only their SHA-256 is kept. They are random, so that nobody finds them by trying, and a
slow function, as for passwords, would only slow down those who know them.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from netbisect.steps.rights import Right
from netbisect.store.ledger import Ledger
from netbisect.store.records import Token

_PREFIX = "netbisect"
_BYTES = 32
_DAY = 86400.0
_FORM = re.compile(rf"{_PREFIX}-([1-9][0-9]{{0,8}})-([A-Za-z0-9_-]{{43}})")
_NO_DIGEST = hashlib.sha256(b"").hexdigest()


def create(
    ledger: Ledger, who: str, rights: frozenset[Right], *, by: str, days: float | None
) -> tuple[Token, str]:
    """A new token, and the text of it, which nobody can be told again.

    Args:
        ledger: Where it is kept.
        who: For whom it speaks.
        rights: What it may.
        by: Who makes it.
        days: After which it ends; None for never.
    """
    secret = secrets.token_urlsafe(_BYTES)
    expires_at = None if days is None else ledger.clock() + days * _DAY
    names = sorted(right.value for right in rights)
    token = ledger.add_token(who, names, _digest(secret), by=by, expires_at=expires_at)
    return token, f"{_PREFIX}-{token.id}-{secret}"


def known(ledger: Ledger, text: str) -> Token | None:
    """The token that somebody shows; None where it is none, has ended or was revoked."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    token = ledger.token(int(form[1]))
    # Compared in any case, and in constant time: how long it takes tells nothing of what is kept.
    same = hmac.compare_digest(token.digest if token else _NO_DIGEST, _digest(form[2]))
    return token if same and token is not None and token.counts(ledger.clock()) else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
