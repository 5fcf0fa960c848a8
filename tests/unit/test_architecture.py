"""Architecture: sizes, names and libraries; import-linter checks the layers (pyproject.toml)."""

from __future__ import annotations

import ast
import functools
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import captured

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("bisect", "store", "workers", "steps", "reports")
FOLDERS = (*LINKED, "src/netbisect/cli", "src/netbisect/localbisect", "src/netbisect/demo")

LIBRARIES = {
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
MODULES_PER_FOLDER = 25
LINES_PER_FILE = 500

pytestmark = pytest.mark.xdist_group("architecture")  # each file is parsed once


def sources(folder: str) -> Iterator[Path]:
    return (
        path
        for path in (ROOT / folder).rglob("*.py")
        if not {"__pycache__", "base"} & set(path.parts)
    )


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> frozenset[str]:
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return frozenset(found)


@pytest.mark.parametrize("folder", LINKED)
def test_each_library_is_used_by_one_folder(folder: str) -> None:
    for path in sources(folder):
        for name in imports(path):
            home = LIBRARIES.get(name.partition(".")[0])

            assert home in (None, folder), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_have_at_most_25_modules(folder: str) -> None:
    modules: dict[Path, int] = defaultdict(int)
    for path in sources(folder):
        modules[path.parent] += path.name != "__init__.py"

    assert not {path for path, count in modules.items() if count > MODULES_PER_FOLDER}


@pytest.mark.parametrize("folder", [*FOLDERS, "tests", "benchmarks"])
def test_files_have_at_most_500_lines(folder: str) -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in sources(folder)}

    assert not {path for path, lines in sizes.items() if lines > LINES_PER_FILE}
    assert len((ROOT / "master.cfg").read_text().splitlines()) <= 60


def test_public_class_names_are_unique() -> None:
    found = defaultdict(list)
    for folder in FOLDERS:
        for path in sources(folder):
            for node in parsed(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(path.relative_to(ROOT)))

    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


def test_unit_tests_mirror_the_modules() -> None:
    """tests/unit/bisect/stats/test_effect.py tests bisect/stats/effect.py."""
    unit = ROOT / "tests" / "unit"
    for path in unit.rglob("*/test_*.py"):
        folder = path.parent.relative_to(unit)
        name = path.name.removeprefix("test_")
        modules = {one.name for one in (ROOT / folder).glob("*.py")}

        assert any(name.removesuffix(".py").startswith(one[:-3]) for one in modules), path


@pytest.mark.parametrize("folder", ["bisect", "reports"])
def test_pure_folders_import_no_impure_modules(folder: str) -> None:
    """Pure code uses no clock, files, processes or random numbers."""
    for path in sources(folder):
        if path.name == "simulate.py":
            continue  # simulates a lab; callers pass the generator of random numbers
        found = {name.partition(".")[0] for name in imports(path)} & IMPURE
        if folder == "reports":
            found -= {"datetime"}  # to format times

        assert not found, f"{path.relative_to(ROOT)} imports {found}"


def test_the_bisect_module_of_python_is_not_hidden() -> None:
    """`import random` works in the root of the checkout, because bisect/ has no __init__.py."""
    assert not (ROOT / "bisect" / "__init__.py").exists()
    code = "import bisect, random; print(bisect.__file__)"
    done = captured([sys.executable, "-c", code], cwd=ROOT, check=True)

    assert str(ROOT) not in done.stdout


def test_the_package_links_to_all_folders() -> None:
    for folder in LINKED:
        link = ROOT / "src" / "netbisect" / folder

        assert link.is_symlink()
        assert link.resolve() == ROOT / folder


def test_the_architecture_diagram_is_current() -> None:
    """docs/draw_architecture.py updates it."""
    draw = runpy.run_path(str(ROOT / "docs" / "draw_architecture.py"))["draw"]

    assert draw() in (ROOT / "docs" / "architecture.md").read_text()
