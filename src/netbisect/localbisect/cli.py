"""`netbisect bisect`: bisects any repository with any command that prints a number."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from netbisect.bisect.model.marks import CommitMark, MarkVerdict
from netbisect.bisect.model.results import Result, culprits_of
from netbisect.errors import UserError
from netbisect.localbisect import explain, json_report, replay, run, search, text_report
from netbisect.localbisect.candidates import resolve_search
from netbisect.localbisect.command import BudgetError
from netbisect.localbisect.dut import LocalDut, SearchSession
from netbisect.localbisect.log import LogError, SearchLog, add_mark, read
from netbisect.localbisect.repository import Repository, Worktree
from netbisect.localbisect.result import ExitStatus, SearchResult, label
from netbisect.login import login_name
from netbisect.reports.render import words

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_WHOLE = 100.0
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")


class _BisectGroup(click.Group):
    """Reports errors with exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            click.echo(f"Error: {error}.", err=True)
            sys.exit(ExitStatus.USAGE)


@click.group(
    cls=_BisectGroup, epilog="Example: netbisect bisect run --good v1.4 --bad main -- ./bench"
)
def bisect() -> None:
    """Bisect any git repository with any command that prints a number.

    The command may be noisy. A commit is reported only after verification against its parent;
    "nothing changed" is a possible result.
    """


def duration(text: str) -> float:
    """Seconds, from `90s`, `20m`, `1h30m` or `2d`; the unit is required."""
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if _PART.sub("", text).strip() or seconds <= 0:
        raise click.BadParameter(f"{text!r}: expected a time such as 90s, 20m, 1h30m or 2d")
    return seconds


def percent(text: str) -> float:
    """A percentage above 0 and below 100, with or without `%`."""
    try:
        number = float(str(text).strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < _WHOLE:
        raise click.BadParameter(f"{text!r}: expected a number above 0 and below 100")
    return number


def regex(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"invalid regular expression: {error}") from error
    return text


_STATUSES = """
\b
Exit status:
  0  commits found and verified     3  inconclusive
  1  nothing changed                130  interrupted; the same call resumes
  2  error: options, revisions, the log, or no number at an end of the range

\b
Example: netbisect bisect run --good v1.4 --bad main \\
             --setup 'git clean -dfqx && make -j4' -- ./bench --seconds 5
"""
_log_option = click.option(
    "--log",
    "log_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Log (default: .git/netbisect/bisect.log).",
)
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@bisect.command("run", epilog=_STATUSES, context_settings={"allow_interspersed_args": False})
@click.option("--good", metavar="REV", required=True, help="A good revision.")
@click.option("--bad", metavar="REV", required=True, help="A later, worse revision.")
@click.option("--metric", type=regex, default="", help="Pattern of the number (default: the last).")
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="higher",
    show_default=True,
    help="Which numbers are better.",
)
@click.option(
    "--min-effect", type=percent, default=2, show_default=True, help="Smallest change to find."
)
@click.option("--effect", type=percent, help="Expected change (default: that of the ends).")
@click.option(
    "--setup", metavar="SHELL", default="", help="Build command, run after every checkout."
)
@click.option(
    "--path", "paths", metavar="GLOB", multiple=True, help="Files of likely culprits. Repeatable."
)
@click.option(
    "--overlay",
    "overlays",
    metavar="FILE",
    multiple=True,
    help="Patch, or FILE@FIRST..LAST. Repeatable.",
)
@click.option("--noise", type=percent, help="Standard deviation of a run.")
@click.option(
    "--duts",
    metavar="N",
    type=click.IntRange(1, 8),
    default=1,
    help="Similar devices, measured at once.",
)
@click.option(
    "--layouts", metavar="N", type=click.IntRange(0, 99), default=0, help="Additional link layouts."
)
@click.option("--image-noise", type=percent, help="Standard deviation between equal builds.")
@click.option("--timeout", type=duration, default="1h", show_default=True, help="Limit of one run.")
@click.option("--budget", type=duration, help="Limit of all runs and builds together.")
@click.option(
    "--worktree",
    type=click.Path(path_type=Path),
    help="New or empty folder (default: a temporary one).",
)
@_log_option
@click.option("--reset", is_flag=True, help="Start over; the old log is kept as .old.")
@_json_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(
    good: str,
    bad: str,
    *,
    overlays: tuple[str, ...],
    timeout: float,
    budget: float | None,
    worktree: Path | None,
    log_path: Path | None,
    reset: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the commit between two revisions that made a number worse.

    COMMAND runs in a checkout of its own and prints a number above 0; exit status 125 skips the
    revision. The same call resumes after an interruption. See docs/bisect-run.md.
    """
    repository = Repository.containing(Path.cwd())
    spec, patches = resolve_search(repository, good, bad, overlays, options, _log)
    path = (log_path or repository.log).absolute()
    try:
        with _interruptible(), SearchLog(path, spec, reset=reset) as log:
            session = SearchSession(log, timeout, budget or math.inf, _log, patches)
            found = _search(session, repository, worktree)
    except KeyboardInterrupt:
        _log(f"Interrupted. The same call resumes; the measurements are in {path}.")
        sys.exit(ExitStatus.INTERRUPTED)
    commits = {one.revision: repository.commit(one.revision) for one in culprits_of(found)}
    merged = {one: ends for one in commits if (ends := repository.merged_by(one))}
    result = SearchResult(log.entries, found, path, commits, merged)
    _print(json_report.as_data(result) if as_json else text_report.as_text(result))
    sys.exit(result.status)


def _print(document: str | dict[str, Any]) -> None:
    click.echo(document if isinstance(document, str) else json.dumps(document, indent=2))


def _log(line: str) -> None:
    click.echo(line, err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Handles SIGTERM and SIGHUP like Ctrl-C, once: another one must not stop the clean-up.

    Ignored signals stay ignored, for nohup(1).
    """

    def interrupt(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.getsignal(one) for one in numbers}
    before = {one: handler for one, handler in before.items() if handler != signal.SIG_IGN}
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _search(session: SearchSession, repository: Repository, folder: Path | None) -> Result:
    """Runs or resumes the search."""
    log = session.log
    if not log.spec.line:
        return search.EQUAL_ENDS
    if found := run.final_result(log.entries):
        _log("This search has ended before; --reset starts over.")
        return found
    _log_start(log)
    with ExitStack() as stack:
        duts = []
        for name in log.spec.names:
            note = log.path.with_name(f"{log.path.name}.worktree{name and f'-{name}'}")
            own = folder / f"dut-{name}" if folder and name else folder
            worktree = stack.enter_context(Worktree(repository, own, note))
            duts.append(LocalDut(name, worktree, session))
        try:
            return run.SearchRunner(session, duts).go()
        except BudgetError:
            why = f"the budget of {words.elapsed(session.budget)} is spent; a larger one resumes"
            return explain.result_without_budget(log.entries, why)


def _log_start(log: SearchLog) -> None:
    spec = log.spec
    alike = spec.commits - len(spec.line)
    left_out = f", {alike} of them with repeated trees" if alike else ""
    _log(
        f"{words.count(spec.commits, 'commit')} after {label(spec, spec.good)}, "
        f"up to {spec.bad[:12]}{left_out}."
    )
    if len(log.entries) > 1:
        runs = words.count(search.runs_done(log.entries), "run")
        _log(f"Resuming with {runs} from {log.path}.")
    else:
        _log("Comparing the two ends first, interleaved.")


def _entries(path: Path | None) -> list[search.Entry]:
    where = path or Repository.containing(Path.cwd()).log
    if not where.exists():
        raise LogError(f"there is no log {where}: `netbisect bisect run` starts a search")
    entries = read(where)
    if not entries:
        raise LogError(f"{where} is empty; expected the log of a search")
    return entries


@bisect.command(
    "explain",
    short_help="Show the posterior, the next trial and the remaining work.",
    epilog="Example: netbisect bisect explain",
)
@_log_option
@_json_option
def explain_command(log_path: Path | None, as_json: bool) -> None:
    """Show the posterior of a search, its next trial with the reason, and the remaining work.

    Also works while the search runs.
    """
    entries = _entries(log_path)
    _print(explain.as_data(entries) if as_json else explain.as_text(entries))


@bisect.command(
    "mark",
    short_help="Mark a commit good, bad or not to be measured.",
    epilog='Example: netbisect bisect mark v1.5 good --why "measured by hand"',
)
@click.argument("revision")
@click.argument("verdict", type=click.Choice([one.value for one in MarkVerdict]))
@click.option("--why", required=True, help="Reason, shown with the result.")
@click.option("--who", metavar="NAME", help="Author (default: your login name).")
@_log_option
def mark_command(
    revision: str, verdict: str, why: str, who: str | None, log_path: Path | None
) -> None:
    """Mark a commit good, bad or not to be measured (skip), before or during a search.

    `none` withdraws a mark. A search reads marks before each decision; a culprit is verified by
    measurements in any case.
    """
    if not why.strip():
        raise click.UsageError("--why is empty: expected a reason")
    repository = Repository.containing(Path.cwd())
    full = repository.resolve(revision, "REVISION")
    made = CommitMark(full, MarkVerdict(verdict), why, who or login_name(), time.time())
    add_mark((log_path or repository.log).absolute(), made)
    click.echo(f"{full[:12]} is {made}.")


@bisect.command("replay", epilog="Example: netbisect bisect replay .git/netbisect/bisect.log")
@click.argument("log_path", metavar="LOG", type=click.Path(dir_okay=False, path_type=Path))
@_json_option
def replay_command(log_path: Path, as_json: bool) -> None:
    """Repeat the decisions of a log; exit status 1 if they differ.

    Needs only the log, no repository, and runs no commands.
    """
    made = replay.replay(_entries(log_path))
    if as_json:
        document = replay.as_data(list(made))
        _print(document)
        sys.exit(not document["same"])
    count = 0
    for count, one in enumerate(made, 1):  # noqa: B007 - the last one counts
        click.echo(f"{one.line:>5}  {one.logged}")
        if not one.same:
            click.echo(f"{'':>5}  now: {one.now}")
            where = f"{log_path}, line {one.line}"
            click.echo(
                f"The first difference is in {where}: logged {one.logged!r}; now {one.now!r}."
            )
            sys.exit(1)
    click.echo(f"All {words.count(count, 'decision')} are the same.")
