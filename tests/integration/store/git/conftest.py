"""Repositories for tests of revision names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from netbisect.store.git.history import History

if TYPE_CHECKING:
    from revision_tree import Published, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    from revision_tree import Tree  # noqa: PLC0415 - tests/conftest.py sets the path later

    return Tree(tmp_path / "tree")


@pytest.fixture
def history(tree: Tree, tmp_path: Path) -> History:
    return History(tmp_path / "clone", str(tree.directory))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    from revision_tree import Published  # noqa: PLC0415 - tests/conftest.py sets the path later

    return Published(tmp_path_factory.mktemp("published"))
