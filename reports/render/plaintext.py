"""Text of at most 76 columns, for mails."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

WIDTH = 76
_GAP = "  "
_TIED = re.compile(r"(?<=\d) (?=%|[kM]?pps\b|h\b|min\b|s\b|boots?\b)")
"""Spaces between numbers and units."""
_TIE = "\N{NO-BREAK SPACE}"


def tie(text: str) -> str:
    """A text in which no line ends between a number and its unit."""
    return _TIED.sub(_TIE, text)


def wrap(text: str, indent: int = 0, width: int = WIDTH) -> str:
    """A paragraph, each line indented; words longer than a line are cut."""
    return "\n".join(" " * indent + line for line in _lines(text, width - indent))


def _lines(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(tie(text), width, break_on_hyphens=False)
    return [line.replace(_TIE, " ") for line in lines] or [""]


def table(rows: Iterable[Sequence[str]], indent: int = 2, width: int = WIDTH) -> str:
    """A table with columns as wide as their cells; the widest are wrapped to fit the line.

    Words, such as hashes, are cut only if all columns are as narrow as their longest word.
    """
    lines = list(rows)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = [max(map(_longest_word, column)) for column in zip(*lines, strict=True)]
    room = width - indent - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room:
        columns = [at for at, word in enumerate(words) if widths[at] > word] or range(len(widths))
        widths[max(columns, key=widths.__getitem__)] -= 1
    text = []
    for row in lines:
        cells = [_lines(cell, max(wide, 1)) for cell, wide in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            line = _GAP.join(f"{part:{wide}}" for part, wide in zip(parts, widths, strict=True))
            text.append((" " * indent + line).rstrip())
    return "\n".join(text)


def _longest_word(cell: str) -> int:
    return max(map(len, tie(cell).split(" ")))


def shell(command: str, indent: int = 2) -> str:
    """A command over several lines for pasting, broken between words only."""
    lexer = shlex.shlex(command, posix=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        text = " ".join(word.replace(" ", _TIE) for word in lexer)
    except ValueError:  # an unclosed quotation mark: no safe place to break
        return " " * indent + command
    lines = textwrap.wrap(
        text,
        WIDTH - len(" \\"),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 4),
        expand_tabs=False,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines).replace(_TIE, " ")
