"""Folders of a service that never runs, for tests of what it would do.

Registered as a plugin by conftest.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from netbisect.demo.house import House
from netbisect.steps import control
from netbisect.steps.casework import Casework
from netbisect.steps.settings import load


@pytest.fixture(scope="session")
def quiet_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of such a service; all commits have landed, and the tree has a mirror."""
    house = House(tmp_path_factory.mktemp("quiet") / "house")
    tree = house.build()
    tree.land(len(tree.revisions))
    settings, lab = load(house.place / control.SETTINGS)
    Casework(settings, lab).history.update()
    return house.place
