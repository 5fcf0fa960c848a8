"""Posteriors as text."""

from __future__ import annotations

from netbisect.bisect.model.results import Posterior
from netbisect.reports.render import text_plot


def text_of(posterior: Posterior) -> str:
    return " ".join(" ".join(text_plot.posterior(posterior, str)[1:]).split())


def test_commits_that_are_excluded_have_no_label() -> None:
    chances = {"a": 0.0004, "b": 0.9, "c": 0.0004, "d": 0.0992}

    assert text_of(Posterior(chances, 0.0)) == (
        "b 90.0 %, d 9.9 %; 90.0 % in 1 commit; no change: less than 0.1 %"
    )


def test_several_culprits_and_drift_reduce_the_total() -> None:
    """The total over all commits may be less than 90 %."""
    chances = {f"c{i}": 0.01 for i in range(64)}

    assert text_of(Posterior(chances, 0.0, two=0.3, drift=0.06)) == (
        "c0 1.0 %, c1 1.0 %, c2 1.0 %; 64.0 % in 64 commits; no change: less than 0.1 % "
        "two commits or more: 30.0 %; a drift: 6.0 %"
    )
