"""Unpacks archives that may have been damaged or made by a stranger."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Extracts everything, nothing outside of `folder`; raises what tarfile raises."""
    # Python 3.11.0 to 3.11.3 have no filters, and take no argument of that name.
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    archive.extractall(folder)  # noqa: S202 - filtered where Python can
