"""The content of a mail."""

from __future__ import annotations

from typing import NamedTuple


class Mail(NamedTuple):
    """A plain-text mail of at most 76 columns; addresses stand on separate lines."""

    subject: str
    """One line."""
    text: str
