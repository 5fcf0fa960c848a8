"""A lab of the soak: what its testbeds measure, what goes wrong there, and a tree with culprits."""

from __future__ import annotations

import hashlib
import math
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from netbisect.bisect.faults import RULES, Fault
from netbisect.bisect.model import Boot, Conditions, Dud, Fact, Kernel, Profile, Sample

FORWARDING, STATEFUL = "inet4-forwarding", "inet4-pf-stateful"
SCENARIOS = (FORWARDING, STATEFUL)
LINE_RATE = 14_880_000
COMMITS = 20
"""That land from one night to the next."""
_FIRST_DAY = 1_735_776_000
_DAY = 86_400
_BOOT_SECONDS, _RUN_SECONDS = 180.0, 40.0
BUILD_SECONDS = 900.0
_BOOT_SD, _RUN_SD, _IMAGE_SD = 0.006, 0.002, 0.004
_SLOW_SHARE, _SLOW_GAP = 0.3, 0.02
"""Of the testbeds whose boots come up in two modes: every third one."""
RATES = {
    Fault.PANIC_UNDER_LOAD: 0.004,
    Fault.HANG_UNDER_LOAD: 0.002,
    Fault.LINK_FLAP: 0.01,
    Fault.GENERATOR_DIES: 0.003,
    Fault.DISK_FULL: 0.001,
    Fault.POWER_LOSS: 0.002,
    Fault.WORKER_LOST: 0.005,
    Fault.NO_ANSWER: 0.002,
}
"""Chances of a visit."""
_BROKEN = 0.01
"""Share of commits that do not build."""


@dataclass(frozen=True)
class Culprit:
    """A commit that makes something slower."""

    night: int
    """Before which it lands."""
    testbed: str
    scenarios: tuple[str, ...]
    drop: float

    @property
    def place(self) -> int:
        """On the line."""
        return self.night * COMMITS + COMMITS // 2


@dataclass
class Tree:
    """A line of commits of which so many have landed."""

    repository: Path
    revisions: tuple[str, ...]

    def land(self, nights: int) -> None:
        """Those of so many nights."""
        head = self.revisions[nights * COMMITS]
        git(self.repository, "update-ref", "refs/heads/main", head)


def git(repository: Path, *arguments: str, feed: bytes | None = None) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(repository), *arguments],
        input=feed,
        capture_output=True,
        check=True,
    ).stdout.decode()


def plant(repository: Path, nights: int) -> Tree:
    """A repository with enough commits for so many nights."""
    subprocess.run(
        ["git", "init", "-q", "--bare", "--initial-branch=main", str(repository)], check=True
    )
    stream = bytearray()
    folders = ("sys/netinet/ip_output.c", "sys/dev/e1000/if_em.c", "sys/netpfil/pf/pf.c")
    for number in range((nights + 1) * COMMITS + 1):
        at = _FIRST_DAY + number * _DAY // COMMITS
        who = f"Some Committer <committer@netbisect.invalid> {at} +0000"
        message = f"sys: Change number {number}\n".encode()
        text = f"/* {number} */\n".encode()
        path = folders[number % len(folders)]
        stream += f"commit refs/story\nmark :{number + 1}\nauthor {who}\ncommitter {who}\n".encode()
        stream += f"data {len(message)}\n".encode() + message + b"\n"
        stream += f"M 644 inline {path}\ndata {len(text)}\n".encode() + text + b"\n"
    git(repository, "fast-import", "--quiet", feed=bytes(stream))
    line = git(repository, "rev-list", "--reverse", "refs/story").split()
    tree = Tree(repository, tuple(line))
    tree.land(0)
    return tree


class World:
    """The truth, and the luck of every boot."""

    def __init__(self, tree: Tree, testbeds: list[str], culprits: list[Culprit], seed: int) -> None:
        self.tree = tree
        self.testbeds = testbeds
        self.culprits = culprits
        self.seed = seed
        self.number = {revision: place for place, revision in enumerate(tree.revisions)}
        self.visits = 0
        self.struck: Counter[str] = Counter()
        """How often each fault was met."""
        ends = {night * COMMITS for night in range(len(tree.revisions) // COMMITS + 1)}
        chance = self._random("broken")
        planted = {one.place for one in culprits}
        self.broken = {
            place
            for place in range(len(tree.revisions))
            if chance.random() < _BROKEN and place not in ends and place not in planted
        }

    def _random(self, *what: object) -> random.Random:
        return random.Random(repr((self.seed, *what)))  # noqa: S311 - luck

    def level(self, testbed: str, scenario: str, revision: str) -> float:
        """Mean ln pps of an image."""
        base = 1e6 if scenario == FORWARDING else 6e5
        level = math.log(base * (1 + 0.3 * self.testbeds.index(testbed)))
        place = self.number[revision]
        for one in self.culprits:
            if (testbed, place >= one.place, scenario in one.scenarios) == (
                one.testbed,
                True,
                True,
            ):
                level += math.log1p(-one.drop)
        return level + self._random("image", testbed, scenario, revision).gauss(0, _IMAGE_SD)

    # ------------------------------------------------------------------------------ what is told

    def build(self, revision: str, config: str, at: float) -> Kernel | Dud:
        """A kernel, or why there is none."""
        if self.number[revision] in self.broken:
            self._met(Fault.DOES_NOT_BUILD)
            return self._dud(Fault.DOES_NOT_BUILD, revision, at, "")
        name = hashlib.sha256(f"{revision} {config}".encode()).hexdigest()
        version = f"main-n{self.number[revision]}-{revision[:12]}"
        return Kernel(
            revision, config, "amd64", name, name[:40], version, 1 << 20, at, BUILD_SECONDS
        )

    def visit(
        self, testbed: str, kernel: Kernel, scenarios: list[str], runs: int, at: float
    ) -> Iterator[tuple[Fact, int | None]]:
        """Facts as they come, and at last the exit status; -1 where the worker was lost."""
        self.visits += 1
        luck = self._random("visit", testbed, self.visits)
        fault = self._fault(luck)
        boot = Boot(f"{testbed}-{self.visits}", testbed, kernel.key, kernel.revision, at, 180.0)
        if fault is Fault.DISK_FULL:
            yield self._dud(fault, kernel.revision, at, testbed), 4
            return
        yield boot, None
        slow = self.testbeds.index(testbed) % 3 == 0 and luck.random() < _SLOW_SHARE
        offset = luck.gauss(0, _BOOT_SD) - _SLOW_GAP * slow
        at += _BOOT_SECONDS
        ended = {Fault.PANIC_UNDER_LOAD, Fault.HANG_UNDER_LOAD, Fault.GENERATOR_DIES}
        if fault in ended | {Fault.POWER_LOSS}:
            yield self._dud(fault, kernel.revision, at, testbed), 3
            return
        if fault in (Fault.WORKER_LOST, Fault.NO_ANSWER):
            # A fact was told, and then nothing any more.
            yield boot, -1 if fault is Fault.WORKER_LOST else 1
            return
        for run in range(runs):
            for scenario in scenarios:
                at += _RUN_SECONDS
                held = Conditions.of(testbed, scenario, {"generator": "the same"})
                yield held, None
                mean = self.level(testbed, scenario, kernel.revision) + offset
                if fault is Fault.LINK_FLAP and run == 0 and scenario == scenarios[0]:
                    yield self._sample(boot, scenario, held, mean - 0.1, at, "f", FLAPPED), None
                    at += _RUN_SECONDS
                pps = mean + luck.gauss(0, _RUN_SD)
                yield self._sample(boot, scenario, held, pps, at, f"{run}"), None
        yield boot, 0

    def profile(self, testbed: str, kernel: Kernel, scenario: str, at: float) -> Profile:
        """Where it spends its time."""
        return Profile(
            kernel.revision, kernel.key, testbed, scenario, "cycles", 1e5, 1000, 0, at, 30.0
        )

    def _fault(self, luck: random.Random) -> Fault | None:
        number = luck.random()
        for fault, rate in RATES.items():
            number -= rate
            if number < 0:
                self._met(fault)
                return fault
        return None

    def _met(self, fault: Fault) -> None:
        self.struck[fault.value] += 1

    def _dud(self, fault: Fault, revision: str, at: float, testbed: str) -> Dud:
        rule = RULES[fault]
        name = f"{fault.value}-{self.visits}-{revision[:12]}"
        assert rule.stage is not None
        return Dud(
            *(name, revision, rule.stage, rule.reaction, rule.what, at, 60.0),
            testbed=testbed,
            log="the last words of the machine\n" * 20,
            fault=fault.value,
        )

    @staticmethod
    def _sample(
        boot: Boot,
        scenario: str,
        held: Conditions,
        ln_pps: float,
        at: float,
        name: str,
        *problems: str,
    ) -> Sample:
        pps = math.exp(ln_pps)
        seconds = tuple(pps for _ in range(30))
        offered = tuple(float(LINE_RATE) for _ in range(30))
        return Sample(
            *(f"{boot.id}-{scenario}-{name}", boot.id, boot.testbed, scenario, pps, LINE_RATE),
            *(seconds, offered, problems, held.digest, at, _RUN_SECONDS),
        )


FLAPPED = "packets were missing for 3 s in the middle of the run"
