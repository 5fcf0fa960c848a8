"""What a report is made of: a side of the proof has all boots of its image."""

from __future__ import annotations

import math

from netbisect.bisect.model import Evidence, Kernel, Reading
from netbisect.steps.casefile import _pps


def kernel(revision: str, identity: str) -> Kernel:
    return Kernel(revision, "GENERIC", "amd64", identity, f"key-{revision}", "v", 1, 0.0, 1.0)


def reading(boot: str, revision: str, identity: str, pps: float) -> Reading:
    return Reading(boot, revision, identity, {"forwarding": math.log(pps)})


def test_a_culprit_that_was_never_booted_itself_shows_the_boots_of_its_twin() -> None:
    """The commit after it changed a manual page: their kernels run the same instructions."""
    evidence = Evidence(
        readings=(
            reading("1", "parent", "fast", 950),
            reading("2", "page", "slow", 840),
            reading("3", "page", "slow", 850),
        ),
        kernels={
            "parent": kernel("parent", "fast"),
            "culprit": kernel("culprit", "slow"),
            "page": kernel("page", "slow"),
        },
    )
    pps = _pps(evidence, ("forwarding",), {"parent", "culprit"})["forwarding"]

    assert [round(value) for value in pps["culprit"]] == [840, 850]
    assert [round(value) for value in pps["page"]] == [840, 850]
    assert [round(value) for value in pps["parent"]] == [950]
