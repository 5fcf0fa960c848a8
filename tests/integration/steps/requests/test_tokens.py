"""Tokens, rights, rate limits and logins."""

from __future__ import annotations

import hashlib
import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import requests
from click.testing import Result
from programs import netbisect
from service_fixtures import SETTINGS

from netbisect.steps.requests import tokens
from netbisect.steps.requests.rate_limit import LoginBackoff
from netbisect.steps.service.rights import Right, parse_rights
from netbisect.steps.service.secrets import read_htpasswd
from netbisect.steps.service.settings import load_settings
from netbisect.steps.service.web_settings import LoginSettings
from netbisect.steps.web import login
from netbisect.steps.web.login import (
    HtpasswdAuth,
    client_network,
    make_auth,
    user_name,
    user_rights,
)
from netbisect.store.ledger import Ledger, open_ledger
from netbisect.workers.config.toml import FileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "netbisect.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    return open_ledger(f"sqlite:///{folder / 'netbisect.sqlite'}")


def run(folder: Path, *arguments: str) -> Result:
    return netbisect("token", *arguments, "--folder", folder)


def test_a_token_is_printed_once_and_stored_as_a_digest(folder: Path, ledger: Ledger) -> None:
    done = run(folder, "create", "ann", "--rights", "ask,patch")
    text = done.stdout.strip()
    assert re.fullmatch(r"netbisect-1-[A-Za-z0-9_-]{43}", text), done.output

    found = tokens.authenticate(ledger, text)
    assert found is not None
    assert (found.who, found.rights) == ("ann", ("ask", "patch"))
    assert found.digest == hashlib.sha256(text.split("-", 2)[2].encode()).hexdigest()
    assert found.digest not in repr(found)
    listed = run(folder, "list", "--json")
    assert json.loads(listed.output)[0]["rights"] == ["ask", "patch"]
    for output in (listed.output, run(folder, "list").output):
        assert text not in output
        assert found.digest not in output
    assert text.split("-", 2)[2].encode() not in (folder / "netbisect.sqlite").read_bytes()


def test_revoked_and_expired_tokens_are_rejected(folder: Path, ledger: Ledger) -> None:
    text = run(folder, "create", "ann").stdout.strip()
    other = run(folder, "create", "ann", "--days", "2").stdout.strip()
    assert run(folder, "revoke", "1").exit_code == 0
    assert "was revoked before" in run(folder, "revoke", "1").output
    assert "there is no token 9" in run(folder, "revoke", "9").output
    assert tokens.authenticate(ledger, text) is None

    assert tokens.authenticate(ledger, other) is not None
    later = Ledger(ledger.engine, clock=lambda: ledger.clock() + 2 * 86400)
    assert tokens.authenticate(later, other) is None
    assert "revoked" in run(folder, "list").output
    assert [entry.what for entry in ledger.requests.audit()] == ["token", "token", "revoke"]


def test_invalid_arguments_create_no_token(folder: Path) -> None:
    for arguments, message in (
        (("ann", "--rights", "everything"), "unknown right 'everything'"),
        (("ann", "--rights", ""), "unknown right ''"),
        (("ann", "--days", "0"), "0 is not in the range 1<=x<=36500"),
        (("ann", "--days", "nan"), "'nan' is not a valid integer"),
        (("<b>",), "expected a name of 1 to 100 characters without <"),
        ((" ",), "expected a name of 1 to 100 characters without <"),
    ):
        done = run(folder, "create", *arguments)
        assert done.exit_code != 0
        assert message in done.output
    assert "No tokens." in run(folder, "list").output


def test_login_rights_are_the_union_of_matching_rules(folder: Path) -> None:
    rules = (("ann", "patch"), ("*", "ask"), ("root", "admin"))
    more = "".join(f'[[web.people]]\nwho = ["{w}"]\nrights = ["{right}"]\n' for w, right in rules)
    (folder / "netbisect.toml").write_text(SETTINGS + more)
    settings = load_settings(folder / "netbisect.toml")
    assert user_rights(settings, {"username": "ann"}) == parse_rights(["read", "ask", "patch"])
    assert user_rights(settings, {"username": "bob"}) == parse_rights(["read", "ask"])
    assert user_rights(settings, {"username": "root"}) == frozenset(Right)
    for anonymous in ({"anonymous": True}, {}, {"username": None}, {"email": "ann"}):
        assert user_rights(settings, anonymous) == frozenset()
        assert user_name(anonymous) == ""


def hashed(password: bytes) -> bytes:
    return bcrypt.hashpw(password, bcrypt.gensalt(4))


def test_htpasswd_checks_bcrypt_passwords(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(
        b"ann:" + hashed(b"secret").replace(b"$2b$", b"$2y$") + b"\n\nbob:" + hashed(b"x" * 72)
    )
    auth = HtpasswdAuth(path)

    assert auth.check_credentials(b"ann", b"secret")
    assert auth.check_credentials(b"bob", b"x" * 72)
    for name, password in (
        (b"ann", b"Secret"),
        (b"ann", b""),
        (b"ann", b"secret\0"),
        (b"eve", b"secret"),
        (b"", b""),
        (b"bob", b"x" * 73),
        (b"ann:", b"secret"),
    ):
        assert not auth.check_credentials(name, password), (name, password)


def test_login_backoff_doubles_and_resets() -> None:
    now = 0.0
    delays = LoginBackoff(clock=lambda: now)
    assert [delays.wait("ann") for _ in range(6)] == [0] * 5 + [1]
    waited = []
    for _ in range(12):
        wait = delays.wait("ann")
        waited.append(wait)
        now += wait
        assert delays.wait("ann") == 0
    assert waited == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert delays.wait("bob") == 0
    now += 3600
    assert [delays.wait("ann") for _ in range(6)] == [0] * 5 + [1]
    delays.succeeded("ann")
    assert delays.wait("ann") == 0


def test_clients_with_ipv6_addresses_are_counted_by_network() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:2") == "2001:db8::/64"
    assert client_network("fe80::1%eth0") == "fe80::/64"
    assert client_network("192.0.2.1") == "192.0.2.1"
    assert client_network("::ffff:192.0.2.1") == "::ffff:192.0.2.1"
    assert client_network("a.socket") == "a.socket"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ann:secret\n", "line 1"),
        (b"ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "htpasswd -B"),
        (b"ann\n", "NAME:HASH"),
        (b"\xff\xfe", "line 1"),
        (None, "cannot be read"),
    ],
)
def test_errors_about_htpasswd_files_contain_no_password(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "users"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=message) as error:
        read_htpasswd(path)
    assert "secret" not in str(error.value)


def make_oauth(folder: Path, kind: str) -> Any:
    secret = folder / "secret"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    server = "https://git.invalid" if kind == "gitlab" else ""
    oauth = LoginSettings(kind, None, "id", secret, server)
    settings = load_settings(folder / "netbisect.toml")
    return make_auth(replace(settings, web=replace(settings.web, login=oauth)))


@pytest.mark.parametrize("kind", ["github", "gitlab", "google"])
def test_a_silent_oauth_server_is_not_waited_for_without_limit(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "OAUTH_SECONDS", 0.1)
    session = make_oauth(folder, kind).createSessionFromToken({"access_token": "token"})
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(requests.Timeout):
        session.get(f"http://127.0.0.1:{silent.getsockname()[1]}/user")


@pytest.mark.parametrize(
    ("kind", "name", "known"),
    [
        ("github", "ann", "ann"),
        ("gitlab", "ann", "ann"),
        ("google", "root", "root@elsewhere.invalid"),
    ],
)
def test_oauth_users_are_known_by_an_unforgeable_name(
    folder: Path, kind: str, name: str, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    auth = make_oauth(folder, kind)
    claims = {"username": name, "email": "root@elsewhere.invalid"}
    monkeypatch.setattr(type(auth).__mro__[1], "getUserInfoFromOAuthClient", lambda *_: claims)

    user = auth.getUserInfoFromOAuthClient(None)
    assert user_name(user) == user["email"] == known
