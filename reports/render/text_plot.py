"""A posterior as a text plot along the commits."""

from __future__ import annotations

import math

from netbisect.bisect.model.results import Posterior
from netbisect.reports.render import words

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 64
"""Characters of the plot."""
_NAMED = 3
"""Labelled commits."""
_LEAST_NAMED = 0.001
"""Smallest probability of the second labelled commit."""
_MENTIONED = 0.01
"""Smallest probability of another explanation that is mentioned."""
_LIKELIER = 0.5
"""Probability above which an explanation is more likely than not."""
_INDENT = " " * 10


def posterior(probabilities: Posterior, label: words.Name) -> list[str]:
    """A posterior as a text plot, oldest commit left, with the most likely commits by name."""
    chances = list(probabilities.chances.values())
    share = max(1, -(-len(chances) // _WIDTH))
    groups = [sum(chances[at : at + share]) for at in range(0, len(chances), share)]
    highest = max(groups, default=0.0) or 1.0
    bars = "".join(_BARS[round((len(_BARS) - 1) * group / highest)] for group in groups)
    others = {"two commits or more": probabilities.two, "a drift": probabilities.drift}
    shares = [f"{name}: {words.certainty(p)}" for name, p in others.items() if p >= _MENTIONED]
    lines = [f"│{bars}│", _single_commit(probabilities, label), "; ".join(shares)]
    return [f"{_INDENT}{line}" for line in lines if line]


def _single_commit(probabilities: Posterior, label: words.Name) -> str:
    alone = math.fsum(probabilities.chances.values())
    if alone < _LIKELIER and probabilities.none < _LIKELIER:
        return f"one commit alone: {words.certainty(alone)}"
    best = sorted(probabilities.chances.items(), key=lambda item: -item[1])[:_NAMED]
    best = best[:1] + [other for other in best[1:] if other[1] >= _LEAST_NAMED]
    named = ", ".join(f"{label(one)} {words.certainty(p)}" for one, p in best)
    likely = probabilities.credible()
    # Less than 90 % where other explanations are likely: then these are all of the commits.
    mass = words.certainty(math.fsum(probabilities.chances[one] for one in likely))
    where = words.count(len(likely), "commit")
    return f"{named}; {mass} in {where}; no change: {words.certainty(probabilities.none)}"
