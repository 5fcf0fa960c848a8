"""What all tests share: a home of their own, fixtures, and settled chances."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# As in master.cfg: a fork beside a thread that computes would wait for OpenBLAS for ever.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

hypothesis.settings.register_profile("settled", derandomize=True, deadline=None)
hypothesis.settings.load_profile("settled")


def pytest_configure(config: pytest.Config) -> None:
    for name in (
        "checkout_fixtures",
        "guard_fixtures",
        "hand_fixtures",
        "lab_fixtures",
        "machine_fixtures",
        "played_lab",
        "postgresql_fixtures",
        "real_master",
        "api_master",
        "service_fixtures",
        "site_fixtures",
        "store_fixtures",
        "vm_fixtures",
    ):
        path = Path(__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        config.pluginmanager.register(module, name)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of the user's own configuration has a say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        for who in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{who}_NAME", "Test")
            patch.setenv(f"GIT_{who}_EMAIL", "test@netbisect.invalid")
        yield


_LONGEST = ("test_tutorial.py", "test_service.py", "test_chaos.py", "test_packaging.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first: as one of the last each would be waited for alone."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)
