"""The arrows between the folders, and the name that must not be taken."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("bisect", "store", "workers", "steps", "reports")

LIGHT = ("model", "wire", "validity", "anova", "faults", "stacks", "gap", "subject")
"""What of bisect/ the hosts of a lab use, which have neither numpy nor scipy."""
MAY_IMPORT = {
    "bisect": {"bisect"},
    "store": {"store", "bisect"},
    "workers": {"workers", *(f"bisect.{name}" for name in LIGHT)},
    "reports": {"reports", "bisect"},
    "steps": {"steps", "store", "workers", "reports", "bisect"},
}
AT_HOME = {
    "numpy": "bisect",
    "scipy": "bisect",
    "sqlalchemy": "store",
    "alembic": "store",
    "git": "store",
    "jinja2": "reports",
    "matplotlib": "reports",
    "buildbot": "steps",
    "twisted": "steps",
}
IMPURE = {"random", "time", "datetime", "os", "pathlib", "subprocess", "logging", "socket"}


def sources(folder: str) -> Iterator[Path]:
    return (path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            if node.module in {"netbisect", *(f"netbisect.{one}" for one in FOLDERS)}:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("folder", FOLDERS)
def test_arrows_point_one_way(folder: str) -> None:
    """A folder imports only what it may; nothing imports the demo."""
    for path in sources(folder):
        for name in imports(path):
            if name.startswith("netbisect."):
                inside = name.removeprefix("netbisect.")
                allowed = MAY_IMPORT[folder]

                assert any(inside == one or inside.startswith(f"{one}.") for one in allowed), (
                    f"{path.relative_to(ROOT)} imports {name}"
                )


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_library_lives_in_one_folder(folder: str) -> None:
    """Whoever looks for SQL, Buildbot or numpy finds it in one place."""
    for path in sources(folder):
        for name in imports(path):
            home = AT_HOME.get(name.partition(".")[0])

            assert home in (None, folder), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("name", LIGHT)
def test_what_the_hosts_of_a_lab_use_is_light(name: str) -> None:
    """It imports nothing but the standard library, cattrs and its like."""
    for imported in imports(ROOT / "bisect" / f"{name}.py"):
        top = imported.partition(".")[0]
        like = imported.removeprefix("netbisect.bisect.").partition(".")[0]

        assert top in {*sys.stdlib_module_names, "cattrs"} or like in LIGHT, imported


@pytest.mark.parametrize("folder", ["bisect", "reports"])
def test_what_decides_and_what_tells_is_pure(folder: str) -> None:
    """No clock, no files, no processes, no chance of its own."""
    for path in sources(folder):
        if path.name == "rehearse.py":
            continue  # plays a lab on paper; its chance is handed in
        found = {name.partition(".")[0] for name in imports(path)} & IMPURE
        if folder == "reports":
            found -= {"datetime"}  # renders the times it is given

        assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_pythons_own_bisect_is_not_hidden() -> None:
    """`import random` works in the root, because bisect/ is no package of its own."""
    assert not (ROOT / "bisect" / "__init__.py").exists()
    code = "import bisect, random; print(bisect.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert str(ROOT) not in done.stdout


def test_the_folders_are_the_package() -> None:
    """The links in src/netbisect lead to the five folders."""
    for folder in FOLDERS:
        link = ROOT / "src" / "netbisect" / folder

        assert link.is_symlink()
        assert link.resolve() == ROOT / folder


def test_master_cfg_is_a_page() -> None:
    """Whoever opens it can read it at once."""
    assert len((ROOT / "master.cfg").read_text().splitlines()) <= 60
