"""Tokens, rights and logins: who somebody is, and what that one may do."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from twisted.cred.credentials import UsernamePassword
from twisted.cred.error import UnauthorizedLogin

from netbisect.steps import cli, tokens
from netbisect.steps.limits import Limiter
from netbisect.steps.login import HtpasswdAuth, auth_of, name_of, user_rights, users
from netbisect.steps.memory import open_ledger
from netbisect.steps.rights import Person, Right, RightError, rights_of
from netbisect.steps.settings import Settings, load_settings
from netbisect.steps.web_settings import LoginSettings, PeopleRule
from netbisect.store.database import StoreError
from netbisect.store.ledger import Ledger
from netbisect.workers.tomlfile import FileError

SETTINGS = """
branches = ["main"]
[mail]
to = ["people@lab.invalid"]
sender = "netbisect@lab.invalid"
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "netbisect.toml").write_text(SETTINGS)
    return tmp_path


@pytest.fixture
def ledger(house: Path) -> Ledger:
    return open_ledger(f"sqlite:///{house / 'netbisect.sqlite'}")


def run(house: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["token", *arguments, "--folder", str(house)])


# ------------------------------------------------------------------------------------- tokens


def test_a_token_is_shown_once_and_kept_as_a_digest(house: Path, ledger: Ledger) -> None:
    """The last line of what is printed is all of it."""
    done = run(house, "create", "ann", "--rights", "ask,patch")
    text = done.stdout.strip()
    assert re.fullmatch(r"netbisect-1-[A-Za-z0-9_-]{43}", text), done.output

    found = tokens.known(ledger, text)
    assert found is not None
    assert (found.who, found.rights) == ("ann", ("ask", "patch"))
    assert found.digest == hashlib.sha256(text.split("-", 2)[2].encode()).hexdigest()
    assert found.digest not in repr(found)
    listed = run(house, "list", "--json")
    assert json.loads(listed.output)[0]["rights"] == ["ask", "patch"]
    for told in (listed.output, run(house, "list").output):
        assert text not in told
        assert found.digest not in told
    assert text.split("-", 2)[2].encode() not in (house / "netbisect.sqlite").read_bytes()


def test_a_token_that_was_revoked_or_has_ended_opens_nothing(house: Path, ledger: Ledger) -> None:
    """Nor does one that is taken back twice become good again."""
    text = run(house, "create", "ann").stdout.strip()
    other = run(house, "create", "ann", "--days", "2").stdout.strip()
    assert run(house, "revoke", "1").exit_code == 0
    assert "was revoked before" in run(house, "revoke", "1").output
    assert "there is no token 9" in run(house, "revoke", "9").output
    assert tokens.known(ledger, text) is None

    assert tokens.known(ledger, other) is not None
    later = Ledger(ledger.engine, clock=lambda: ledger.clock() + 2 * 86400)
    assert tokens.known(later, other) is None
    assert "revoked" in run(house, "list").output
    assert [one.what for one in ledger.audit()] == ["token", "token", "revoke"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ann", "--rights", "everything"), "there is no right 'everything'"),
        (("ann", "--rights", ""), "there is no right ''"),
        (("ann", "--days", "0"), "0"),
        (("<b>",), "letters"),
        ((" ",), "letters"),
    ],
)
def test_a_token_that_cannot_be_made_is_refused(
    house: Path, arguments: tuple[str, ...], said: str
) -> None:
    """With a sentence, and none is made."""
    done = run(house, "create", *arguments)

    assert done.exit_code != 0
    assert said in done.output
    assert "There are no tokens." in run(house, "list").output


@given(text=st.text() | st.from_regex(r"netbisect-[0-9]{1,3}-[A-Za-z0-9_-]{43}", fullmatch=True))
def test_nothing_else_is_a_token(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is shown, it is no error and opens nothing."""
    place = tmp_path_factory.getbasetemp() / "strange.sqlite"
    assert tokens.known(open_ledger(f"sqlite:///{place}"), text) is None


# -------------------------------------------------------------------------------------- rights


def test_who_has_a_right_may_read_and_an_admin_everything() -> None:
    """Rights of one kind give none of another."""
    ann = Person("ann", rights_of(["ask"]), "api", "")
    root = Person("root", rights_of(["admin"]), "api", "")
    nobody = Person("eve", frozenset(), "api", "")

    assert {right for right in Right if ann.may(right)} == {Right.READ, Right.ASK}
    assert all(root.may(right) for right in Right)
    assert not any(nobody.may(right) for right in Right)
    ann.need_own("ann", "cancelling")
    root.need_own("ann", "cancelling")
    with pytest.raises(RightError, match="cancelling of bob needs the right `admin`"):
        ann.need_own("bob", "cancelling")
    with pytest.raises(RightError, match="`ask`"):
        nobody.need_own("eve", "cancelling")


def test_nobody_calls_more_often_than_allowed() -> None:
    """What was not used is there at once, but no more than a minute's."""
    now = 0.0
    limiter = Limiter(6, clock=lambda: now)
    assert [limiter.wait("ann") for _ in range(7)] == [0] * 6 + [10]
    assert limiter.wait("bob") == 0
    now = 10.0
    assert [limiter.wait("ann") for _ in range(2)] == [0, 10]
    now = 1e6
    assert [limiter.wait("ann") for _ in range(7)] == [0] * 6 + [10]


# -------------------------------------------------------------------------------------- logins


def settings_with(house: Path, more: str) -> Settings:
    (house / "netbisect.toml").write_text(SETTINGS + more)
    return load_settings(house / "netbisect.toml")


def test_rights_of_logins_are_those_of_all_their_rules(house: Path) -> None:
    """Everybody who has logged in may read; whoever has not, has no right at all."""
    settings = settings_with(
        house,
        """
[[web.people]]
who = ["ann"]
rights = ["patch"]
[[web.people]]
who = ["*"]
rights = ["ask"]
[[web.people]]
who = ["root"]
rights = ["admin"]
""",
    )
    assert user_rights(settings, {"username": "ann"}) == rights_of(["read", "ask", "patch"])
    assert user_rights(settings, {"username": "bob"}) == rights_of(["read", "ask"])
    assert user_rights(settings, {"username": "root"}) == frozenset(Right)
    for nobody in ({"anonymous": True}, {}, {"username": None}, {"email": "ann"}):
        assert user_rights(settings, nobody) == frozenset()
        assert name_of(nobody) == ""


def hashed(password: bytes) -> bytes:
    return bcrypt.hashpw(password, bcrypt.gensalt(4))


def test_passwords_are_those_of_htpasswd(tmp_path: Path) -> None:
    """As `htpasswd -B` writes them; unknown names, long ones and other bytes open nothing."""
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


def test_passwords_are_not_tried_for_ever(tmp_path: Path) -> None:
    """After some the right one too has to wait."""
    path = tmp_path / "users"
    path.write_bytes(b"ann:" + hashed(b"secret"))
    auth = HtpasswdAuth(path)
    for _ in range(10):
        assert auth._tries.wait(b"ann") == 0
    failures: list[Any] = []
    auth.requestAvatarId(UsernamePassword(b"ann", b"secret")).addErrback(failures.append)

    assert failures[0].check(UnauthorizedLogin)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"ann:secret\n", "line 1"),
        (b"ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "htpasswd -B"),
        (b"ann\n", "NAME:HASH"),
        (b"\xff\xfe", "line 1"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_other_passwords_is_refused(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    """Plain ones, and those that are quickly tried; no password is in the sentence."""
    path = tmp_path / "users"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileError, match=said) as error:
        users(path)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[web.login]\nkind = "password"', "expected one of"),
        ('[web.login]\nkind = "htpasswd"', "users_file"),
        ('[web.login]\nusers_file = "users"', "users_file"),
        ('[web.login]\nkind = "github"', "client_id"),
        ('[web.login]\nkind = "gitlab"\nclient_id = "x"\nclient_secret_file = "y"', "server"),
        (
            '[web.login]\nkind = "github"\nclient_id = "x"\nclient_secret_file = "y"\nserver="x"',
            "https://",
        ),
        ('[[web.people]]\nwho = []\nrights = ["ask"]', "who"),
        ('[[web.people]]\nwho = ["ann"]\nrights = ["fly"]', "there is no right 'fly'"),
        ('[web]\nreading = "sometimes"', "open or login"),
        ("[web]\ncalls_per_minute = 0", "calls_per_minute"),
    ],
)
def test_settings_that_cannot_be_meant_get_a_sentence(house: Path, text: str, said: str) -> None:
    """With the file, the key, and what would be right."""
    with pytest.raises(FileError, match=re.escape(said)):
        settings_with(house, text)


@pytest.mark.parametrize(
    ("kind", "told", "known"),
    [
        ("github", {"username": "ann", "email": "root@lab.invalid"}, "ann"),
        ("gitlab", {"username": "ann", "email": "root@lab.invalid"}, "ann"),
        (
            "google",
            {"username": "root", "email": "root@elsewhere.invalid"},
            "root@elsewhere.invalid",
        ),
    ],
)
def test_nobody_is_known_by_a_name_that_can_be_chosen(
    house: Path, kind: str, told: dict[str, str], known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail address at GitHub, or the first part of one at Google, may be another's."""
    secret = house / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    server = "https://git.invalid" if kind == "gitlab" else ""
    login = LoginSettings(kind, None, "id", secret, server)
    settings = load_settings(house / "netbisect.toml")
    settings = replace(settings, web=replace(settings.web, login=login))
    auth = auth_of(settings)
    monkeypatch.setattr(type(auth).__mro__[1], "getUserInfoFromOAuthClient", lambda *_: told)

    user = auth.getUserInfoFromOAuthClient(None)
    assert name_of(user) == user["email"] == known


def test_a_rule_needs_names_and_rights() -> None:
    """Neither may be empty."""
    with pytest.raises(ValueError, match="who"):
        PeopleRule((), ("ask",))
    with pytest.raises(ValueError, match="rights"):
        PeopleRule(("ann",), ())


def test_what_is_revoked_must_be_there(ledger: Ledger) -> None:
    """The ledger says so."""
    with pytest.raises(StoreError, match="there is no token 1"):
        ledger.revoke_token(1, by="root")
