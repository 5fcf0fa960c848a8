"""An empty database of a test's own, for tests of what is remembered.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netbisect.store.database import open_database
from netbisect.store.schema import migrate

_BOTH = "both_databases"
_DATABASES = (
    "sqlite",
    # All in one process of xdist, which has the one cluster.
    pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql")),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked so is run once on each database, if it does not say itself on which."""
    own = any(
        "database" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
    )
    marked = metafunc.definition.get_closest_marker(_BOTH)
    if "database" in metafunc.fixturenames and marked and not own:
        metafunc.parametrize("database", _DATABASES, indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """Which database it is: sqlite or postgresql."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and nothing in them, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "ledger.sqlite"
    engine = open_database(f"sqlite:///{path}")
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture
def url(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Of a database with its tables and nothing in them."""
    if database == "postgresql":
        return str(request.getfixturevalue("postgresql_url"))
    return f"sqlite:///{shutil.copy(request.getfixturevalue('migrated'), tmp_path)}"
