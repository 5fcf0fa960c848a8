"""Fixtures for tests of builds."""

from pathlib import Path

import pytest
from builds import OPTIONS

from netbisect.workers.config.builder import Builder


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder("amd64", "amd64", tmp_path / "builder", options=OPTIONS)
