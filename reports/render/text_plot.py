"""A posterior as a text plot along the commits."""

from __future__ import annotations

from netbisect.bisect.model.results import Posterior
from netbisect.reports.render import words

_BARS = " ▁▂▃▄▅▆▇█"
_WIDTH = 64
"""Of the picture, in characters."""
_NAMED = 3
"""Labelled commits."""


def posterior(belief: Posterior, label: words.Name) -> list[str]:
    """A belief as a picture, oldest commit left, and the likeliest commits by name.

    Args:
        belief: The posterior.
        label: Names revisions.
    """
    chances = list(belief.chances.values())
    share = max(1, -(-len(chances) // _WIDTH))
    groups = [sum(chances[at : at + share]) for at in range(0, len(chances), share)]
    highest = max(groups, default=0.0) or 1.0
    bars = "".join(_BARS[round((len(_BARS) - 1) * group / highest)] for group in groups)
    best = sorted(belief.chances.items(), key=lambda item: -item[1])[:_NAMED]
    named = ", ".join(f"{label(one)} {words.certainty(p)}" for one, p in best)
    mass = len(belief.credible(0.9))
    indent = " " * 10
    summary = f"{named}; 90 % in {words.count(mass, 'commit')}; none of them: "
    return [f"{indent}│{bars}│", f"{indent}{summary}{words.certainty(belief.none)}"]
