"""`python -m netbisect.demo`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner

from netbisect.demo.__main__ import main
from netbisect.demo.service import DemoService
from netbisect.steps.service.rights import Right
from netbisect.steps.service.settings import load
from netbisect.steps.web.login import HtpasswdAuth, make_auth, user_rights


def test_down_lists_stopped_processes_and_removed_folders(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    place.mkdir()
    (place / "netbisect-demo").touch()
    environment = {**os.environ, **DemoService(place).environment}
    with subprocess.Popen(["sleep", "600"], env=environment) as process:
        done = CliRunner().invoke(main, ["down", "--place", str(place)])

    assert done.output == f"stopped 1 process of the demonstration; removed {place}\n"
    assert process.returncode != 0
    assert not place.exists()


def test_each_demonstration_has_its_own_password(tmp_path: Path) -> None:
    """The password is not in any file."""
    passwords = []
    for name in ("one", "two"):
        service = DemoService(tmp_path / name)
        service.build()
        service.add_login()
        passwords.append(service.password)
        settings, _ = load(service.place / "netbisect.toml")
        auth = make_auth(settings)
        assert isinstance(auth, HtpasswdAuth)
        assert auth.check_credentials(b"demo", service.password.encode())
        assert not auth.check_credentials(b"demo", b"demo")
        assert Right.ASK in user_rights(settings, {"username": "demo"})
        kept = "".join(path.read_text() for path in service.place.iterdir() if path.is_file())
        assert service.password not in kept
    assert passwords[0] != passwords[1]
