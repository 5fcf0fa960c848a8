"""The daily digest mail."""

from __future__ import annotations

from netbisect.bisect.model.mail import Mail
from netbisect.reports.model.types import AlertSummary, DigestDocument
from netbisect.reports.render import words
from netbisect.reports.render.templating import environment

_LINES_MAX = 20


def mail(digest: DigestDocument) -> Mail:
    """The digest of a day."""
    day = words.day(digest.until)
    news = [
        words.count(len(items), noun)
        for items, noun in ((digest.drops, "new drop"), (digest.gains, "improvement"))
        if items
    ]
    if digest.over:
        news.append(f"{len(digest.over)} closed")
    ran = (
        f"{digest.measured} of {digest.planned} series" if digest.planned else "nothing to measure"
    )
    subject = f"[netbisect] {day}: {ran}, {', '.join(news) or 'nothing new'}"
    missing = [
        (words.clean(f"{one.place}: {words.listing(one.scenarios)}"), words.reason(one.why))
        for one in digest.missing
    ]
    sections: list[tuple[str, list[tuple[str, ...]]]] = [
        ("Not measured", [*missing]),
        ("New drops", _table(digest.drops)),
        ("Improvements", _table(digest.gains)),
        ("Changes in the share of slow boots", _table(digest.other)),
        ("Closed", _table(digest.over)),
        ("Still open", _table(digest.standing)),
        ("Running searches", _lines(digest.searches)),
        ("Slow drifts", _lines(digest.drifts)),
        ("Data warnings", _lines(digest.warnings)),
    ]
    text = environment.get_template("digest.txt").render(
        headline=_headline(digest, day),
        sections=sections,
        most=_LINES_MAX,
        rest="",
        page=digest.page,
    )
    return Mail(words.clean(subject), text)


def _headline(digest: DigestDocument, day: str) -> str:
    if digest.planned:
        sentence = f"The night before {day} measured {digest.measured} of {digest.planned} series."
    else:
        sentence = f"The night before {day} had nothing to measure."
    if digest.unchanged:
        series = words.clean(words.listing(digest.unchanged))
        sentence += f" No new commits were fetched for {series}."
    new = [*digest.drops, *digest.gains, *digest.other, *digest.over]
    stand = sum(one.state.active for one in (*digest.drops, *digest.standing))
    sentence += "" if new else " No changes."
    if stand:
        return f"{sentence} {words.count(stand, 'open drop')}."
    return f"{sentence} No open drops."


def _table(alerts: tuple[AlertSummary, ...]) -> list[tuple[str, ...]]:
    return [
        (
            str(one.id),
            words.clean(f"{one.title} on {one.testbed}, {one.branch}"),
            words.change(one.difference) if one.difference else "",
            words.state(one),
        )
        for one in alerts
    ]


def _lines(sentences: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [("-", words.clean(one)) for one in sentences]
