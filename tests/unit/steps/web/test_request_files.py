"""Serving files of requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from netbisect.steps.web.request_files import find


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    (folder / "request-7" / "c2558-1").mkdir(parents=True)
    for name in ("request.json", "c2558-1/README.md", "c2558-1/.new-README.md", "c2558-1/x.html"):
        (folder / "request-7" / name).write_text(name)
    (folder / "alert-1.html").write_text("a page")
    (tmp_path / "secret.json").write_text("secret")
    (folder / "request-7" / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "request-8").symlink_to(tmp_path)
    return folder


@pytest.mark.parametrize(
    "parts",
    [
        ("request-7",),
        ("request-7", "c2558-1"),
        ("request-7", "c2558-1", ".new-README.md"),
        ("request-7", "c2558-1", "x.html"),
        ("request-7", "c2558-1", "README.md", ""),
        ("request-7", "link.json"),
        ("request-7", "..", "alert-1.html"),
        ("request-7", "../../secret.json"),
        ("request-7", "c2558-1/README.md"),
        ("request-8", "secret.json"),
        ("request-9", "request.json"),
        ("..", "secret.json"),
        ("request-7", "a\0b"),
    ],
)
def test_other_paths_are_not_served(reports: Path, parts: tuple[str, ...]) -> None:
    assert find(reports, parts) is None
