"""Requests in mails and on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from netbisect.bisect.model.mail import Mail
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Effect
from netbisect.reports.documents.api import CostEstimate
from netbisect.reports.model.types import (
    ComparedRevision,
    ComparedSetting,
    RequestDocument,
    RequestPart,
)
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table, wrap

SETTINGS_NOTE = (
    "The settings, each compared with the scenario without it on the same kernel, trial by trial:"
)


def subject_line(number: int, kind: str, subjects: Sequence[str]) -> str:
    """Subject of all mails of a request, with the display names of its revisions."""
    first, *others = subjects
    named = others if len(others) < 2 else [f"{len(others)} others"]  # noqa: PLR2004 - two fit
    return words.clean(f"[netbisect] request {number}: {kind} {revisions(kind, [first, *named])}")


def revisions(kind: str, subjects: Sequence[str]) -> str:
    """The display names of the revisions of a request, `A and B`; of a search `A..B`."""
    return "..".join(subjects) if kind == "bisect" else words.listing(subjects)


def confirmation(
    number: int, kind: str, subjects: Sequence[str], cost: CostEstimate, address: str
) -> Mail:
    """The mail that confirms a request; `address` is that of its page."""
    boots = sum(one.boots for one in cost.testbeds)
    seconds = max(one.seconds for one in cost.testbeds) + cost.build_seconds
    search = sum(one.search.boots for one in cost.testbeds if one.search is not None)
    more = f"; if the ends differ, about {search} more for the search" if search else ""
    limit = "about" if search else "at most"
    places = [
        ("kind", kind),
        *(("subject", words.clean(one)) for one in subjects),
        ("testbeds", ", ".join(one.testbed for one in cost.testbeds)),
        (
            "cost",
            f"{limit} {words.count(boots, 'boot')}, {words.duration(seconds)} of lab time{more}",
        ),
    ]
    text = [
        wrap(f"Request {number} is queued. The result follows as a reply to this message."),
        table(places),
        wrap("Status and cancellation:"),
        f"{address}\n  netbisect request show {number}\n  netbisect request cancel {number}",
    ]
    return Mail(subject_line(number, kind, subjects), "\n\n".join(text) + "\n")


def news(number: int, kind: str, subjects: Sequence[str], headline: str, address: str) -> Mail:
    """The mail about an action of another user, a sentence."""
    text = [
        wrap(words.clean(headline)),
        wrap("Measurements are kept. Status and further changes:"),
        f"{address}\n  netbisect request show {number}\n  netbisect request --help",
    ]
    return Mail(f"Re: {subject_line(number, kind, subjects)}", "\n\n".join(text) + "\n")


def mail(found: RequestDocument) -> Mail:
    """The mail with the result."""
    text = [wrap(words.clean(found.sentence)), *_tables(found), *_remarks(found)]
    text.append(wrap(f"Cost: {words.cost(found.spent)}."))
    places = [one for one in (found.address, *found.values) if one]
    if places:
        text.append("\n".join(["Values, plots and history:", *places]))
    subject = subject_line(found.number, found.kind, found.labels)
    return Mail(f"Re: {subject}", "\n\n".join(text) + "\n")


def _tables(found: RequestDocument) -> Iterator[str]:
    """The differences, and the effects of settings."""
    if found.differences:
        # A revision and its patch are two words: as one, they would leave no room for the change.
        yield table([(*row[:2], row[2].replace("+", " +"), *row[3:]) for row in rows(found)])
    if found.settings:
        yield wrap(SETTINGS_NOTE)
        yield table(setting_rows(found))


def _remarks(found: RequestDocument) -> list[str]:
    return [wrap(words.clean(one)) for one in (*consistency(found), *found.remarks)]


def rows(found: RequestDocument) -> list[tuple[str, ...]]:
    """The differences as a table, its head first."""
    lines: list[tuple[str, ...]] = [("testbed", "scenario", "revision", "change", "boots", "")]
    for one in found.differences:
        change, boots, remark = "none", "", one.why
        if one.difference is not None:
            change = words.change(one.difference)
            boots = f"{one.difference.good_boots}+{one.difference.bad_boots}"
            remark = one.word
        row = (_place(found, one), one.scenario, one.subject, change, boots, remark)
        lines.append(tuple(map(words.clean, row)))
    return lines


def setting_rows(found: RequestDocument) -> list[tuple[str, ...]]:
    """The effects of settings as a table, its head first."""
    head = ("testbed", "scenario", "setting", "revision", "change", "boots")
    lines: list[tuple[str, ...]] = [head]
    for one in found.settings:
        change, boots = words.change(one.difference), str(one.difference.bad_boots)
        row = (_place(found, one), one.scenario, one.setting, one.subject, change, boots)
        lines.append(tuple(map(words.clean, row)))
    return lines


def _place(found: RequestDocument, line: ComparedRevision | ComparedSetting) -> str:
    runs = {one.run for one in found.differences} | {one.run for one in found.settings}
    return f"{line.testbed}, run {line.run}" if len(runs) > 1 else line.testbed


def consistency(found: RequestDocument) -> list[str]:
    """Sentences that compare the second run with the first."""
    sentences = []
    titles = {one.difference.scenario: one.scenario for one in found.differences if one.difference}
    for one in found.repeats:
        where = f"{titles.get(one.scenario, one.scenario)} on {one.testbed}"
        what = f"on {one.subject} in {where}: from the first to the second"
        apart = words.change(Effect(one.scenario, one.ln_ratio, one.ln_low, one.ln_high, 1.0, 0, 0))
        if one.consistent:
            sentences.append(
                f"The two runs agree {what} {apart}. Both booted the same images, so that the "
                "agreement is about these images, not about their code."
            )
        else:
            sentences.append(
                f"The two runs differ {what} {apart}, more than the scatter of boots explains."
            )
    return sentences


def hidden(line: ComparedRevision) -> str:
    """Remark on the code if only the kernels differ; "" if none."""
    low, high = line.code_low, line.code_high
    if line.difference is None or low is None or high is None or line.word != "no regression":
        return ""
    series = line.difference.scenario
    ends = [words.percent(one, series) for one in metric_of(series).ends(low, high)]
    return (
        f"{line.scenario} on {line.testbed}: the kernel of {line.subject} shows no relevant drop. "
        f"As images of the same code differ, too, a change of the code between {ends[0]} and "
        f"{ends[1]} is not excluded."
    )


def part_line(part: RequestPart) -> str:
    """Progress of a job, on one line."""
    run = f", run {part.run}" if part.run > 1 else ""
    most = part.boots if part.state == "closed" else part.boots_wanted
    boots = words.boots_of(part.boots, most, estimated=part.kind != "Measurement")
    line = f"{part.kind.lower()} on {part.testbed}{run}: {boots}"
    if part.place is not None and part.place > 1:
        line += f", place {part.place} in the queue"
    if part.now:
        line += f", {words.clean(part.now)}"
    if part.seconds_left:
        line += f", about {words.duration(part.seconds_left)} left"
    return line


def as_text(found: RequestDocument) -> str:
    """A request on a terminal: progress, or the result."""
    names = revisions(found.kind, found.labels)
    lines = [
        wrap(
            words.clean(
                f"Request {found.number}, {found.kind} {names}, requested by {found.who}: "
                f"{found.verdict or found.state}"
            )
        ),
    ]
    if found.sentence:
        lines.append(wrap(words.clean(found.sentence)))
    if found.state == "open":
        lines += [wrap(part_line(one), indent=2) for one in found.parts if one.state == "open"]
    lines += [*_tables(found), *_remarks(found)]
    history = [
        (words.moment(one.at), words.clean(f"{one.what} by {one.who}")) for one in found.history
    ]
    lines += [table(history), found.address]
    return "\n".join(lines)
