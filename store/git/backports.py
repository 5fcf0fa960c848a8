"""Finds the merges of a commit to stable branches, and its fixes."""

from __future__ import annotations

from collections.abc import Iterable

from netbisect.bisect.commit_trailers import MergeStatus, merge_status
from netbisect.store.git.history import History


def fate_of(history: History, revision: str, branch: str, stable: Iterable[str]) -> MergeStatus:
    """Merges and fixes of a commit of `branch` in the clone.

    Args:
        history: Of the tree, updated.
        revision: The commit, on the first-parent line of `branch`.
        branch: Its branch, such as `main`.
        stable: Branches to search, such as `stable/14`.

    Raises:
        HistoryError: the commit is not on its branch, a branch does not exist, or the clone cannot
            be read.
    """
    commit = history.commit(revision)
    later = history.between(commit.revision, history.head(branch), paths=False)
    landed = {name: history.since(name, commit.at, paths=False) for name in stable}
    return merge_status(commit, later, landed)
