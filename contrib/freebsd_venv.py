"""Creates a virtual environment on FreeBSD: compiled packages from pkg(8), the rest from PyPI.

    python3.11 contrib/freebsd_venv.py FOLDER EXTRA...

PyPI has no wheels for FreeBSD: the hashes in requirements.txt do not match there.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILED = {
    "bcrypt": "bcrypt",
    "cryptography": "cryptography",
    "greenlet": "greenlet",
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "scipy": "scipy",
    "_sqlite3": "sqlite3",  # lang/python has the rest of it
}
"""Packages of pkg(8) without the prefix pyXY-, by module."""
UNNEEDED = ("ruff", "git-bayesect")
"""Packages of the extra `dev` that need Rust or that only benchmarks use."""


def missing(find: Callable[[str], object] = importlib.util.find_spec) -> list[str]:
    """Packages to install by pkg(8)."""
    prefix = f"py{sys.version_info.major}{sys.version_info.minor}"
    return [f"{prefix}-{name}" for module, name in COMPILED.items() if find(module) is None]


def requirements(extras: Sequence[str]) -> list[str]:
    """Requirements of these extras of pyproject.toml, for pip."""
    found = []
    for extra in extras:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for one in project["optional-dependencies"][extra]:
            inner = one.removeprefix("netbisect[").rstrip("]").split(",")
            found += requirements(inner) if one.startswith("netbisect[") else [one]
    return [one for one in dict.fromkeys(found) if not one.startswith(UNNEEDED)]


def main(folder: str, *extras: str) -> int:
    """Creates the environment; returns the exit status of pip."""
    if packages := missing():
        sys.exit(f"Install compiled packages first, as root: pkg install {' '.join(packages)}")
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet"]
    wanted = ["--only-binary", ",".join(COMPILED.values()), *requirements(extras), "-e", str(ROOT)]
    return subprocess.run([*install, *wanted], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
