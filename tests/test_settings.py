"""netbisect.toml: what is accepted, and what is said of what is not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from netbisect.steps.secret_files import read_password
from netbisect.steps.settings import load_settings
from netbisect.workers.tomlfile import FileError

LEAST = """
branches = ["main"]
[mail]
to = ["net@lab.invalid"]
sender = "netbisect@lab.invalid"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "netbisect.toml"
    path.write_text(text)
    return path


def test_little_is_enough(tmp_path: Path) -> None:
    """Branches and whom to tell; all else has a default beside the file."""
    settings = load_settings(written(tmp_path, LEAST))

    assert settings.lab == tmp_path / "lab.toml"
    assert settings.database == f"sqlite:///{tmp_path / 'netbisect.sqlite'}"
    assert settings.kernels == tmp_path / "kernels"
    assert math.isclose(settings.min_effect, -math.log(0.98))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("[web]\nport = 0", "web: port 0: expected a TCP port"),
        ("[web]\nurl = 'ftp://x/'", "expected http:// or https://"),
        ("[night]\nhour = 24", "hour 24: expected 0 to 23"),
        ("[night]\nagainst_itself = -1", "against_itself -1: expected nights, or 0 for never"),
        ("[nihgt]\nhour = 1", "nihgt"),
        ("[links]\ncommit = 'https://x/'", "expected {revision} in it"),
        ("[night]\nboots = '5'", "night.boots: expected a whole number"),
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
        ("[search]\nuse_groups = 'no'", "search.use_groups: expected true or false"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, more: str, said: str) -> None:
    """File, key, and what would be right."""
    path = written(tmp_path, f"{LEAST}\n{more}\n")
    with pytest.raises(FileError) as caught:
        load_settings(path)

    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_an_address_is_checked(tmp_path: Path) -> None:
    """A mail to nobody would be lost in silence."""
    path = written(tmp_path, LEAST.replace("net@lab.invalid", "net"))
    with pytest.raises(FileError, match="'net': expected a mail address"):
        load_settings(path)


def test_a_password_is_never_made_up(tmp_path: Path) -> None:
    """A missing or an empty password file is an error."""
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_password(tmp_path / "none", "workers.password_file")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(FileError, match="has the mode 0644, by which others"):
        read_password(tmp_path / "empty", "workers.password_file")
    (tmp_path / "empty").chmod(0o600)
    with pytest.raises(FileError, match="is empty; expected a password"):
        read_password(tmp_path / "empty", "workers.password_file")
    (tmp_path / "empty").write_bytes(b"\xff")
    with pytest.raises(FileError, match="expected a password in UTF-8"):
        read_password(tmp_path / "empty", "workers.password_file")
    (tmp_path / "empty").write_text(" secret\n")
    assert read_password(tmp_path / "empty", "workers.password_file") == "secret"
