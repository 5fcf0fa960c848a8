"""Turns the options of `netbisect bisect run` into a search of a repository."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.localbisect import candidates, overlay
from netbisect.localbisect.repository import Repository
from netbisect.localbisect.search import CandidateCommit, SearchSpec


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of `netbisect bisect run` that define the search."""

    metric: str
    direction: str
    min_effect: float
    effect: float | None
    setup: str
    noise: float | None
    paths: tuple[str, ...]
    overlays: tuple[str, ...]
    duts: int
    layouts: int
    image_noise: float | None
    command: tuple[str, ...]


def resolve_search(
    repository: Repository, good: str, bad: str, options: SearchOptions
) -> tuple[SearchSpec, list[overlay.OverlayPatch]]:
    """The search in this repository, and its overlay patches.

    Raises:
        RepositoryError: The revisions do not form a range.
        OverlayError: A patch cannot be used.
    """
    first = repository.resolve(good, "--good")
    last = repository.resolve(bad, "--bad")
    commits = repository.commits_between(first, last, names=(good, bad))
    kept = candidates.without_repeated_trees(first, commits, repository.trees(first, last))
    line = zip(kept, candidates.prior_weights(kept, options.paths), strict=True)
    everything, run = ([first, *(one.revision for one in some)] for some in (commits, kept))
    patches = overlay.read_overlays(options.overlays, repository, everything, run)
    spec = SearchSpec(
        good=first,
        bad=last,
        command=options.command,
        line=tuple(CandidateCommit(one.revision, one.subject, weight) for one, weight in line),
        commits=len(commits),
        good_subject=repository.commit(first).subject,
        metric=options.metric,
        direction=options.direction,
        min_effect=options.min_effect,
        effect=options.effect,
        setup=options.setup,
        noise=options.noise,
        paths=options.paths,
        overlays=tuple(patch.overlay for patch in patches),
        duts=options.duts,
        layouts=options.layouts,
        image_noise=options.image_noise,
    )
    return spec, patches
