"""`netbisect bisect`: the search for anybody, with any command that prints a number."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from netbisect.bisect.model import Finding, NotReproduced, Sample, Unfinished
from netbisect.reports import words
from netbisect.steps.hand import machine, outlook, overlay, replay, report, run, search
from netbisect.steps.hand.asked import Options, search_of
from netbisect.steps.hand.command import OverBudgetError
from netbisect.steps.hand.dut import Desk, Dut, EndError, Limits
from netbisect.steps.hand.log import Log, LogError, read
from netbisect.steps.hand.options import Duration, Percent, expression
from netbisect.steps.hand.repository import Repository, RepositoryError, Worktree
from netbisect.steps.hand.verdict import Result, Status, label
from netbisect.store.history import HistoryError

P = ParamSpec("P")
R = TypeVar("R")


def _sentences(command: Callable[P, R]) -> Callable[P, R]:
    """Turns what people can mend into one sentence and exit status 2."""

    @wraps(command)
    def careful(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (
            RepositoryError,
            HistoryError,
            LogError,
            overlay.OverlayError,
            EndError,
        ) as error:
            click.echo(f"Error: {error}.", err=True)
            sys.exit(Status.USAGE)

    return careful


@click.group()
def bisect() -> None:
    """Search any repository with any command that prints a number.

    The command may be noisy: what it prints is weighed, not believed. A commit is named only once
    it has been verified against its parent, and "nothing changed" is an answer.
    """


_STATUSES = """
\b
Exit status:
  0  a commit was found and verified, or several were
  1  nothing changed
  2  it cannot be searched: an option, a revision, the log, or a command
     that gives no number at an end of the range; --good and --bad swapped
  3  no answer: suspects that cannot be told apart, a change bit by bit,
     a good end that is no longer good, noise, the budget
  130  interrupted; the same call goes on

\b
Example: netbisect bisect run --good v1.4 --bad main \\
             --setup 'make -j4' -- ./bench --seconds 5
"""


@bisect.command("run", epilog=_STATUSES, context_settings={"allow_interspersed_args": False})
@click.option("--good", metavar="REV", required=True, help="A revision that was well.")
@click.option("--bad", metavar="REV", required=True, help="A later one that is worse.")
@click.option(
    "--metric",
    metavar="REGEX",
    default="",
    callback=expression,
    help="Where the number is in what COMMAND prints: the last match, or its first group "
    "(default: the last number on standard output).",
)
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="higher",
    show_default=True,
    help="Which numbers are better: higher for rates, lower for times.",
)
@click.option(
    "--min-effect",
    type=Percent(),
    default=2.0,
    show_default=True,
    help="Smallest change worth a search, in percent.",
)
@click.option("--effect", type=Percent(), help="Expected change (default: what the ends show).")
@click.option(
    "--setup", metavar="SHELL", default="", help="Builds a revision after it was checked out."
)
@click.option(
    "--path",
    "paths",
    metavar="GLOB",
    multiple=True,
    help="Commits that touch such files are likelier; none is excluded. May be repeated.",
)
@click.option(
    "--overlay",
    "overlays",
    metavar="FILE",
    multiple=True,
    help="A patch for revisions that lack it, a fix of a broken stretch for one; "
    "FILE@FIRST..LAST keeps it to a stretch. May be repeated.",
)
@click.option("--noise", type=Percent(), help="How a run scatters, standard deviation in percent.")
@click.option(
    "--duts",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Devices under test of one make: so many commands run at once, each in a checkout of its "
    "own, with its number as NETBISECT_DUT. Their levels may differ.",
)
@click.option(
    "--layouts",
    type=click.IntRange(0, 99),
    default=0,
    show_default=True,
    help="Further layouts that a revision may be set up in, 1 to N; --setup and COMMAND find the "
    "number as NETBISECT_LAYOUT, 0 for the ordinary one.",
)
@click.option(
    "--image-noise",
    type=Percent(),
    help="How revisions that do the same work differ, standard deviation in percent "
    "(default: 1 % with --layouts).",
)
@click.option("--timeout", type=Duration(), default="1h", show_default=True, help="For one run.")
@click.option(
    "--budget", type=Duration(), help="For all runs and builds, over all calls and devices."
)
@click.option(
    "--worktree",
    type=click.Path(path_type=Path),
    help="Folder for the checkout, new or empty (default: a temporary one); "
    "with --duts, the checkouts are folders in it.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where everything is written down (default: netbisect/bisect.log in the git folder).",
)
@click.option("--reset", is_flag=True, help="Begin anew; the old log is kept as .old.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_sentences
def run_command(
    good: str,
    bad: str,
    timeout: float,
    budget: float | None,
    worktree: Path | None,
    log_path: Path | None,
    reset: bool,
    as_json: bool,
    **asked: object,
) -> None:
    """Find the commit between two revisions that made a number worse.

    COMMAND runs at the top of a checkout of its own, without a shell, as often as the search
    needs; each time it prints a number above 0. NETBISECT_REVISION tells it the commit. Exit
    status 125, of COMMAND or of --setup, skips a revision, as in `git bisect run`; so does a
    --setup that fails, and a COMMAND that fails twice.

    First the two ends are measured in turns; when they do not differ, nothing is searched.
    Everything is written down as it is measured: the same call goes on after an interruption.
    """
    options = Options(**asked)  # type: ignore[arg-type]  # click has checked them
    repository = Repository.around(Path.cwd())
    wanted, patches = search_of(repository, good, bad, options)
    path = (log_path or repository.log).absolute()
    limits = Limits(timeout, math.inf if budget is None else budget)
    try:
        with _interruptible(), Log(path, wanted, reset=reset) as log:
            result = _go(log, repository, worktree, limits, patches)
    except KeyboardInterrupt:
        click.echo(f"Interrupted. The same call goes on; what was measured is in {path}.", err=True)
        sys.exit(Status.INTERRUPTED)
    known = {one.revision: repository.commit(one.revision) for one in result.culprits}
    result = replace(result, commits=known)
    click.echo(json.dumps(machine.data(result), indent=2) if as_json else report.text(result))
    sys.exit(result.status)


@contextmanager
def _interruptible() -> Iterator[None]:
    """A request to end, and a terminal that goes away, are interruptions like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {name: signal.signal(name, interrupt) for name in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _go(
    log: Log,
    repository: Repository,
    folder: Path | None,
    limits: Limits,
    patches: list[overlay.Patch],
) -> Result:
    """Searches to the end, which may have been reached before."""
    wanted = log.search
    if not wanted.line:
        why = "good and bad have the same tree: every change between them was undone"
        return Result(log.entries, NotReproduced(search.nobody(), why), log.path)
    if found := run.finished(log.entries):
        _tell("This search has ended before; --reset begins anew.")
        return Result(log.entries, found, log.path)
    _begin(log)
    with ExitStack() as stack:
        desk = Desk(log, limits, _tell, patches)
        duts = []
        for name in wanted.names:
            note = log.path.with_name(f"{log.path.name}.worktree{name and f'-{name}'}")
            own = folder / f"dut-{name}" if folder and name else folder
            worktree = stack.enter_context(Worktree(repository, own, note))
            duts.append(Dut(name, worktree, desk))
        try:
            finding: Finding = run.Runner(desk, duts).go()
        except OverBudgetError:
            why = f"the budget of {words.duration(limits.whole)} is spent, a larger one goes on"
            finding = Unfinished(why, outlook.belief(log.entries))
        except KeyboardInterrupt:
            _ignore_signals()
            raise
    return Result(log.entries, finding, log.path)


def _ignore_signals() -> None:
    """An impatient second Ctrl-C must not leave the worktree behind."""
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)


def _begin(log: Log) -> None:
    wanted = log.search
    alike = wanted.commits - len(wanted.line)
    left_out = f", {alike} of them without a tree of their own" if alike else ""
    known = words.count(sum(isinstance(e, Sample) for e in log.entries), "run")
    _tell(
        f"{words.count(wanted.commits, 'commit')} after {label(wanted, wanted.good)}, "
        f"up to {wanted.bad[:12]}{left_out}."
    )
    if len(log.entries) > 1:
        _tell(f"Going on with {known} from {log.path}.")
    else:
        _tell("First the two ends, in turns.")


def _tell(line: str) -> None:
    click.echo(line, err=True)


# ------------------------------------------------------------------------- looking at a search

log_option = click.option(
    "--log",
    "log_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The log (default: netbisect/bisect.log in the git folder).",
)


def _entries(path: Path | None) -> tuple[Path, list[search.Entry]]:
    where = path or Repository.around(Path.cwd()).log
    if not where.exists():
        raise LogError(f"there is no search in {where}: `netbisect bisect run` begins one")
    entries = read(where)
    if not entries:
        raise LogError(f"{where} is empty: the log of a search expected")
    return where, entries


@bisect.command(epilog="Example: netbisect bisect explain")
@log_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_sentences
def explain(log_path: Path | None, as_json: bool) -> None:
    """Show what a search holds to be true, what it does next and why, and what is left to do.

    It only reads, and may be called while the search runs.
    """
    _, entries = _entries(log_path)
    click.echo(json.dumps(outlook.data(entries), indent=2) if as_json else outlook.text(entries))


@bisect.command("replay", epilog="Example: netbisect bisect replay .git/netbisect/bisect.log")
@click.argument("log_path", metavar="LOG", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_sentences
def replay_command(log_path: Path, as_json: bool) -> None:
    """Decide once more from the facts of a log; exit status 1 when the decisions are others.

    Needs nothing but the log: no repository, and no command is run.
    """
    path, entries = _entries(log_path)
    made = list(replay.replay(entries))
    first = next((one for one in made if not one.same), None)
    if as_json:
        click.echo(json.dumps(replay.data(made), indent=2))
    else:
        for one in made:
            click.echo(f"{one.line:>5}  {one.logged}")
            if one is first:
                click.echo(f"{'':>5}  now: {one.now}")
                break
        same = f"All {words.count(len(made), 'decision')} are the same today."
        other = first and f"{path}, line {first.line}: it says {first.logged!r}; now: {first.now!r}"
        click.echo(f"The first difference is in {other}." if other else same)
    sys.exit(os.EX_OK if first is None else 1)
