"""Which commits of a range may have made a lasting change, and how likely each is to begin with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from netbisect.bisect.model import Commit

_UNIFORM = 0.15
"""Share of the prior that all commits get alike: patterns of paths must not exclude anybody."""
_ELSEWHERE = 0.02
"""Weight of a commit that touches none of the paths that matter."""


def same_trees(good: str, commits: Sequence[Commit], trees: Mapping[str, str]) -> list[Commit]:
    """Leaves out the commits that cannot be told apart, or cannot have made a lasting change.

    Where a tree comes back, what lies between its two commits was undone, and the later one is
    the earlier one again.

    Args:
        good: The revision before the first commit.
        commits: Oldest first.
        trees: By revision.
    """
    kept: list[Commit] = []
    places = {trees[good]: 0}
    for commit in commits:
        place = places.get(trees[commit.revision])
        if place is None:
            kept.append(commit)
            places[trees[commit.revision]] = len(kept)
        else:
            for undone in kept[place:]:
                del places[trees[undone.revision]]
            del kept[place:]
    return kept


def weights(commits: Sequence[Commit], patterns: Sequence[str]) -> list[float]:
    """Prior weights, 1 on average: by size, and by the paths that matter where they are given.

    Args:
        commits: With their paths and numbers of lines.
        patterns: As a shell has them; `*` stands for a `/` too.
    """
    own = [_relevance(commit, patterns) * _size(commit) for commit in commits]
    total = math.fsum(own)
    return [_UNIFORM + (1 - _UNIFORM) * weight * len(own) / total for weight in own]


def _relevance(commit: Commit, patterns: Sequence[str]) -> float:
    if not patterns:
        return 1.0
    hit = any(fnmatchcase(path, pattern) for path in commit.paths for pattern in patterns)
    return 1.0 if hit else _ELSEWHERE


def _size(commit: Commit) -> float:
    """From 1 for a one-liner to 2 for a thousand lines and more: bugs go with lines, slowly."""
    return 1 + min(1.0, math.log10(1 + commit.lines) / 3)
