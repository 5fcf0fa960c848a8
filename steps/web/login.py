"""Logins of the web pages, and their rights.

Uses Buildbot's logins with two changes: passwords are bcrypt hashes, and OAuth users are known by a
name or address that another user cannot claim.
"""

from __future__ import annotations

import ipaddress
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt
from buildbot.plugins import util
from buildbot.util.twisted import async_to_deferred
from buildbot.www.auth import AuthBase, CustomAuth, NoAuth
from buildbot.www.authz.roles import RolesFromBase
from twisted.cred.error import UnauthorizedLogin
from twisted.internet.defer import DeferredSemaphore
from twisted.python import log
from twisted.web.error import Error
from twisted.web.guard import BasicCredentialFactory

from netbisect.steps.requests.rate_limit import LoginBackoff
from netbisect.steps.service.rights import Right, User
from netbisect.steps.service.secrets import read_htpasswd, read_password
from netbisect.steps.service.settings import Settings
from netbisect.steps.service.watchdog import run_in_thread
from netbisect.steps.service.web_settings import rights_from_rules
from netbisect.workers.config.toml import FileError

_LONGEST = 72
"""Bytes of a password that bcrypt uses."""
_NO_HASH = b"$2b$12$" + 53 * b"."
OAUTH_SECONDS = 10.0
"""Time limit of a call to an OAuth server; Buildbot sets none."""


class _FromAddress(BasicCredentialFactory):
    """Credentials with their network."""

    def decode(self, response: bytes, request: Any) -> Any:
        found = super().decode(response, request)
        found.origin = client_network(str(request.getClientAddress().host))
        return found


def client_network(host: str) -> str:
    """The unit of counting logins and calls: an IPv4 address or an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host


class HtpasswdAuth(CustomAuth):
    """Logins with a file of `htpasswd -B`, which is read at every login.

    Failures count by name and network, so a user cannot be locked out by others.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.credentialFactories = [_FromAddress(b"buildbot")]
        self._path = path
        self._backoff = LoginBackoff()
        read_htpasswd(path)  # reports errors at the start

    @async_to_deferred
    async def requestAvatarId(self, cred: Any) -> Any:
        """Checks the password in a thread, because bcrypt is slow."""
        caller = (bytes(cred.username)[:100], cred.origin)
        if self._backoff.wait(caller):
            raise UnauthorizedLogin("too many tries")
        check = self.check_credentials
        if not await run_in_thread("a login", check, cred.username, cred.password):
            raise UnauthorizedLogin
        self._backoff.succeeded(caller)
        return cred.username

    def check_credentials(self, username: bytes, password: bytes) -> bool:
        """Checks a password; unknown names take as long as known ones."""
        kept = read_htpasswd(self._path).get(username)
        usable = len(password) <= _LONGEST and b"\0" not in password
        same = bcrypt.checkpw(password if usable else b"", kept or _NO_HASH)
        return same and usable and kept is not None


def _known_as(auth: type[Any], key: str) -> type[Any]:
    """An OAuth login whose only identity is the value of `key`."""

    class Known(auth):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            # A silent server would take all threads of the pool, which the pages need too.
            self._few = DeferredSemaphore(2)

        @async_to_deferred
        async def verifyCode(self, code: bytes) -> Any:
            try:
                return await self._few.run(super().verifyCode, code)
            except (OSError, LookupError, TypeError) as error:
                log.msg(f"a login by {self.name} failed: {error!r}")
                raise Error(502, f"{self.name} did not confirm the login".encode()) from error

        def createSessionFromToken(self, token: dict[str, Any]) -> Any:
            session = super().createSessionFromToken(token)
            session.request = partial(session.request, timeout=OAUTH_SECONDS)
            return session

        def getUserInfoFromOAuthClient(self, c: Any) -> dict[str, Any]:
            user = super().getUserInfoFromOAuthClient(c)
            return {"username": user[key], "email": user[key], "full_name": user[key]}

    return Known


def make_auth(settings: Settings) -> AuthBase:
    """Returns Buildbot's `auth`. Raises FileError."""
    login = settings.web.login
    if login.kind == "none":
        return NoAuth()
    if login.users_file is not None:
        return HtpasswdAuth(login.users_file)
    assert login.client_secret_file is not None
    secret = read_password(login.client_secret_file, "web.login.client_secret_file")
    try:
        from buildbot.www import oauth2  # noqa: PLC0415 - an optional extra
    except ImportError as error:
        raise FileError(
            f"web.login.kind {login.kind}: missing packages: pip install 'netbisect[oauth]'"
        ) from error
    match login.kind:
        case "github":
            # GitHub does not verify that mail addresses belong to their users.
            kind = _known_as(oauth2.GitHubAuth, "username")
            return kind(login.client_id, secret, serverURL=login.server or None)
        case "gitlab":
            return _known_as(oauth2.GitLabAuth, "username")(login.server, login.client_id, secret)
        case _:
            # A Google user name is unique with its domain only.
            return _known_as(oauth2.GoogleAuth, "email")(login.client_id, secret)


class RolesFromSettings(RolesFromBase):
    """Rights of the settings as Buildbot's roles."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def getRolesFromUser(self, userDetails: dict[str, Any]) -> list[str]:
        return [one.value for one in user_rights(self._settings, userDetails)]


def user_name(user: dict[str, Any]) -> str:
    """Name of the logged-in user, or ""."""
    return "" if user.get("anonymous") else str(user.get("username") or "")


def user_rights(settings: Settings, user: dict[str, Any]) -> frozenset[Right]:
    """Rights of a logged-in user, including implied ones."""
    who = user_name(user)
    if not who:
        return frozenset()
    rights = rights_from_rules(settings.web.people, who) | {Right.READ}
    return frozenset(Right) if Right.ADMIN in rights else rights


def logged_in_user(master: Any, settings: Settings, request: Any) -> User | None:
    """The user of the session of a request, or None."""
    info = master.www.getUserInfos(request)
    name, origin = user_name(info), str(request.getClientAddress().host)
    return User(name, user_rights(settings, info), "form", origin) if name else None


def make_authz(settings: Settings) -> Any:
    """Returns Buildbot's `authz`."""
    rules = [util.AnyControlEndpointMatcher(role=Right.ADMIN.value)]
    if settings.web.reading == "login":
        rules.append(util.AnyEndpointMatcher(role=Right.READ.value))
    return util.Authz(allowRules=rules, roleMatchers=[RolesFromSettings(settings)])
