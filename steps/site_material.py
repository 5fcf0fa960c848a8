"""Gathers what the ledger knows into the nouns of the site."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from netbisect.bisect import health
from netbisect.bisect.detect import Step, noise_of, read
from netbisect.bisect.model import (
    Commit,
    Confirmed,
    Finding,
    Night,
    Noise,
    NotConfirmed,
    Unfinished,
)
from netbisect.bisect.standing import standings, together
from netbisect.reports import words
from netbisect.reports.case import Case, Links
from netbisect.reports.site.nouns import (
    AlertLine,
    Epoch,
    NightView,
    Running,
    SeenIn,
    SeriesView,
    Summary,
)
from netbisect.reports.site.nouns import series_page as series_file
from netbisect.reports.site.plots import RECENT
from netbisect.steps.casefile import case_in, deeds, seen_from
from netbisect.steps.site_files import RevisionError
from netbisect.steps.site_kept import Kept
from netbisect.steps.surroundings import OfLedger
from netbisect.store.ledger import Ledger
from netbisect.store.records import Alert, Asked
from netbisect.store.trails import Trail

_FOLLOWED = 90 * 86400.0
"""Seconds after its end that an alert is followed."""
NIGHT_SECONDS = 20 * 3600.0
"""Questions asked within so long of each other are of one night."""


def alert_line(alert: Alert, lab: OfLedger, changed: float) -> AlertLine:
    """An alert as other pages tell it."""
    moved = {(one.testbed, one.scenario, one.branch) for one in alert.series if one.moved}
    here = sorted(scenario for testbed, scenario, _ in moved if testbed == alert.testbed)
    return AlertLine(
        number=alert.id,
        kind=alert.kind,
        state=alert.state,
        testbed=alert.testbed,
        lead=lab.title(alert.lead),
        branch=alert.branch,
        since=alert.opened_at if alert.announced_at is None else alert.announced_at,
        good=alert.good,
        bad=alert.bad,
        culprit=alert.culprit,
        effect=alert.effects[0] if alert.effects else None,
        scenarios=tuple(here),
        others=len(moved - {(alert.testbed, alert.lead, alert.branch)}),
        until=alert.muted_until,
        into=alert.merged_into,
        changed=changed,
    )


def seen_in(alert: Alert, lab: OfLedger) -> list[SeenIn]:
    """The series of an alert: what moved first, by what was announced last."""
    last = {(one.testbed, one.scenario, one.branch): one for one in alert.series}
    found = [
        SeenIn(
            testbed=one.testbed,
            scenario=lab.title(one.scenario),
            branch=one.branch,
            page=series_file(one.testbed, one.scenario, one.branch),
            effect=one.effect,
            moved=one.moved,
            at=one.at,
        )
        for one in last.values()
    ]
    return sorted(found, key=lambda one: (not one.moved, one.effect.ln_ratio if one.effect else 0))


# -------------------------------------------------------------------------------------- series


def view_of(
    ledger: Ledger,
    trail: Trail,
    lab: OfLedger,
    alerts: Sequence[AlertLine],
    min_effect: float,
    kept: Kept | None = None,
) -> SeriesView:
    """A series with all that its page tells.

    Args:
        ledger: Where commits are looked up.
        trail: The series.
        lab: What the ledger does not know.
        alerts: That moved it.
        min_effect: Smallest step that is told, as a positive ln ratio.
        kept: What is known of its noise; it is told the noise of today.
    """
    levels = trail.epochs[-1].levels
    noise = kept.noise(trail.name, levels[:-1]) if kept else None
    if noise is None:
        noise = noise_of(levels[:-1]) if levels[1:] else Noise()
    history = read(levels, min_effect)
    if kept:
        kept.keep_noise(trail.name, levels, history.noise)
    standing = standings(levels, noise)
    place = {id(level): i for i, level in enumerate(levels)}
    before = [level for level in trail.baseline if level is not levels[-1]]
    baseline = together([standing[place[id(level)]] for level in before], noise)
    found = history.steps
    named = {*(one.revision for one in levels[-RECENT:]), *_axis(trail), *_named(found)}
    named |= {before[0].revision} if before else set()
    judged = health.of_series(
        trail.baseline or levels[-1:], min_effect, noise if levels[1:] else None
    )
    named |= {judged.drift.best} if judged.drift else set()
    return SeriesView(
        testbed=trail.name.testbed,
        scenario=trail.name.scenario,
        branch=trail.name.branch,
        title=lab.title(trail.name.scenario),
        hardware=lab.hardware(trail.name.testbed),
        epochs=[Epoch(one.values, one.levels) for one in trail.epochs],
        standings=standing,
        baseline=baseline,
        baseline_from=before[0].revision if before else "",
        baselined=len(before),
        least=min_effect,
        numbers=trail.numbers,
        noise=noise,
        health=judged,
        steps=found,
        alerts=alerts,
        commits=ledger.commits(named),
        links=Links(commit=lab.commit_link),
    )


def _axis(trail: Trail) -> Iterator[str]:
    """Those that an axis with few ticks names: counted from the end, as it does."""
    levels = [level for epoch in trail.epochs for level in epoch.levels]
    step = max(-(-len(levels) // 7), 1)
    return (levels[i].revision for i in range(len(levels) - 1, -1, -step))


def _named(found: Sequence[Step]) -> set[str]:
    return {name for step in found for name in (step.before, step.at)}


# ----------------------------------------------------------------------------------- questions


def latest(ledger: Ledger) -> float:
    """When the newest thing was done that pages of alerts tell of, seconds since the epoch."""
    nights = ledger.last_nights(NIGHT_SECONDS)
    return max(
        *(at for _, at in ledger.alert_news().values()),
        *(one.closed_at or one.opened_at for one in nights),
        0.0,
        0.0,
    )


def followed_until(alert: Alert) -> float:
    """Up to when other testbeds and the tree are looked at, seconds since the epoch."""
    return math.inf if alert.closed_at is None else alert.closed_at + _FOLLOWED


def alert_case(ledger: Ledger, alert: Alert, lab: OfLedger, now: float) -> Case | None:
    """All that was measured for an alert, if anything was in turns.

    Other testbeds, and what becomes of the culprit, are looked at as long as the alert is open,
    and some time after.

    Args:
        ledger: Where it is looked up.
        alert: What it is of.
        lab: What the ledger does not know.
        now: As `latest`.
    """
    last = alert.bisection or alert.comparison
    if last is None:
        return None
    asked = ledger.question(last)
    finding = asked.finding
    if isinstance(finding, Confirmed):
        finding = Confirmed(alert.effects)
    end = math.inf if alert.closed_at is None else alert.closed_at
    followed = now < followed_until(alert)
    case = case_in(lab, ledger, asked, finding, until=end if followed else None)
    case = seen_from(lab, ledger, alert, asked, case)
    return replace(
        case,
        number=alert.id,
        deeds=deeds(ledger, alert.id),
        stable=lab.stable(alert.culprit or None, alert.branch, case.label, now) if followed else (),
        profiles=lab.profiles(ledger, asked),
    )


def question_case(ledger: Ledger, asked: Asked, lab: OfLedger) -> Case:
    """All that was measured for a comparison or a bisection."""
    case = case_in(lab, ledger, asked, asked.finding, until=None)
    if isinstance(asked.finding, NotConfirmed) and asked.finding.effects:
        case = replace(case, confirmed=Confirmed(asked.finding.effects))
    return case


def running(ledger: Ledger, asked: Asked, kind: str, steps_done: int) -> Running:
    """A question that is not answered."""
    decisions = ledger.decisions(asked.id)
    beliefs = [one.belief for one in decisions if one.belief is not None]
    likeliest = ""
    if beliefs:
        best = max(beliefs[-1].chances.items(), key=lambda item: item[1], default=("", 0.0))
        likeliest = f"{ledger.label(best[0])}, {words.certainty(best[1])}"
        if beliefs[-1].none >= best[1]:
            likeliest = f"no change, {words.certainty(beliefs[-1].none)}"
    last = decisions[-1] if decisions else None
    return Running(
        kind=kind,
        number=asked.id,
        testbed=asked.question.testbed,
        branch=asked.question.branch,
        since=asked.opened_at,
        steps=steps_done,
        now=f"{last.stage.value} {ledger.label(last.revision)}: {last.why}" if last else "waits",
        likeliest=likeliest,
    )


def night_views(
    nights: Sequence[Asked], series: Mapping[tuple[str, str, str], Summary]
) -> list[NightView]:
    """What the last night came to, testbed by testbed."""
    found = []
    for asked in nights:
        night = asked.question
        assert isinstance(night, Night)
        done = 0
        for scenario in night.scenarios:
            one = series.get((night.testbed, scenario, night.branch))
            done += one is not None and any(p.revision == night.revision for p in one.points)
        why = _why(asked.finding) if done < len(night.scenarios) else ""
        found.append(
            NightView(night.testbed, night.branch, night.revision, len(night.scenarios), done, why)
        )
    return found


def _why(finding: Finding | None) -> str:
    match finding:
        case None:
            return "it is not over"
        case Unfinished(why=why):
            return why
        case _:
            return "no valid sample was measured"


def resolve(ledger: Ledger, name: str) -> Commit:
    """The revision that a name means: a hash, the beginning of one, or n302145.

    Raises:
        RevisionError: it means none that was measured, or several.
    """
    measured = ledger.measured_revisions()
    like = [name] if name in measured else [one for one in measured if one.startswith(name)]
    if not like and name.lstrip("n").split("-")[0].isdigit():
        number = int(name.lstrip("n").split("-")[0])
        like = [one.revision for one in ledger.commits(measured).values() if one.number == number]
    if len(like) != 1:
        known = f"{len(like)} of them begin so" if like else "no kernel of it was measured"
        raise RevisionError(
            f"--compare {name}: {known}; more of its hash, or a label such as "
            "n302145-0a1b2c3d4e5f, would be right"
        )
    commit = ledger.commit(like[0])
    return commit or Commit(like[0], 0, "(not in the tree that is watched)", "", "", "", 0.0)
