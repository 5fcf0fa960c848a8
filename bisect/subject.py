"""What is measured: a revision, or a revision with a patch, under one name.

A revision with a patch is called `HASH+D5180-1a2b3c4d`: its commit, and the mark of the patch,
which is made of its content. To all that decides or remembers it is one more revision, that is on
no branch; so nothing that was measured with the patch is ever taken for the revision without it.
"""

from __future__ import annotations

import re

OVERLAY_MARK = "+"
"""Between a kernel configuration and the overlays and patches that the kernel was built with, and
between a commit and its patch."""
PATCH_MARK = re.compile(r"(?:D[1-9]\d*|patch)-[0-9a-f]{8}\Z")
"""Name of a patch, among those; no overlay may be called so."""
_SHORT = 12


def with_patch(commit: str, mark: str) -> str:
    """The name of a commit with a patch; of the commit itself where the mark is empty."""
    return f"{commit}{OVERLAY_MARK}{mark}" if mark else commit


def parts_of(revision: str) -> tuple[str, str]:
    """The commit, and the mark of its patch; "" where it has none.

    In imported histories a name may have a plus of its own, as r295150+mbuf: that is no patch.
    """
    commit, _, mark = revision.rpartition(OVERLAY_MARK)
    return (commit, mark) if commit and PATCH_MARK.match(mark) else (revision, "")


def commit_of(revision: str) -> str:
    """The commit, whatever patch it has."""
    return parts_of(revision)[0]


def patch_of(config: str) -> str:
    """The mark of the patch in a configuration such as GENERIC+D5180-1a2b3c4d; "" for none."""
    return parts_of(config)[1]


def short(revision: str) -> str:
    """A name for people where nothing better is known: a short hash, and the patch if any."""
    commit, mark = parts_of(revision)
    return with_patch(commit[:_SHORT], mark)
