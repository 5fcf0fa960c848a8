"""Mails about requests, and requests on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from netbisect.bisect.model.detection_results import DifferenceVerdict, RepeatedDifference
from netbisect.bisect.model.metric import metric_of
from netbisect.bisect.model.results import Effect
from netbisect.reports.model.types import Difference, RequestDocument, RequestPart
from netbisect.reports.render import words
from netbisect.reports.render.plaintext import table, wrap

_WORDS = {
    DifferenceVerdict.SLOWER: "slower",
    DifferenceVerdict.FASTER: "faster",
    DifferenceVerdict.SAME: "no regression",
    DifferenceVerdict.OPEN: "not settled",
}


SETTINGS_NOTE = (
    "The settings, each compared with the scenario without it on the same kernel, trial by trial:"
)


@dataclass(frozen=True, slots=True)
class Head:
    """The request."""

    number: int
    kind: str
    """compare, bisect or series."""
    subjects: tuple[str, ...]
    """For people."""
    testbeds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DifferenceLine:
    """A revision compared with the first one, in a scenario on a testbed."""

    testbed: str
    run: int
    scenario: str
    """For people."""
    subject: str
    """For people."""
    effect: Effect | None
    """None without a measurement."""
    low: float
    high: float
    """95 % interval when the offsets of the two images count, ln ratio."""
    word: DifferenceVerdict
    why: str = ""
    """Why there is no measurement."""


@dataclass(frozen=True, slots=True)
class SettingLine:
    """A setting compared with the scenario without it, on one kernel."""

    testbed: str
    run: int
    scenario: str
    """Without the setting, for people."""
    setting: str
    subject: str
    """For people."""
    effect: Effect


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """Result of a finished request."""

    head: Head
    verdict: str
    """regression, no regression, inconclusive or failed."""
    sentence: str
    margin: float
    """A drop that matters, as |ln ratio|."""
    lines: tuple[DifferenceLine, ...]
    settings: tuple[SettingLine, ...] = ()
    repeats: tuple[tuple[str, str, RepeatedDifference], ...] = ()
    """Testbed, subject, and how the second run lies to the first."""
    remarks: tuple[str, ...] = ()
    """Sentences."""
    cost: str = ""
    address: str = ""
    """Of its page."""
    folders: tuple[str, ...] = field(default=())
    """Where its values are, as netbenches keeps them."""


def subject_line(head: Head) -> str:
    """Subject of all mails of a request."""
    names = " and ".join(head.subjects) if len(head.subjects) < 3 else _several(head)  # noqa: PLR2004 - two fit
    return words.clean(f"[netbisect] request {head.number}: {head.kind} {names}")


def _several(head: Head) -> str:
    return f"{head.subjects[0]} and {len(head.subjects) - 1} others"


def confirmation(head: Head, boots: int, seconds: float, address: str) -> tuple[str, str]:
    """Subject and text of the mail that confirms a request.

    Args:
        head: The request.
        boots: Maximum number.
        seconds: Maximum time of the lab.
        address: Address of its page.
    """
    places = [
        ("asked", head.kind),
        *(("subject", words.clean(one)) for one in head.subjects),
        ("testbeds", ", ".join(head.testbeds)),
        ("costs", f"at most {words.count(boots, 'boot')}, {words.duration(seconds)} of the lab"),
    ]
    text = [
        wrap(f"Request {head.number} was taken. The answer comes as a reply to this message."),
        table(places),
        wrap("How far it is, and how it is cancelled:"),
        "\n".join(
            [
                address,
                f"  netbisect request show {head.number}",
                f"  netbisect request cancel {head.number}",
            ]
        ),
    ]
    return subject_line(head), "\n\n".join(text) + "\n"


def news(head: Head, headline: str, address: str) -> tuple[str, str]:
    """Subject and text of the mail about an action of another user.

    Args:
        head: The request.
        headline: A sentence.
        address: Address of its page.
    """
    text = [
        wrap(words.clean(headline)),
        wrap("What was measured for it is kept. How far it is, and how it is changed again:"),
        "\n".join(
            [address, f"  netbisect request show {head.number}", "  netbisect request --help"]
        ),
    ]
    return f"Re: {subject_line(head)}", "\n\n".join(text) + "\n"


def mail(answer: RequestAnswer) -> tuple[str, str]:
    """Subject and text of the mail with the answer."""
    text = [wrap(words.clean(answer.sentence))]
    if answer.lines:
        text.append(table(rows(answer)))
    if answer.settings:
        text += [wrap(SETTINGS_NOTE), table(setting_rows(answer))]
    text += [wrap(words.clean(one)) for one in (*consistency(answer), *answer.remarks)]
    if answer.cost:
        text.append(wrap(f"Cost: {answer.cost}."))
    places = [one for one in (answer.address, *answer.folders) if one]
    if places:
        text.append("\n".join(["Values, pictures and how it came about:", *places]))
    return f"Re: {subject_line(answer.head)}", "\n\n".join(text) + "\n"


def rows(answer: RequestAnswer) -> list[tuple[str, ...]]:
    """The differences as a table, its head first."""
    found: list[tuple[str, ...]] = [("testbed", "scenario", "revision", "change", "boots", "")]
    for line in answer.lines:
        place = _place(answer, line)
        effect = line.effect
        change = words.change(effect) if effect else "none"
        boots = f"{effect.good_boots}+{effect.bad_boots}" if effect else ""
        remark = _WORDS[line.word] if effect else line.why
        row = (place, line.scenario, line.subject, change, boots, remark)
        found.append(tuple(map(words.clean, row)))
    return found


def setting_rows(answer: RequestAnswer) -> list[tuple[str, ...]]:
    """The effects of settings as a table, its head first."""
    head = ("testbed", "scenario", "setting", "revision", "change", "boots")
    found: list[tuple[str, ...]] = [head]
    for line in answer.settings:
        change, boots = words.change(line.effect), str(line.effect.bad_boots)
        row = (_place(answer, line), line.scenario, line.setting, line.subject, change, boots)
        found.append(tuple(map(words.clean, row)))
    return found


def _place(answer: RequestAnswer, line: DifferenceLine | SettingLine) -> str:
    runs = {one.run for one in answer.lines} | {one.run for one in answer.settings}
    return f"{line.testbed}, run {line.run}" if len(runs) > 1 else line.testbed


def consistency(answer: RequestAnswer) -> list[str]:
    """Sentences that compare the second run with the first."""
    sentences = []
    for testbed, subject, one in answer.repeats:
        apart = words.change(_as_effect(one))
        if one.consistent:
            sentences.append(
                f"The two runs agree on {subject} in {one.scenario} on {testbed}: the second lies "
                f"{apart} from the first. Both have booted the same images, so this says how well "
                "these kernels are known, and nothing of whether it is the code."
            )
        else:
            sentences.append(
                f"The two runs differ on {subject} in {one.scenario} on {testbed}: the second lies "
                f"{apart} from the first, more than the scatter of boots explains."
            )
    return sentences


def _as_effect(one: RepeatedDifference) -> Effect:
    return Effect(one.scenario, one.ln_ratio, one.low, one.high, math.nan, 0, 0)


def hidden(line: DifferenceLine) -> str:
    """Remark on the code if only the kernels differ; "" if none."""
    if line.effect is None or line.word is not DifferenceVerdict.SAME:
        return ""
    series = line.effect.scenario
    low, high = metric_of(series).ends(line.low, line.high)
    return (
        f"{line.scenario} on {line.testbed}: the two kernels of {line.subject} do not differ so "
        f"much. As images of the same code differ too, a change of the code between "
        f"{words.percent(low, series)} and {words.percent(high, series)} is not excluded."
    )


# --------------------------------------------------------------------------------- on a terminal


def part_line(part: RequestPart) -> str:
    """Progress of a job, on one line."""
    run = f", run {part.run}" if part.run > 1 else ""
    boots = f"{part.boots} of {words.count(part.boots_wanted, 'boot')}"
    line = f"{part.kind.lower()} on {part.testbed}{run}: {boots}"
    if part.place is not None and part.place > 1:
        line += f", place {part.place} in the queue"
    if part.now:
        line += f", {words.clean(part.now)}"
    if part.seconds_left:
        line += f", about {words.duration(part.seconds_left)} left"
    return line


def as_text(found: RequestDocument) -> str:
    """A request on a terminal: progress, or the answer."""
    names = ", ".join(found.labels)
    lines = [
        wrap(
            words.clean(
                f"Request {found.number}, {found.kind} {names}, asked by {found.who}: "
                f"{found.verdict or found.state}"
            )
        ),
    ]
    if found.sentence:
        lines.append(wrap(words.clean(found.sentence)))
    if found.state == "open":
        lines += [wrap(part_line(one), indent=2) for one in found.parts if one.state == "open"]
    if found.differences:
        rows: list[tuple[str, ...]] = [("testbed", "scenario", "revision", "change", "")]
        for one in found.differences:
            change = _change(one.difference) if one.difference else "none"
            place = f"{one.testbed}, run {one.run}" if found.runs > 1 else one.testbed
            row = (place, one.scenario, one.subject, change, one.why or one.word)
            rows.append(tuple(map(words.clean, row)))
        lines.append(table(rows))
    if found.settings:
        lines += [wrap(SETTINGS_NOTE), table(list(_setting_lines(found)))]
    for again in found.repeats:
        agrees = "agrees with" if again.consistent else "differs from"
        sentence = f"The second run on {again.testbed} {agrees} the first: {again.subject} in"
        lines.append(wrap(words.clean(f"{sentence} {again.scenario}.")))
    history = [
        (words.moment(one.at), words.clean(f"{one.what} by {one.who}")) for one in found.history
    ]
    lines += [table(history), found.address]
    return "\n".join(lines)


def _setting_lines(found: RequestDocument) -> Iterator[tuple[str, ...]]:
    yield ("testbed", "scenario", "setting", "revision", "change")
    for one in found.settings:
        place = f"{one.testbed}, run {one.run}" if found.runs > 1 else one.testbed
        row = (place, one.scenario, one.setting, one.subject, _change(one.difference))
        yield tuple(map(words.clean, row))


def _change(one: Difference) -> str:
    low = "?" if one.percent_low is None else f"{one.percent_low:+.1f}"
    high = "?" if one.percent_high is None else f"{one.percent_high:+.1f}"
    return f"{one.percent:+.1f} % ({low} to {high}), {one.good_boots}+{one.bad_boots} boots"
