"""Unpacks untrusted archives."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Extracts all members, only inside `folder`; raises tarfile's errors."""
    # Python 3.11.0 to 3.11.3 have no filters, and take no argument of that name.
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)  # noqa: S202 - filtered where Python can
