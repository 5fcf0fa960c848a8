"""A command that starts processes and uses NumPy, with four threads of OpenBLAS.

A fork while a thread computes with OpenBLAS can deadlock. The command computes and starts
processes alternately, so that no fork meets a calculation.
"""

from __future__ import annotations

import os

import pytest
from localbisect_fixtures import NETBISECT, Repository
from programs import captured


@pytest.mark.long
@pytest.mark.slow
def test_bisect_run_ends_with_the_culprit(slower: Repository) -> None:
    """The search computes before each run, and each run is a process."""
    environment = {name: os.environ[name] for name in ("HOME", "PATH")}
    environment |= {"JOURNAL": str(slower.journal), "TMPDIR": str(slower.place.parent)}
    environment |= {"OPENBLAS_NUM_THREADS": "4"}
    done = captured([NETBISECT, *slower.arguments(())], cwd=slower.place, env=environment)

    culprit = slower.revisions[17][:12]
    assert f"Commit {culprit} Change 17 made the number fall" in done.stdout, done.stderr
