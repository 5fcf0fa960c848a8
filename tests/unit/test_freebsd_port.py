"""The skeleton of a port in contrib/freebsd-port."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from netbisect.steps.service.shipped_files import fill_template

ROOT = Path(__file__).resolve().parents[2]
PORT = ROOT / "contrib" / "freebsd-port"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDS = re.findall(
    r"\$\{PYTHON_PKGNAMEPREFIX\}([\w-]+?)>=([\d.]+):[\w-]+/[\w-]+@", (PORT / "Makefile").read_text()
)
NAMES = {"sqlalchemy20": "sqlalchemy"}
"""Ports whose name differs from that of the distribution."""
BUNDLE = {"buildbot-www", "buildbot-grid-view", "buildbot-waterfall-view"}
"""Packages of the extra `bundle` of buildbot with the pages that steps/web configures."""


def required() -> dict[str, str]:
    """Lowest version of each distribution that the port needs."""
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *extras["search"], *extras["service"], *extras["worker"]]
    found = map(Requirement, lines)
    return {
        one.name.lower(): min(one.specifier, key=lambda each: each.operator == "<").version
        for one in found
        if one.name != "netbisect"
    }


def test_version_and_dependencies_equal_those_of_the_project() -> None:
    ports = {NAMES.get(name, name).lower(): version for name, version in DEPENDS}
    others = BUNDLE | {"setuptools"}
    assert {name: version for name, version in ports.items() if name not in others} == required()
    assert ports.keys() >= BUNDLE
    assert f"DISTVERSION=\t{PROJECT['version']}\n" in (PORT / "Makefile").read_text()


@pytest.mark.parametrize(
    ("name", "template", "program"),
    [("netbisect", "master.rc", "netbisect"), ("netbisect_worker", "worker.rc", "buildbot-worker")],
)
def test_scripts_equal_the_output_of_the_command(name: str, template: str, program: str) -> None:
    """`netbisect service rcd` with the paths of a port."""
    folder = "service" if name == "netbisect" else "worker"
    assert (PORT / "files" / f"{name}.in").read_text() == fill_template(
        template,
        user="netbisect",
        folder=f"/var/db/netbisect/{folder}",
        program=f"%%PREFIX%%/bin/{program}",
        python="%%PREFIX%%/bin/python%%PYTHON_VER%%",
        path="%%PREFIX%%/bin:/sbin:/bin:/usr/sbin:/usr/bin",
    )


def test_compiled_packages_come_first_on_freebsd() -> None:
    """Missing packages are reported under their pkg(8) names; pip installs the rest."""
    script = runpy.run_path(str(ROOT / "contrib" / "freebsd_venv.py"))
    absent = {"numpy", "scipy", "_sqlite3"}
    missing = script["missing"](lambda name: None if name in absent else name)
    names = {Requirement(one).name for one in script["requirements"](["dev"])}

    prefix = f"py{sys.version_info.major}{sys.version_info.minor}"
    assert missing == [f"{prefix}-numpy", f"{prefix}-scipy", f"{prefix}-sqlite3"]
    assert {"pytest", "asyncssh", "buildbot", "numpy", "hypothesis"} <= names
    assert not {"ruff", "netbisect"} & names
