"""An empty database of a test's own, for tests of what is remembered.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from netbisect.store.database import migrate, open_database


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and nothing in them, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "ledger.sqlite"
    engine = open_database(f"sqlite:///{path}")
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture
def url(migrated: Path, tmp_path: Path) -> str:
    """Of a database with its tables and nothing in them."""
    return f"sqlite:///{shutil.copy(migrated, tmp_path)}"
