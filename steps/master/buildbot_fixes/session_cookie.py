"""An invalid session cookie is treated as missing.

Buildbot logs a traceback for each one; not fixed upstream.
"""

from __future__ import annotations

from typing import Any

import jwt
from buildbot.www import auth

from netbisect.steps.master.buildbot_fixes.fix import Fix

FIX = Fix(auth, "parse_user_info_from_token", "6cbf2bf3813c")


def user_info(token: str, session_secret: str) -> dict[str, Any]:
    """Returns the user of a session's cookie.

    Raises:
        KeyError: the cookie is invalid.
    """
    try:
        jwt.decode(token, session_secret, algorithms=[auth.SESSION_SECRET_ALGORITHM])
    except jwt.exceptions.InvalidTokenError as error:
        raise KeyError(str(error)) from error
    user: dict[str, Any] = FIX.original(token, session_secret)
    return user
