"""What the options of `netbisect bisect run` ask of a repository."""

from __future__ import annotations

from dataclasses import dataclass

from netbisect.steps.hand import candidates, overlay
from netbisect.steps.hand.repository import Repository
from netbisect.steps.hand.search import Search, Spot


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `netbisect bisect run` that say what is searched."""

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


def search_of(
    repository: Repository, good: str, bad: str, options: Options
) -> tuple[Search, list[overlay.Patch]]:
    """What is asked, of this repository, and the patches that go with it.

    Raises:
        RepositoryError: The revisions are no range.
        OverlayError: A patch cannot be used.
    """
    first = repository.resolve(good, "--good")
    last = repository.resolve(bad, "--bad")
    commits = repository.line(first, last, names=(good, bad))
    kept = candidates.same_trees(first, commits, repository.trees(first, last))
    line = zip(kept, candidates.weights(kept, options.paths), strict=True)
    everything, run = ([first, *(one.revision for one in some)] for some in (commits, kept))
    patches = overlay.read(options.overlays, repository, everything, run)
    asked = Search(
        good=first,
        bad=last,
        command=options.command,
        line=tuple(Spot(one.revision, one.subject, weight) for one, weight in line),
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
    return asked, patches
