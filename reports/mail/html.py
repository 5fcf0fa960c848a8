"""The text of a mail as HTML: the same words, with headings, aligned tables and links."""

from __future__ import annotations

import re

from markupsafe import Markup

from netbisect.reports.render.templating import environment

_ADDRESS = re.compile(r"(https?://[^\s<>\"]+[^\s<>\".,;:)])")
_HEADING_MAX = 60
"""Longest heading, characters."""


def as_html(subject: str, text: str) -> str:
    """A whole document; its words are those of the text, in their order.

    The text has paragraphs, headings, and indented or drawn blocks, separated by empty lines.
    """
    blocks = [block for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]
    shown = [
        _block(block, blocks[i + 1] if i + 1 < len(blocks) else "")
        for i, block in enumerate(blocks)
    ]
    return environment.get_template("mail.html").render(subject=subject, blocks=shown)


def _block(block: str, following: str) -> Markup:
    lines = block.split("\n")
    drawn = any(line.startswith((" ", "\t", "|", "+", "x ")) for line in lines)
    if drawn:
        return Markup("<pre>{}</pre>").format(_linked(block))
    alone = len(lines) == 1 and len(block) <= _HEADING_MAX
    if alone and following.startswith(" ") and not block.endswith("."):
        return Markup("<h2>{}</h2>").format(block)
    return Markup("<p>{}</p>").format(_linked(" ".join(lines)))


def _linked(text: str) -> Markup:
    """A text with its addresses as links; `split` gives every second part to an address."""
    link = Markup('<a href="{0}">{0}</a>')
    parts = enumerate(_ADDRESS.split(text))
    return Markup("").join(link.format(part) if i % 2 else part for i, part in parts)
