"""Who has logged in on the web pages, and what Buildbot lets them do there.

Buildbot's own ways to log in, with two differences: passwords are kept as bcrypt makes them, and of
what OAuth tells only that counts of which nobody can choose another's.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import bcrypt
from buildbot.plugins import util
from buildbot.www.auth import AuthBase, CustomAuth, NoAuth
from buildbot.www.authz.roles import RolesFromBase
from twisted.cred.error import UnauthorizedLogin
from twisted.internet import defer, threads

from netbisect.steps import web_settings
from netbisect.steps.limits import Limiter
from netbisect.steps.rights import Right
from netbisect.steps.secret_files import read_password
from netbisect.steps.settings import LOGIN, Settings
from netbisect.steps.web_settings import rights_in
from netbisect.workers.tomlfile import FileError

_TRIES_PER_MINUTE = 10
"""Passwords of one name."""
_LONGEST = 72
"""Bytes of a password that bcrypt looks at."""
_HASH = re.compile(rb"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_NO_HASH = b"$2b$12$" + 53 * b"."
_NAME = re.compile(rb"[^\x00-\x20\x7f:<>\"]{1,100}")


class HtpasswdAuth(CustomAuth):
    """Names and passwords of a file that `htpasswd -B` writes; it is read at every login."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._tries = Limiter(_TRIES_PER_MINUTE)
        users(path)  # what is wrong with it is said at the start

    def requestAvatarId(self, cred: Any) -> defer.Deferred[Any]:
        """Looks in a thread: bcrypt takes its time."""
        if self._tries.wait(bytes(cred.username)[:100]):
            return defer.fail(UnauthorizedLogin("too many tries"))
        checked = threads.deferToThread(self.check_credentials, cred.username, cred.password)

        def told(good: bool) -> Any:
            if good:
                return cred.username
            raise UnauthorizedLogin

        return checked.addCallback(told)

    def check_credentials(self, username: bytes, password: bytes) -> bool:
        """Whether that is the password; an unknown name takes as long as a known one."""
        kept = users(self._path).get(username)
        usable = len(password) <= _LONGEST and b"\0" not in password
        same = bcrypt.checkpw(password if usable else b"", kept or _NO_HASH)
        return same and usable and kept is not None


def users(path: Path) -> dict[bytes, bytes]:
    """Names and hashes of a file of htpasswd.

    Raises:
        FileError: it cannot be read, or a line is none of `htpasswd -B`.
    """
    try:
        lines = path.read_bytes().splitlines()
        mode = path.stat().st_mode
    except OSError as error:
        raise FileError(f"web.login.users_file: {path} cannot be read: {error.strerror}") from error
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise FileError(
            f"web.login.users_file: others than its owner may write {path}; `chmod 600 {path}` "
            "would be right"
        )
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, kept = line.partition(b":")
        if not _NAME.fullmatch(name) or not _HASH.fullmatch(kept):
            raise FileError(
                f"web.login.users_file: {path}, line {number}: expected NAME:HASH as "
                "`htpasswd -B` writes it"
            )
        found[name] = kept
    return found


def _known_as(auth: type[Any], key: str) -> type[Any]:
    """A way of OAuth by which people are known as what that key tells, and as nothing else."""

    class Known(auth):
        def getUserInfoFromOAuthClient(self, c: Any) -> dict[str, Any]:
            told = super().getUserInfoFromOAuthClient(c)
            return {"username": told[key], "email": told[key], "full_name": told[key]}

    return Known


def auth_of(settings: Settings) -> AuthBase:
    """How people log in.

    Raises:
        FileError: a file that belongs to it cannot be used.
    """
    login = settings.web.login
    if login.kind == web_settings.NOBODY:
        return NoAuth()
    if login.users_file is not None:
        return HtpasswdAuth(login.users_file)
    assert login.client_secret_file is not None
    secret = read_password(login.client_secret_file, "web.login.client_secret_file")
    try:
        from buildbot.www import oauth2  # noqa: PLC0415 - of an extra that most do not need
    except ImportError as error:
        raise FileError(
            f"web.login.kind {login.kind}: it needs what is not installed here: "
            "pip install 'netbisect[oauth]'"
        ) from error
    match login.kind:
        case web_settings.GITHUB:
            # A name on GitHub is its owner's; a mail address there need not be.
            kind = _known_as(oauth2.GitHubAuth, "username")
            return kind(login.client_id, secret, serverURL=login.server or None)
        case web_settings.GITLAB:
            return _known_as(oauth2.GitLabAuth, "username")(login.server, login.client_id, secret)
        case _:
            # Of a name on Google only the whole address is somebody's own.
            return _known_as(oauth2.GoogleAuth, "email")(login.client_id, secret)


class RolesFromSettings(RolesFromBase):
    """Rights as Buildbot's roles: those of the settings, for who has logged in."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def getRolesFromUser(self, userDetails: dict[str, Any]) -> list[str]:
        """Each right that somebody has; who has any may read."""
        return [one.value for one in user_rights(self._settings, userDetails)]


def name_of(user: dict[str, Any]) -> str:
    """Who has logged in; "" for nobody."""
    return "" if user.get("anonymous") else str(user.get("username") or "")


def user_rights(settings: Settings, user: dict[str, Any]) -> frozenset[Right]:
    """What somebody may do who has logged in, with what follows from it; nothing for nobody."""
    who = name_of(user)
    if not who:
        return frozenset()
    rights = rights_in(settings.web.people, who) | {Right.READ}
    return frozenset(Right) if Right.ADMIN in rights else rights


def authz_of(settings: Settings, builder: str) -> Any:
    """What Buildbot lets people do: nothing without a login but read, and that only where open.

    Args:
        settings: Of the service.
        builder: Whose form is for everybody who may ask.
    """
    rules = [
        util.ForceBuildEndpointMatcher(builder=builder, role=Right.ASK.value),
        util.AnyControlEndpointMatcher(role=Right.ADMIN.value),
    ]
    if settings.web.reading == LOGIN:
        rules.append(util.AnyEndpointMatcher(role=Right.READ.value))
    return util.Authz(allowRules=rules, roleMatchers=[RolesFromSettings(settings)])
