"""The mail of a day: what was measured and what was not, what is new, open and over."""

from __future__ import annotations

from netbisect.reports import words
from netbisect.reports.documents import Digest, Item
from netbisect.reports.mail import Letter
from netbisect.reports.templating import environment

_LINES_MAX = 20
"""Of each list."""


def letter(digest: Digest) -> Letter:
    """Tells of a day, also when it was quiet."""
    day = words.day(digest.until)
    news = [
        words.count(len(items), noun)
        for items, noun in ((digest.drops, "new drop"), (digest.gains, "improvement"))
        if items
    ]
    if digest.over:
        news.append(f"{len(digest.over)} over")
    ran = (
        f"{digest.measured} of {digest.planned} series" if digest.planned else "nothing to measure"
    )
    subject = f"[netbisect] {day}: {ran}, {', '.join(news) or 'nothing new'}"
    sections = [
        ("New drops", _table(digest.drops)),
        ("Improvements", _table(digest.gains)),
        ("How often boots are slow has changed", _table(digest.other)),
        ("Over", _table(digest.over)),
        ("Open as before", _table(digest.standing)),
        ("Searches under way", _lines(digest.searches)),
        ("Levels that slide", _lines(digest.drifts)),
        ("What is off in the data", _lines(digest.warnings)),
    ]
    text = environment.get_template("digest.txt").render(
        headline=_headline(digest, day),
        missing=[
            (
                words.clean(f"{one.place}: {words.listing(list(one.scenarios))}"),
                words.reason(one.why),
            )
            for one in digest.missing[:_LINES_MAX]
        ],
        missing_left=max(len(digest.missing) - _LINES_MAX, 0),
        sections=[(name, shown, left) for name, (shown, left) in sections if shown],
        page=digest.page,
    )
    return Letter(words.clean(subject), text)


def _headline(digest: Digest, day: str) -> str:
    if digest.planned:
        said = f"The night before {day} measured {digest.measured} of {digest.planned} series."
    else:
        said = f"In the night before {day} there was nothing to measure."
    if digest.unchanged:
        said += f" Nothing new had landed for {words.clean(words.listing(list(digest.unchanged)))}."
    new = [*digest.drops, *digest.gains, *digest.other, *digest.over]
    stand = len(digest.drops) + len(digest.standing)
    said += "" if new else " Nothing is new."
    if stand:
        return (
            f"{said} {words.count(stand, 'alert')} of drops {'is' if stand == 1 else 'are'} open."
        )
    return f"{said} No alert is open."


def _table(items: tuple[Item, ...]) -> tuple[list[tuple[str, ...]], int]:
    rows: list[tuple[str, ...]] = [
        (str(one.number), words.clean(one.place), one.change, words.clean(one.now))
        for one in items[:_LINES_MAX]
    ]
    return rows, max(len(items) - _LINES_MAX, 0)


def _lines(sentences: tuple[str, ...]) -> tuple[list[tuple[str, ...]], int]:
    rows: list[tuple[str, ...]] = [("-", words.clean(one)) for one in sentences[:_LINES_MAX]]
    return rows, max(len(sentences) - _LINES_MAX, 0)
