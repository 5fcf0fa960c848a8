"""Fixtures and options of all tests: a separate HOME, fixed seeds, strict skips."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = (
    "checkout_fixtures",
    "lab_fixtures",
    "localbisect_fixtures",
    "machine_fixtures",
    "played_lab",
    "postgresql_fixtures",
    "service_fixtures",
    "site_fixtures",
    "sshd_fixtures",
    "store_fixtures",
)

hypothesis.settings.register_profile(
    "reproducible", derandomize=True, deadline=None, max_examples=50
)
hypothesis.settings.load_profile("reproducible")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--strict-skips",
        action="store_true",
        help="fail if a test is skipped that tests/allowed_skips.txt does not name",
    )


class StrictSkips:
    """Fails the run after a skip that the list of allowed skips does not name."""

    def __init__(self, allowed: Path) -> None:
        lines = [line.split("#")[0].strip() for line in allowed.read_text().splitlines()]
        self._allowed = tuple(line for line in lines if line)
        self._found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._look(report)

    def _look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        skipped = report.skipped and not hasattr(report, "wasxfail")
        if skipped and not report.nodeid.startswith(self._allowed):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self._found.append(f"{report.nodeid}: {reason}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.section("skips that tests/allowed_skips.txt does not name")
            terminalreporter.write("".join(f"{one}\n" for one in self._found))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--strict-skips") and not hasattr(config, "workerinput"):
        allowed = Path(__file__).with_name("allowed_skips.txt")
        config.pluginmanager.register(StrictSkips(allowed), "strict_skips")


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty HOME, so that tests neither read nor change the user's files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


def pytest_collectstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Excludes imported modules, which stay in memory, from later garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


_LONGEST = ("test_tutorial.py", "test_metrics_night.py", "test_service.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts the longest tests first, so that the other processes are not idle at the end."""
    rank = {name: i for i, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))
