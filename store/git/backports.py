"""Follows a commit to the stable branches, and to its fix, by the history of the tree."""

from __future__ import annotations

from collections.abc import Iterable

from netbisect.bisect.commit_trailers import MergeStatus, merge_status
from netbisect.store.git.history import History


def fate_of(history: History, revision: str, branch: str, stable: Iterable[str]) -> MergeStatus:
    """What has become of a commit of `branch`, as far as the clone knows.

    Args:
        history: of the tree, updated.
        revision: the commit; on the first-parent line of `branch`.
        branch: where it was committed, such as `main`.
        stable: branches to look at, such as `stable/14`.

    Raises:
        HistoryError: the commit is not on that branch, or a branch is not there, or the clone
            cannot be read.
    """
    commit = history.commit(revision)
    later = history.between(commit.revision, history.head(branch), paths=False)
    landed = {name: history.since(name, commit.at, paths=False) for name in stable}
    return merge_status(commit, later, landed)
