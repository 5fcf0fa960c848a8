"""Repositories for tests of revision names."""

from __future__ import annotations

from pathlib import Path

import pytest
from revision_tree import Published, Tree

from netbisect.store.git.history import History


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "tree")


@pytest.fixture
def history(tree: Tree, tmp_path: Path) -> History:
    return History(tmp_path / "clone", str(tree.directory))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return Published(tmp_path_factory.mktemp("published"))
