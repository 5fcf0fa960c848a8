"""The instructions of CONTRIBUTING.md, executed in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from programs import captured

ROOT = Path(__file__).resolve().parents[2]
COPIED, LINKED = ("docs", "src", "workers"), ("bisect", "master.cfg", "reports", "steps", "store")


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks below a heading of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n### {heading}\n")[1]
    section = re.split(r"^##+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", section, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the folders that the instructions change, with links to the others."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def shell(checkout: Path, script: str) -> str:
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = captured(
        ["sh", "-e", "-c", script],
        cwd=checkout,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(checkout / "src")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scenario_can_be_added(checkout: Path) -> None:
    (script,) = blocks("Add a scenario", "sh")

    assert "size=512," in shell(checkout, script)


def test_subcommand_can_be_added(checkout: Path) -> None:
    module, entry = blocks("Add a subcommand", "python")
    (script,) = blocks("Add a subcommand", "sh")
    commands = checkout / "src/netbisect/cli"
    (commands / "branches.py").write_text(module)
    main = (commands / "main.py").read_text()
    (commands / "main.py").write_text(main.replace("_COMMANDS = {\n", f"_COMMANDS = {{\n{entry}"))
    output = shell(checkout, script.replace("/tmp/practice", str(checkout / "practice")))

    assert output.splitlines()[-1] == "main"
    assert "branches" in (checkout / "docs/man/netbisect.1").read_text()
