"""Search: choice of the next boot, verification and identical kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_fixtures import LEAD, PRICES, bisection, evidence_of, names, proof, simulated

from netbisect.bisect.model.entities import Noise
from netbisect.bisect.model.evidence import Evidence, Observation
from netbisect.bisect.model.results import Culprit, NotReproduced, Trial, Unfinished
from netbisect.bisect.search import kernel_comparison
from netbisect.bisect.search.engine import next_move
from netbisect.bisect.search.posterior import posterior_of
from netbisect.bisect.search.prefetch import forecast


@given(st.integers(1, 8), st.integers(0, 99), st.integers(2, 4))
@settings(max_examples=2)
def test_identical_kernels_are_booted_under_one_revision(culprit: int, seed: int, run: int) -> None:
    same_kernel = [
        (i, first)
        for i in range(9)
        if (first := culprit if i >= culprit and i < culprit + run else i - i % run) < i
        and (first >= culprit) == (i >= culprit)
    ]
    played = simulated(seed, 8, culprit, drop=0.11, same_kernel=same_kernel)
    by_kernel: dict[str, set[str]] = {}
    for trial in played.trials:
        identity = played.evidence.kernels[trial.revision].identity
        by_kernel.setdefault(identity, set()).add(trial.revision)

    assert all(len(revisions) == 1 for revisions in by_kernel.values())
    assert isinstance(played.result, Culprit)
    assert played.result.revision == f"r{culprit}"


def test_equal_kernels_of_both_ends_are_the_reason_of_no_change() -> None:
    """r1 builds another kernel, and r2 that of r0 again."""
    result = simulated(1, 2, same_kernel=[(2, 0)]).result

    assert isinstance(result, NotReproduced)
    assert result.why == "both ends build the same kernel"


def test_forecast_with_a_known_trial_is_the_same() -> None:
    known = evidence_of({"r0": [14.0, 14.001], "r16": [13.95, 13.951]}, r0="a", r16="b")
    move = next_move(bisection(16), known, PRICES)

    assert isinstance(move, Trial)
    expected = forecast(bisection(16), known, PRICES)
    assert forecast(bisection(16), known, PRICES, move) == expected
    assert expected.boots_left > 4


def test_parent_with_a_measured_kernel_is_not_booted_again() -> None:
    """r2 builds the kernel of r1, so that boots of r1 verify r3."""
    known = evidence_of(
        {"r1": [14.0, 14.001, 14.002], "r3": [13.95, 13.951, 13.952]}, r1="a", r2="a", r3="b"
    )

    move = next_move(bisection(4), known, PRICES)
    ordered = proof("r2", "r3", (14.0, 13.95), identities=("a", "b"))
    boots = (replace(r, revision="r1") if r.revision == "r2" else r for r in ordered)
    found = next_move(
        bisection(4), replace(known, observations=(*known.observations, *boots)), PRICES
    )

    assert isinstance(move, Trial)
    assert move.why == "verifies r3 against its parent r2"
    assert move.revision in {"r1", "r3"}
    assert isinstance(found, Culprit)
    assert (found.revision, found.parent) == ("r3", "r2")


FACTS = st.lists(
    st.tuples(
        st.sampled_from(names(6)), st.sampled_from([14.0, 13.99, 13.95, 13.94, 13.9]), st.booleans()
    ),
    max_size=14,
)


@given(FACTS, st.sets(st.sampled_from(names(6)), max_size=3))
@settings(max_examples=12)
def test_every_move_is_valid(facts, skips) -> None:  # noqa: ANN001
    """Trials exclude skipped revisions, and culprits are verified."""
    observations = tuple(
        Observation(f"b{i}", name, "", {LEAD: x + i * 1e-4}, fresh)
        for i, (name, x, fresh) in enumerate(facts)
    )
    skipped = dict.fromkeys(skips, "it does not build")
    evidence = Evidence(observations, skipped=skipped)
    move = next_move(bisection(6), evidence, PRICES)

    assert not isinstance(move, Trial) or move.revision in set(names(6)) - skips
    assert not isinstance(move, Trial) or move.why
    assert move.posterior == posterior_of(bisection(6), evidence)  # type: ignore[union-attr] - all moves of a search have it
    if isinstance(move, Culprit):
        for name in (move.revision, move.parent):
            assert sum(r.order.startswith("verifies") for r in evidence.of(name)) >= 2


def failing_verification(good: str, bad: str, old: int) -> Evidence:
    """Inherited boots of both sides differ, and ten fresh boots of each side do not."""
    inherited = [
        Observation(f"old {name} {i}", name, "", {LEAD: level + 1e-3 * (i % 3)}, fresh=False)
        for name, level in ((good, 14.0), (bad, 13.9))
        for i in range(old)
    ]
    fresh = proof(good, bad, (13.98, 13.98), blocks=5)
    return Evidence((*inherited, *fresh))


def test_failed_verification_names_no_culprit() -> None:
    move = next_move(bisection(6), failing_verification("r2", "r3", 60), PRICES)

    assert not isinstance(move, Culprit)
    assert not (isinstance(move, Trial) and move.why.startswith("verifies r3"))

    single = next_move(bisection(1), failing_verification("r0", "r1", 90), PRICES)

    assert isinstance(single, Unfinished)
    assert single.why == "boots of r1 and of its parent do not differ as the search expects"


@pytest.mark.parametrize(
    ("level", "boots", "ended"), [(14.015, 7, False), (14.015, 8, True), (14.02, 8, False)]
)
def test_second_step_has_to_become_likely_soon(level: float, boots: int, *, ended: bool) -> None:
    """The good end is faster than the parent of a verified culprit."""
    known = evidence_of({"r0": [level, level + 1e-3], "r16": [13.95, 13.951]}).observations
    later = evidence_of({"r0": [level + 1e-3 * (i % 3) for i in range(boots)]}).observations
    ordered = proof("r2", "r3", (14.0, 13.95))
    move = next_move(bisection(16), Evidence((*known, *ordered, *later)), PRICES)

    assert isinstance(move, Culprit) == ended


def test_boots_of_a_search_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise is five times the drop."""
    monkeypatch.setattr(kernel_comparison, "_MOST_BOOTS", 60)
    played = simulated(6, 8, 4, drop=0.02, noise=Noise(0.1, 0.0), retest=1)

    assert isinstance(played.result, Unfinished)
    assert 50 < played.boots <= 60 + 2  # one boot of each end precedes the search
