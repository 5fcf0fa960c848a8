"""Hardware performance counters: events, stack samples and their callgraph.

Samples are taken at fixed numbers of cycles. The samples of a function follow from its cost and
the number of packets; an overloaded router has no time left for pmcstat.
"""

from __future__ import annotations

import getopt
import json
import math
import random
from collections.abc import Iterator

from netbisect.demo.lab.machine import Program, SimulatedMachine
from netbisect.demo.lab.router import SimulatedRouter
from netbisect.demo.lab.shell import CommandFailedError, Shell
from netbisect.demo.lab.traffic import Network

_EVENTS = ("cpu_clk_unhalted.ref_tsc", "cpu_clk_unhalted.thread", "inst_retired.any")
_SOFT = ("CLOCK.HARD", "CLOCK.PROF", "CLOCK.STAT")
_OPTIONS = "n:z:S:l:O:R:G:s:w:o:"
_USAGE = 64
_COUNT = "65536"
"""Events between two samples."""
_GIGAHERTZ = 2.4
_BELOW = ("fork_exit", "ithread_loop", "intr_event_execute_handlers", "msix_que")
_IDLE = ("fork_exit", "sched_idletd", "cpu_idle")
_IDLE_SHARE = 0.001
_IDLE_CYCLES = 1e6
"""Cycles of a processor in a second without packets."""
_INLINE = ("mbuf", "route")
"""Cost centres without counted callees."""
_STARVED = 24
"""Samples remaining then."""
_LOST = "kern.hwpmc.stats.intr_bufferfull"
_TOTAL = 1e9
"""Nanoseconds of a second."""


def pmccontrol(_machine: SimulatedMachine, shell: Shell, arguments: list[str]) -> None:
    """`pmccontrol -L`: the events by their classes."""
    if arguments != ["-L"]:
        raise CommandFailedError("Usage:\n       pmccontrol -L", _USAGE)
    for name, events in (("SOFT", _SOFT), ("IAP", _EVENTS)):
        shell.out("".join([f"{name}\n", *(f"\t{event}\n" for event in events)]))


async def pmcstat(
    router: SimulatedRouter, network: Network, shell: Shell, arguments: list[str]
) -> None:
    """`pmcstat [-n COUNT] -S EVENT -l SECONDS -O FILE`, and `pmcstat -R FILE -G FILE`.

    Counts with `pmcstat -s EVENT [-w 1 -o FILE] sleep SECONDS`.
    """
    try:
        pairs, command = getopt.getopt(arguments, _OPTIONS)
    except getopt.GetoptError as error:
        raise CommandFailedError(f"pmcstat: {error}", _USAGE) from error
    options = dict(pairs)
    if "-R" in options:
        _tell(router, shell, options)
        return
    event = options.get("-S", "") or options.get("-s", "")
    if event not in (*_EVENTS, *_SOFT):
        raise CommandFailedError(
            f'pmcstat: ERROR: Cannot allocate system-mode pmc with specification "{event}": '
            "Invalid argument",
            71,
        )
    program = Program("pmcstat")
    shell.program = program
    if "-s" in options:
        await _count(router, network, shell, options, float(command[-1]))
        return
    begin = router.clock.now()
    await router.clock.until(begin + float(options["-l"]), program.interrupted)
    shell.program = None
    period = _period(router, event, int(options.get("-n", _COUNT)))
    found = _samples(router, network, begin, router.clock.now(), period)
    kept = json.dumps({"event": event, "stacks": [[list(one), many] for one, many in found]})
    router.path(options["-O"], shell.folder).write_text(kept)


async def _count(
    router: SimulatedRouter,
    network: Network,
    shell: Shell,
    options: dict[str, str],
    seconds: float,
) -> None:
    """Writes the cycles of each second by processor, from the work accounted for meanwhile."""
    assert shell.program is not None
    begin, busy = router.clock.now(), router.busy_seconds
    router.programs.add(shell.program)
    await router.clock.until(begin + seconds, shell.program.interrupted)
    router.programs.discard(shell.program)
    shell.program = None
    end = router.clock.now()
    work = (router.busy_seconds - busy) * _GIGAHERTZ * _TOTAL / router.processors
    link = network.through(router.name)
    lines = ["# " + "".join(f"s/{cpu:02}/{options['-s']} " for cpu in range(router.processors))]
    for second in range(math.ceil(end - begin)):
        first = begin + second
        share = link.packets(first, first + 1) / link.packets(begin, end) if link and work else 0.0
        lines.append(f"{round(work * share + _IDLE_CYCLES):>20} " * router.processors)
    if "-o" in options:
        place = router.path(options["-o"], shell.folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines))
    else:
        shell.err("\n".join(lines))


def _period(router: SimulatedRouter, event: str, count: int) -> float:
    """Nanoseconds of a processor between two samples; an event of _SOFT is a tick of its clock."""
    count = max(count, int(router.sysctls["kern.hwpmc.mincount"]))
    return (
        count / _GIGAHERTZ if event in _EVENTS else count * _TOTAL / int(router.sysctls["kern.hz"])
    )


def _samples(
    router: SimulatedRouter, network: Network, begin: float, end: float, period: float
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Stacks, outermost function first, with their counts."""
    noise = random.Random()
    link = network.through(router.name)
    packets, forwarded, costs = 0.0, 0.0, []
    if link and link.flows:
        family, packets = link.flows[0].family, link.packets(begin, end)
        forwarded = min(packets, router.capacity(family) * link.busy(begin, end))
        costs = list(_stacks(router, family))
    per_nanosecond = router.profile.nanoseconds / period
    whole = sum(cost for _, cost in costs) * forwarded * per_nanosecond
    scale = 1.0
    if forwarded < packets:  # nothing is left for pmcstat
        scale = _STARVED / max(whole, 1.0)
        router.sysctls[_LOST] = str(int(router.sysctls[_LOST]) + round(whole))
    idle = (end - begin) * _TOTAL * _IDLE_SHARE / period
    for stack, expected in (
        *((stack, cost * forwarded * per_nanosecond) for stack, cost in costs),
        (_IDLE, idle),
    ):
        wanted = expected * scale
        seen = round(noise.gauss(wanted, math.sqrt(wanted)))
        if seen > 0:
            yield stack, seen


def _stacks(router: SimulatedRouter, family: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The functions of a packet with their callers and costs."""
    below: tuple[str, ...] = (*_BELOW[:-1], f"{router.bed.driver}_{_BELOW[-1]}")
    functions = router.functions(family)
    for place in dict.fromkeys(one.place for one in functions):
        here = [one for one in functions if one.place == place]
        for one in here:
            yield (*below, one.name), one.nanoseconds
        if place not in _INLINE:
            below = (*below, here[0].name)


def _tell(router: SimulatedRouter, shell: Shell, options: dict[str, str]) -> None:
    """Writes the callgraph, from sampled functions to their callers."""
    try:
        kept = json.loads(router.path(options["-R"], shell.folder).read_text())
    except OSError:
        raise CommandFailedError(
            f'pmcstat: ERROR: Cannot open "{options["-R"]}" for reading: No such file or directory',
            71,
        ) from None
    total = sum(many for _, many in kept["stacks"])
    lines = [f"@ {kept['event']} [{total} samples]\n\n"]
    image = f" @ {router.bootfile}"
    by_leaf: dict[str, list[tuple[list[str], int]]] = {}
    for stack, many in kept["stacks"]:
        by_leaf.setdefault(stack[-1], []).append((stack[:-1], many))
    for leaf, found in sorted(by_leaf.items(), key=lambda item: -sum(many for _, many in item[1])):
        sampled = sum(many for _, many in found)
        lines.append(_line(0, sampled, total, leaf + image))
        image = ""
        for callers, many in found:
            above = sampled
            for depth, caller in enumerate(reversed(callers), 1):
                lines.append(_line(depth, many, above, caller))
                above = many
    router.path(options["-G"], shell.folder).write_text("".join(lines))


def _line(depth: int, samples: int, above: int, text: str) -> str:
    share = "100.0%" if samples == above else f"{100 * samples / above:05.2f}%"
    pad = " " * depth
    return f"{pad}{share} {f' [{samples}] ':<12}{pad}{text}\n"


COUNTERS = {"pmccontrol": pmccontrol}
