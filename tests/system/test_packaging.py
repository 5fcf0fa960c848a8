"""Contents of the wheel, the installed commands, and dependencies of lab hosts."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from programs import captured

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.xdist_group("packaging")  # the wheel is built once
FOLDERS = ("bisect", "store", "workers", "steps", "reports")


def clean_environment() -> dict[str, str]:
    """The environment without PYTHONPATH, which contains the checkout."""
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a source distribution."""
    place = tmp_path_factory.mktemp("wheel")
    build = (
        "import setuptools.build_meta as build; "
        f"name = build.build_sdist({str(place)!r}); print(name)"
    )
    done = captured(
        [sys.executable, "-W", "ignore", "-c", build],
        cwd=checkout,
        env=clean_environment(),
        check=True,
    )
    source = place / done.stdout.splitlines()[-1]
    pip = ["-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [sys.executable, *pip, "--no-build-isolation", "--wheel-dir", str(place), str(source)],
        env=clean_environment(),
        check=True,
        timeout=300,
    )
    [wheel] = place.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel; dependencies come from the current one."""
    place = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    [packages] = (place / "lib").glob("python*/site-packages")
    others = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    wanted = [path for path in others if path and Path(path).resolve() != ROOT / "src"]
    (packages / "others.pth").write_text("\n".join(wanted) + "\n")
    python = place / "bin" / "python"
    pip = ["-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run(
        [sys.executable, *pip, "install", "--quiet", "--no-deps", "--ignore-installed", str(wheel)],
        env=clean_environment(),
        check=True,
        timeout=300,
    )
    return place / "bin"


def output_of(*command: str | Path, status: int = 0) -> str:
    """Output of a program with `/` as its working directory."""
    done = captured([str(word) for word in command], cwd="/", env=clean_environment())
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
def test_wheel_has_every_file_of_the_package(wheel: Path, checkout: Path) -> None:
    """The wheel includes data files, the sample tree, master.cfg and manual pages."""
    found = {
        name.removeprefix("netbisect/")
        for name in zipfile.ZipFile(wheel).namelist()
        if name.startswith("netbisect/")
    }
    demo = checkout / "src" / "netbisect"
    expected = {"master.cfg", "py.typed", *(path.name for path in demo.glob("*.py"))}
    expected |= {
        path.relative_to(checkout).as_posix()
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    expected |= {
        path.relative_to(demo).as_posix()
        for folder in ("cli", "demo", "localbisect")
        for path in (demo / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert found == expected
    assert {
        name.rpartition("/")[2]
        for name in zipfile.ZipFile(wheel).namelist()
        if "data/share/man/man1/" in name
    } == {"netbisect.1", "netbisect-lab.1"}


@pytest.mark.long
def test_installed_commands_work_outside_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    """Help, init and doctor work, and `import random` finds Python's bisect."""
    assert "Finds the commit" in output_of(installed / "netbisect", "--help")
    where = output_of(
        installed / "python", "-c", "import netbisect.bisect.plan as p; print(p.__file__)"
    )
    assert str(installed.parent) in where

    folder = tmp_path / "service"
    output_of(installed / "netbisect", "init", folder)
    output_of(installed / "python", "-c", f"import os; os.chdir({str(folder)!r}); import random")
    doctor = ["--lab", folder / "lab.toml", "doctor", "--testbed", "router1"]
    output = output_of(installed / "netbisect-lab", *doctor, status=4)
    assert "Could not resolve hostname router1" in output
    assert (installed.parent / "share" / "man" / "man1" / "netbisect.1").is_file()


@pytest.mark.long
def test_installed_demonstration_is_complete(installed: Path, tmp_path: Path) -> None:
    """DemoService.build() works, and `netbisect check` finds no problem."""
    folder = tmp_path / "demo"
    code = "import sys; from pathlib import Path; from netbisect.demo.service import DemoService; "
    output_of(installed / "python", "-c", f"{code}DemoService(Path(sys.argv[1])).build()", folder)
    checks = output_of(installed / "netbisect", "check", folder)

    assert "FAIL" not in checks
    assert "main is at" in checks
    tac = "import runpy, sys; print(runpy.run_path(sys.argv[1])['configfile'])"
    output_of(installed / "netbisect", "init", tmp_path / "service")
    configuration = output_of(
        installed / "python", "-c", tac, tmp_path / "service" / "buildbot.tac"
    )
    assert str(installed.parent) in configuration
    assert Path(configuration.strip()).is_file()


HEAVY = [
    *("numpy", "scipy", "matplotlib", "jinja2", "sqlalchemy", "alembic", "git"),
    *("buildbot", "twisted", "asyncssh", "aiosmtpd", "psycopg"),
]
LAB = "from netbisect.workers.cli.main import main; sys.exit(main(sys.argv[1:]))"
MAIN = "from netbisect.cli.main import main; main(sys.argv[1:], prog_name='netbisect')"
WITHOUT = f"""
import importlib, pkgutil, sys
class MissingModules:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, MissingModules())
"""


def without(code: str, *arguments: str | Path, status: int = 0) -> str:
    return output_of(sys.executable, "-c", WITHOUT + code, *arguments, status=status)


def test_lab_hosts_need_few_dependencies(tmp_path: Path) -> None:
    """Modules of workers/, netbisect-lab and `netbisect service rcd` need no heavy dependency."""
    names = without(
        "import netbisect.workers\n"
        "for one in pkgutil.walk_packages(netbisect.workers.__path__, 'netbisect.workers.'):\n"
        "    importlib.import_module(one.name); print(one.name.rpartition('.')[2])"
    )

    assert {"cli", "doctor", "build", "trial", "calibrate"} <= set(names.split())
    assert "Usage: netbisect-lab" in without(LAB, "--help")
    assert "cannot be read" in without(LAB, "--lab", tmp_path / "none", "doctor", status=2)
    assert "Commands:" in without(MAIN, "--help")
    assert "PROVIDE: netbisect_worker" in without(MAIN, "service", "rcd", "worker", tmp_path)


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PIN = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)(?: ; ([^\\]+?))? \\$", re.MULTILINE)


def requirements(*extras: str) -> list[Requirement]:
    """Requirements of the project and of these extras, with the extras that they include."""
    lines = [*PROJECT["dependencies"]]
    for extra in extras:
        for line in PROJECT["optional-dependencies"][extra]:
            if line.startswith("netbisect["):
                lines += map(str, requirements(*line[10:-1].split(",")))
            else:
                lines.append(line)
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize(
    ("name", "extras"),
    [("requirements.txt", ("demo", "postgres")), ("tests/requirements.txt", ("dev",))],
)
def test_pins_match_the_requirements_of_the_project(name: str, extras: tuple[str, ...]) -> None:
    """`make requirements` updates the pins."""
    text = (ROOT / name).read_text()
    pins = {canonicalize_name(one[0]): one[1] for one in PIN.findall(text)}

    for requirement in requirements(*extras):
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{name} lacks {requirement}: make requirements"
        assert requirement.specifier.contains(pinned, prereleases=True), requirement
