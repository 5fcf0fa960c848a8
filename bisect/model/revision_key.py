"""Keys of revisions with and without a patch.

A revision with a patch is `HASH+D5180-1a2b3c4d`: the commit and the mark of the patch, which hashes
its content. Decisions and storage treat it as a separate revision on no branch.
"""

from __future__ import annotations

import re

OVERLAY_MARK = "+"
"""Separates a kernel configuration from overlays and patches, and a commit from its patch."""
PATCH_MARK = re.compile(r"(?:D[1-9]\d*|patch)-[0-9a-f]{8}\Z")
"""Mark of a patch; reserved, not allowed for overlays."""
_SHORT = 12


def with_patch(commit: str, mark: str) -> str:
    """The key of a commit with a patch; the commit itself if the mark is empty."""
    return f"{commit}{OVERLAY_MARK}{mark}" if mark else commit


def parts_of(revision: str) -> tuple[str, str]:
    """The commit, and the mark of its patch or "".

    Imported histories contain names with other suffixes, such as r295150+mbuf.
    """
    commit, _, mark = revision.rpartition(OVERLAY_MARK)
    return (commit, mark) if commit and PATCH_MARK.match(mark) else (revision, "")


def commit_of(revision: str) -> str:
    """The commit without its patch."""
    return parts_of(revision)[0]


def patch_of(config: str) -> str:
    """The mark of the patch in a configuration such as GENERIC+D5180-1a2b3c4d; "" for none."""
    return parts_of(config)[1]


def short(revision: str) -> str:
    """Short display name: abbreviated hash, and the patch if any."""
    commit, mark = parts_of(revision)
    return with_patch(commit[:_SHORT], mark)
