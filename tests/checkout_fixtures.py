"""A copy of what would be committed, for tests of what becomes of it elsewhere.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def tracked() -> list[str]:
    """Files of the checkout, those not yet added among them; skips where git knows of none."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip("this is no checkout of git")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, that has the files as they are now."""
    place = tmp_path_factory.mktemp("checkout") / "netbisect"
    for name in tracked():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name, follow_symlinks=False)
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "As is"]):
        subprocess.run(["git", *command], cwd=place, check=True, timeout=120)
    return place
