"""What a request has found: its questions and their answers put together."""

from __future__ import annotations

from collections.abc import Sequence

from netbisect.bisect import measurement
from netbisect.bisect.measurement import Repeated, Word
from netbisect.bisect.model import (
    Bisection,
    Comparison,
    Confirmed,
    Culprit,
    Drift,
    Effect,
    Finding,
    Held,
    Measured,
    Measurement,
    NotConfirmed,
    NotReproduced,
    Question,
    Several,
    Suspects,
    Unfinished,
)
from netbisect.reports import words
from netbisect.reports.requests import Answer, Head, Line
from netbisect.steps.settings import Settings
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked, Request, RequestState
from netbisect.workers.lab import Lab, load_scenario
from netbisect.workers.tomlfile import FileError

REGRESSION, NO_REGRESSION = "regression", "no regression"
INCONCLUSIVE, FAILED = "inconclusive", "failed"
EXIT = {NO_REGRESSION: 0, REGRESSION: 1, INCONCLUSIVE: 2, FAILED: 3}
"""Status of `netbisect request … --wait`, by verdict."""
_ANY = 1e-9
"""ln ratio: of a verified commit every difference matters."""
_VERDICTS = {
    Word.SLOWER: REGRESSION,
    Word.FASTER: NO_REGRESSION,
    Word.SAME: NO_REGRESSION,
    Word.OPEN: INCONCLUSIVE,
}


def exit_status(request: Request) -> int:
    """Of a command that has waited for it; 3 also when it was cancelled."""
    if request.state is not RequestState.ANSWERED:
        return EXIT[FAILED]
    return EXIT.get(request.verdict, EXIT[FAILED])


def answer(
    ledger: Ledger, settings: Settings, lab: Lab, request: Request, parts: Sequence[Asked]
) -> Answer:
    """All that is told of a request.

    Args:
        ledger: Where its boots are.
        settings: For the address of its page.
        lab: For the names of scenarios.
        request: Which.
        parts: Its questions, with their answers as far as they have one.
    """
    last = last_of(parts)
    lines = [line for one in parts for line in _lines(ledger, lab, one)]
    verdict = verdict_of(last)
    cost = ledger.cost([one.id for one in parts])
    repeats = _repeats(ledger, parts)
    return Answer(
        head=head_of(ledger, request),
        verdict=verdict,
        sentence=_sentence(ledger, lab, verdict, last, repeats),
        margin=_margin(parts),
        lines=tuple(lines),
        repeats=tuple(repeats),
        remarks=tuple(_remarks(ledger, lab, last)),
        cost=f"{words.count(cost.builds, 'build')}, {words.count(cost.boots, 'boot')}, "
        f"{words.duration(cost.seconds)} of the lab",
        address=settings.request_address(request.id),
    )


def head_of(ledger: Ledger, request: Request) -> Head:
    """What was asked for."""
    return Head(
        request.id,
        request.kind,
        tuple(ledger.label(one) for one in request.wish["subjects"]),
        tuple(request.wish["testbeds"]),
    )


def last_of(parts: Sequence[Asked]) -> list[Asked]:
    """Of what follows from each other on a testbed and run, the last one: a search, not its start.

    The order of the first ones stays.
    """
    return [*{(one.question.testbed, one.run): one for one in parts}.values()]


def verdict_of(last: Sequence[Asked]) -> str:
    """The worst of what they say."""
    found = {_verdict(one) for one in last}
    if found == {FAILED}:
        return FAILED
    for worst in (REGRESSION, INCONCLUSIVE, FAILED):
        if worst in found:
            return INCONCLUSIVE if worst == FAILED else worst
    return NO_REGRESSION


def _verdict(asked: Asked) -> str:
    question, finding = asked.question, asked.finding
    match finding:
        case Measured() if isinstance(question, Measurement):
            return _VERDICTS[measurement.together(question, finding)]
        case Confirmed() | Culprit() | Several() | Suspects() | Drift():
            return REGRESSION
        case NotConfirmed() | NotReproduced():
            return NO_REGRESSION
        case Unfinished(belief=belief):
            return FAILED if belief is None else INCONCLUSIVE
        case _:
            return INCONCLUSIVE


def _margin(parts: Sequence[Asked]) -> float:
    first = parts[0].question
    return first.min_effect if isinstance(first, Measurement | Comparison) else 0.0


def title_of(lab: Lab, scenario: str) -> str:
    """What people call a scenario; its name where it has no file any more."""
    try:
        return load_scenario(scenario, lab.scenario_directories).title
    except FileError:
        return scenario


# ---------------------------------------------------------------------------------- the lines


def _lines(ledger: Ledger, lab: Lab, asked: Asked) -> list[Line]:
    question, finding = asked.question, asked.finding
    if isinstance(question, Measurement) and isinstance(finding, Measured):
        return [
            line for held in finding.held for line in _of_held(ledger, lab, asked, question, held)
        ]
    effects, name = _effects(question, finding)
    noise = question.noise if isinstance(question, Comparison | Bisection) else None
    least = question.min_effect if isinstance(question, Comparison) else _ANY
    lines = []
    for effect in effects:
        low, high = measurement.of_code(effect, noise)
        word = measurement.word(effect, None, least)
        title = title_of(lab, effect.scenario)
        label = ledger.label(name)
        lines.append(Line(question.testbed, asked.run, title, label, effect, low, high, word))
    return lines


def _effects(question: Question, finding: Finding | None) -> tuple[Sequence[Effect], str]:
    match finding:
        case Confirmed(effects=effects) | NotConfirmed(effects=effects):
            return effects, question.bad if isinstance(question, Comparison) else ""
        case Culprit(effects=effects, revision=revision):
            return effects, revision
        case Several(culprits=culprits):
            return culprits[0].effects, culprits[0].revision
        case _:
            return (), ""


def _of_held(
    ledger: Ledger, lab: Lab, asked: Asked, question: Measurement, held: Held
) -> list[Line]:
    label, place = ledger.label(held.revision), (question.testbed, asked.run)
    found = measurement.words_of(question, held)
    lines = []
    for effect in held.effects:
        low, high = measurement.of_code(effect, question.noise.get(effect.scenario))
        title = title_of(lab, effect.scenario)
        lines.append(Line(*place, title, label, effect, low, high, found[effect.scenario]))
    if not lines:
        scenarios = ", ".join(title_of(lab, one) for one in question.scenarios)
        word = Word.SAME if held.same else Word.OPEN
        lines.append(Line(*place, scenarios, label, None, 0.0, 0.0, word, held.why))
    return lines


def _repeats(ledger: Ledger, parts: Sequence[Asked]) -> list[tuple[str, str, Repeated]]:
    """The second run held against the first, by testbed, subject and scenario."""
    by_run: dict[tuple[str, str], dict[int, Held]] = {}
    for one in parts:
        if isinstance(one.finding, Measured):
            for held in one.finding.held:
                key = (one.question.testbed, held.revision)
                by_run.setdefault(key, {})[one.run] = held
    return [
        (testbed, ledger.label(revision), repeated)
        for (testbed, revision), runs in by_run.items()
        if {1, 2} <= set(runs)
        for repeated in measurement.repeated(runs[1].effects, runs[2].effects)
    ]


# ------------------------------------------------------------------------------- the sentences


def _sentence(
    ledger: Ledger,
    lab: Lab,
    verdict: str,
    last: Sequence[Asked],
    repeats: Sequence[tuple[str, str, Repeated]],
) -> str:
    said = {
        REGRESSION: "There is a regression.",
        NO_REGRESSION: f"There is no regression of {_percent(_margin(last))} or more.",
        INCONCLUSIVE: "What was measured does not settle it.",
        FAILED: "Nothing could be measured.",
    }[verdict]
    told = [
        words.sentence(one.finding, ledger.label, lambda name: title_of(lab, name))
        for one in last
        if one.finding is not None and not isinstance(one.finding, Measured)
    ]
    if any(not one.consistent for _, _, one in repeats):
        told.append("The second run does not agree with the first.")
    return " ".join([said, *told])


def _percent(margin: float) -> str:
    return words.percent(-margin).lstrip("-+\N{MINUS SIGN}") if margin else "note"


def _remarks(ledger: Ledger, lab: Lab, last: Sequence[Asked]) -> list[str]:
    """What a reader must know to believe it."""
    said = []
    for one in last:
        question, finding = one.question, one.finding
        if not isinstance(question, Measurement) or not isinstance(finding, Measured):
            continue
        for held in finding.held:
            found = measurement.words_of(question, held)
            for effect in held.effects:
                plain = measurement.word(effect, None, question.min_effect)
                if found[effect.scenario] is Word.OPEN and plain in (Word.SLOWER, Word.FASTER):
                    said.append(
                        f"{ledger.label(held.revision)} is {plain} in "
                        f"{title_of(lab, effect.scenario)} on {question.testbed}, but no more "
                        "than images of the same code may differ there: it need not be the code."
                    )
    return said
