"""Commands that start processes and use NumPy, with four threads of OpenBLAS.

A fork while a thread computes with OpenBLAS can deadlock. These commands compute and
start processes alternately, so that no fork meets a calculation.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from localbisect_fixtures import NETBISECT, Repository
from programs import captured


def environment(**more: str) -> dict[str, str]:
    own = {name: os.environ[name] for name in ("HOME", "PATH")}
    return {**own, "OPENBLAS_NUM_THREADS": "4", **more}


@pytest.mark.long
@pytest.mark.slow
def test_bisect_run_ends_with_the_culprit(slower: Repository) -> None:
    """The search computes before each run, and each run is a process."""
    done = captured(
        [NETBISECT, *slower.arguments(())],
        cwd=slower.place,
        env=environment(JOURNAL=str(slower.journal), TMPDIR=str(slower.place.parent)),
    )

    culprit = slower.revisions[17][:12]
    assert f"Commit {culprit} Change 17 made the number fall" in done.stdout, done.stderr


@pytest.mark.long
@pytest.mark.slow
def test_site_is_written_by_several_processes(tmp_path: Path, filled: Path) -> None:
    database = f"sqlite:///{shutil.copy(filled, tmp_path)}"
    done = captured(
        [NETBISECT, "site", str(tmp_path / "site"), "--database", database], env=environment()
    )

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "index.html").is_file()
