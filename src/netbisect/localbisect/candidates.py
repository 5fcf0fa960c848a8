"""The search that the options of `netbisect bisect run` define, with its candidate commits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.search import prior
from netbisect.localbisect.overlay import read_overlays
from netbisect.localbisect.repository import Repository
from netbisect.localbisect.search import CandidateCommit, OverlaySpec, SearchSpec

_ELSEWHERE = 0.02
"""Weight of a commit that touches no matching path."""


def resolve_search(
    repository: Repository,
    good: str,
    bad: str,
    overlays: Sequence[str],
    options: Mapping[str, Any],
    warn: Callable[[str], None],
) -> tuple[SearchSpec, dict[OverlaySpec, bytes]]:
    """The search in a repository, and the contents of its overlays.

    Revisions and overlays are as given by the user; `options` are the other fields of the search.
    Warns of paths that match nothing.

    Raises:
        RepositoryError: The revisions do not form a range.
        OverlayError: A patch cannot be used.
    """
    first = repository.resolve(good, "--good")
    last = repository.resolve(bad, "--bad")
    commits = repository.commits_between(first, last, names=(good, bad))
    for pattern in options["paths"]:
        if not any(_touches(commit, pattern) for commit in commits):
            warn(
                f"--path {pattern} matches no file that a commit of the range changes; expected a "
                "pattern for paths from the top of the repository, such as 'src/*'."
            )
    kept = without_repeated_trees(first, commits, repository.trees(first, last))
    line = zip(kept, prior_weights(kept, options["paths"]), strict=True)
    everything, run = ([first, *(one.revision for one in some)] for some in (commits, kept))
    patches = read_overlays(overlays, repository, everything, run)
    spec = SearchSpec(
        good=first,
        bad=last,
        line=tuple(CandidateCommit(one.revision, one.subject, weight) for one, weight in line),
        commits=len(commits),
        good_subject=repository.commit(first).subject,
        overlays=tuple(patches),
        **options,
    )
    return spec, patches


def without_repeated_trees(
    good: str, commits: Sequence[Commit], trees: Mapping[str, str]
) -> list[Commit]:
    """Drops commits that repeat an earlier tree, and the commits undone by them.

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


def prior_weights(commits: Sequence[Commit], patterns: Sequence[str]) -> list[float]:
    """Normalized prior weights by size and by path; `*` of the shell patterns matches `/` too."""
    return prior.normalized([_relevance(one, patterns) * prior.size(one) for one in commits])


def _relevance(commit: Commit, patterns: Sequence[str]) -> float:
    hit = any(_touches(commit, pattern) for pattern in patterns)
    return 1.0 if hit or not patterns else _ELSEWHERE


def _touches(commit: Commit, pattern: str) -> bool:
    return any(fnmatchcase(path, pattern) for path in commit.paths)
