"""netbisect.toml: valid and invalid settings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from service_fixtures import SETTINGS

from netbisect.steps.service.secrets import read_password
from netbisect.steps.service.settings import load_settings
from netbisect.workers.config.toml import FileError


def written(folder: Path, text: str) -> Path:
    path = folder / "netbisect.toml"
    path.write_text(text)
    return path


def test_minimal_settings_have_defaults(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, SETTINGS))

    assert settings.lab == tmp_path / "lab.toml"
    assert settings.database == f"sqlite:///{tmp_path / 'netbisect.sqlite'}"
    assert settings.kernels == tmp_path / "kernels"
    assert math.isclose(settings.min_effect, -math.log(0.98))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[web]\nport = 0", "web: port 0: expected a TCP port"),
        ("[web]\nurl = 'ftp://x/'", "expected http:// or https://"),
        ("[night]\nhour = 24", "hour 24: expected 0 to 23"),
        ("[night]\nagainst_itself = -1", "against_itself -1: expected 0 or more"),
        ("[nihgt]\nhour = 1", "nihgt"),
        ("[links]\ncommit = 'https://x/'", "expected {revision} in it"),
        ("[masters]\nrouter = 'ws://x/'", "masters: database and router: expected both"),
        (
            "[masters]\nrouter = 'http://x/'\ndatabase = 'postgresql://x/y'",
            "router 'http://x/': expected ws:// or wss://",
        ),
        (
            "[masters]\nrouter = 'ws://x/'\ndatabase = 'sqlite:///y'",
            "database 'sqlite:///y': expected the address of a server",
        ),
        (
            "[masters]\nrouter = 'ws://x/'\ndatabase = 'postgresql://x/y'",
            "masters: expected with a database that several hosts can use",
        ),
        ('user = "ann"\nserver = "mail.invalid"', "starttls = true"),
        ('user = "ann"', "user and password_file: expected both, or neither"),
        ("[web]\nport = 9989", "web.port and workers.port 9989: expected different ports"),
        ('[web.login]\nkind = "password"', "is not one of"),
        ('[web.login]\nkind = "htpasswd"', "users_file"),
        ('[web.login]\nusers_file = "users"', "users_file"),
        ('[web.login]\nkind = "github"', "client_id"),
        ('[web.login]\nkind = "gitlab"\nclient_id = "x"\nclient_secret_file = "y"', "server"),
        (
            '[web.login]\nkind = "github"\nclient_id = "x"\nclient_secret_file = "y"\nserver="x"',
            "https://",
        ),
        ('[[web.people]]\nwho = []\nrights = ["ask"]', "who"),
        ('[[web.people]]\nwho = ["ann"]\nrights = []', "rights"),
        ('[web]\ntrusted_proxies = ["proxy"]', "does not appear to be an IPv4 or IPv6 address"),
        ('[[web.people]]\nwho = ["ann"]\nrights = ["fly"]', "unknown right 'fly'"),
        ('[web]\nreading = "sometimes"', "is not one of ['open', 'login']"),
        ("[web]\ncalls_per_minute = 0", "calls_per_minute"),
        ('[workers]\ncertificate = "a.pem"', "expected both, or neither"),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, more: str, message: str) -> None:
    path = written(tmp_path, f"{SETTINGS}\n{more}\n")
    with pytest.raises(FileError) as caught:
        load_settings(path)

    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_branches_with_equal_names_in_buildbot_are_rejected(tmp_path: Path) -> None:
    path = written(tmp_path, SETTINGS.replace('"main"', '"stable/14", "stable-14"'))
    with pytest.raises(FileError, match="branches: expected names that differ if each / is a -"):
        load_settings(path)


def test_missing_and_empty_password_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_password(tmp_path / "none", "workers.password_file")
    for content, mode, message in (
        (b"\n", 0o644, "has mode 0644"),
        (b"\n", 0o600, "is empty; expected a password"),
        (b"\xff", 0o600, "expected a password in UTF-8"),
    ):
        (tmp_path / "empty").write_bytes(content)
        (tmp_path / "empty").chmod(mode)
        with pytest.raises(FileError, match=message):
            read_password(tmp_path / "empty", "workers.password_file")
    (tmp_path / "empty").write_text(" secret\n")
    assert read_password(tmp_path / "empty", "workers.password_file") == "secret"
