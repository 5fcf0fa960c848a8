"""Faults between checkout and sample: retries, reactions and advice, the table of docs/faults.md.

Uses the standard library only, because it runs on lab hosts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from netbisect.bisect.model.entities import Reaction, Stage

IN_A_ROW = 3
"""Consecutive trials with infrastructure failures before a testbed is quarantined."""


class Fault(StrEnum):
    """Names of faults; see `RULES`."""

    CHECKOUT = "checkout"
    DOES_NOT_BUILD = "does-not-build"
    STALE_BUILD = "stale-build"
    BUILD_HANGS = "build-hangs"
    BUILDER = "builder"
    DEPLOYMENT = "deployment"
    DISK_FULL = "disk-full"
    UNFIT = "unfit"
    COMMAND = "command"
    WRONG_KERNEL = "wrong-kernel"
    PANIC_AT_BOOT = "panic-at-boot"
    DOES_NOT_BOOT = "does-not-boot"
    PANIC_UNDER_LOAD = "panic-under-load"
    HANG_UNDER_LOAD = "hang-under-load"
    POWER_LOSS = "power-loss"
    UNREACHABLE = "unreachable"
    POWER_SWITCH = "power-switch"
    HOST_KEY = "host-key"
    NO_GOOD_KERNEL = "no-good-kernel"
    SCENARIO = "scenario"
    GENERATOR_DIES = "generator-dies"
    RECEIVER_DIES = "receiver-dies"
    PKT_GEN_DIES = "pkt-gen-dies"
    WRONG_RATE = "wrong-rate"
    NO_LINK = "no-link"
    NO_TRAFFIC = "no-traffic"
    LINK_FLAP = "link-flap"
    DAMAGED = "damaged-packets"
    THROTTLING = "throttling"
    CLOCK_JUMP = "clock-jump"
    OTHER_LOAD = "other-load"
    SETTINGS = "settings"
    ODD_RUN = "odd-run"
    WORKER_LOST = "worker-lost"
    MASTER_STOPPED = "master-stopped"
    NO_ANSWER = "no-answer"
    USAGE = "usage"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Rule:
    """Handling of a fault."""

    what: str
    advice: str
    """Advice for mails and pages."""
    stage: Stage | None = None
    """None for any."""
    tries: int = 1
    """Attempts before the reaction, including the first."""
    reaction: Reaction = Reaction.RETRY
    says: str = ""
    """Pattern of its sentences from `sample_validity`."""


_BUILD, _DEPLOY, _BOOT, _BENCH = Stage.BUILD, Stage.DEPLOY, Stage.BOOT, Stage.BENCH
_SKIP, _INFRA = Reaction.SKIP, Reaction.INFRA
_QUARANTINE, _ABORT = Reaction.QUARANTINE, Reaction.ABORT
_ITS_TEXT = "Read the console output in the report."

RULES: dict[Fault, Rule] = {
    Fault.CHECKOUT: Rule(
        "the checkout fails, or the tree is at another revision",
        "Check the repository's server, and the clone on the build host.",
        Stage.CHECKOUT,
    ),
    Fault.DOES_NOT_BUILD: Rule(
        "the kernel, its tools or its programs do not build, or a patch does not apply",
        "Read the first error in the report.",
        _BUILD,
        reaction=_SKIP,
    ),
    Fault.STALE_BUILD: Rule(
        "the built kernel names another revision",
        "If this happens again, remove the object directory on the build host.",
        _BUILD,
    ),
    Fault.BUILD_HANGS: Rule(
        "a build does not end within `build_timeout`",
        "Look at the build host, or give it more time.",
        _BUILD,
    ),
    Fault.BUILDER: Rule(
        "the build host lacks disk space, memory or tools, kills a build, or is busy with another "
        "build for `build_timeout`",
        "Check the disk, memory, tools and other builds of this host.",
        _BUILD,
        reaction=_INFRA,
    ),
    Fault.DEPLOYMENT: Rule(
        "the kernel on the DUT differs from the one that was sent",
        "Look at the DUT's disk.",
        _DEPLOY,
        tries=2,
    ),
    Fault.DISK_FULL: Rule(
        "the DUT's disk is full even without test kernels",
        "Free disk space on the DUT, first in `/boot`.",
        _DEPLOY,
        tries=2,
        reaction=_QUARANTINE,
    ),
    Fault.UNFIT: Rule(
        "the DUT is not set up for its boot method, or its file system is read-only",
        "Compare `deploy` and its table in the lab file with the disks of the DUT.",
        _DEPLOY,
        reaction=_QUARANTINE,
    ),
    Fault.COMMAND: Rule(
        "any other command on a machine fails or hangs, or a port of the DUT is not found",
        "Run `netbisect-lab doctor`.",
        tries=2,
    ),
    Fault.WRONG_KERNEL: Rule(
        "the DUT comes back on a kernel other than the one ordered",
        "If this happens with every kernel, check the loader and `nextboot`.",
        _BOOT,
        tries=2,
        reaction=_SKIP,
    ),
    Fault.PANIC_AT_BOOT: Rule(
        "the kernel panics while it boots", _ITS_TEXT, _BOOT, tries=2, reaction=_SKIP
    ),
    Fault.DOES_NOT_BOOT: Rule(
        "the kernel hangs while it boots, until a power cycle",
        _ITS_TEXT,
        _BOOT,
        tries=2,
        reaction=_SKIP,
    ),
    Fault.PANIC_UNDER_LOAD: Rule(
        "the kernel panics under the load of a scenario", _ITS_TEXT, _BOOT, reaction=_SKIP
    ),
    Fault.HANG_UNDER_LOAD: Rule(
        "the kernel hangs under the load, until a power cycle", _ITS_TEXT, _BOOT, reaction=_SKIP
    ),
    Fault.POWER_LOSS: Rule(
        "the DUT restarts during a trial, and its console shows no panic",
        "Look at its power supply and its switch.",
        _BOOT,
    ),
    Fault.UNREACHABLE: Rule(
        "the DUT does not answer, even after a power cycle",
        "Check the machine, its console and its management network.",
        reaction=_QUARANTINE,
    ),
    Fault.POWER_SWITCH: Rule(
        "the power switch is missing or fails, and the DUT does not come back",
        "Switch the machine on, and try the command `power.cycle` of the lab file.",
        reaction=_QUARANTINE,
    ),
    Fault.HOST_KEY: Rule(
        "a machine shows another SSH host key",
        "If it was reinstalled, put its new key into `known_hosts`; if not, find out which "
        "machine answers.",
        reaction=_QUARANTINE,
    ),
    Fault.NO_GOOD_KERNEL: Rule(
        "the DUT cannot be brought back to its known-good kernel",
        "Boot the known-good kernel by hand, and compare `known_good` with `loader.conf`.",
        _BOOT,
        reaction=_QUARANTINE,
    ),
    Fault.SCENARIO: Rule(
        "a scenario's module or rule does not load, or the testbed cannot send its packets",
        "Read the reason in the report; only this scenario is left out.",
        _BENCH,
        reaction=_SKIP,
    ),
    Fault.GENERATOR_DIES: Rule(
        "the generator does not answer, lacks its port, or fails in the middle of a run",
        "Look at the generator.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
        says=r"(^|: )the sender reports ",
    ),
    Fault.RECEIVER_DIES: Rule(
        "the receiver does not answer, lacks its port, or fails in the middle of a run",
        "Look at the receiver.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
    ),
    Fault.PKT_GEN_DIES: Rule(
        "a thread of pkt-gen dies",
        "Look at pkt-gen and netmap on the generator and the receiver.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
        says=r"pkt-gen crashed",
    ),
    Fault.THROTTLING: Rule(
        "a processor of the DUT is throttled, or too hot",
        "Check its fans, air flow and power settings.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
        says=r"^the router (ran at [\d.]+ MHz|was throttled|was too hot)",
    ),
    Fault.NO_LINK: Rule(
        "a data port has no link, not even on the known-good kernel",
        "Look at the cables and at the ports' other ends.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
    ),
    Fault.NO_TRAFFIC: Rule(
        "no packets arrive, although all links are up on the known-good kernel",
        "The revision may be the cause.",
        _BENCH,
        tries=2,
        says=r"has no link (before|after) the run|"
        r"^(the receiver|receiver \d+ on \S+): none of its ",
    ),
    Fault.WRONG_RATE: Rule(
        "the rate of the generator is too low or unsteady",
        "Look at the generator: other load, flow control, `line_rate_pps`.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
        says=r"^(the )?generator (\d+ on \S+ )?(\(\d+ bytes\) )?offered |"
        r"^the generators did not send ",
    ),
    Fault.LINK_FLAP: Rule(
        "a link goes down in the middle of a run",
        "Check the cables; the driver of the revision may be the cause too.",
        _BENCH,
        tries=2,
        says=r"^packets were missing for ",
    ),
    Fault.DAMAGED: Rule(
        "packets arrive damaged at any port",
        "Look at the cable or transceiver of the named port.",
        _BENCH,
        tries=2,
        reaction=_INFRA,
        says=r" counted [\d,]+ (packets with a wrong CRC|errors) during the run",
    ),
    Fault.CLOCK_JUMP: Rule(
        "the clock of the DUT or of its worker jumps in the middle of a run",
        "Look at the time service of the named host; let it set the clock at boot only.",
        _BENCH,
        tries=2,
        says=r"^the clock of ",
    ),
    Fault.OTHER_LOAD: Rule(
        "other programs keep the DUT busy",
        "Find the other programs on the DUT.",
        _BENCH,
        tries=2,
        says=r"^other programs took ",
    ),
    Fault.SETTINGS: Rule(
        "a setting or a module is not as ordered, or changes during the run",
        "Find out what changes it.",
        _BENCH,
        tries=2,
        says=r" was '.*' before the run, ordered was | changed during the run, from ",
    ),
    Fault.ODD_RUN: Rule(
        "any other [reason to refuse a run](lab.md#what-makes-a-run-a-sample)",
        "Read the problems of the run.",
        _BENCH,
        tries=2,
    ),
    Fault.WORKER_LOST: Rule("the worker of a testbed or of a builder is offline", "Start it."),
    Fault.MASTER_STOPPED: Rule("the master was stopped during an order", "Nothing."),
    Fault.NO_ANSWER: Rule(
        "a command of the lab ends without an answer",
        "Look at the log of the order.",
        tries=3,
        reaction=_ABORT,
    ),
    Fault.USAGE: Rule(
        "the worker's lab file or command line is wrong",
        "Put the same lab file on every host. Tries are ten minutes apart.",
        tries=3,
        reaction=_ABORT,
    ),
    Fault.CANCELLED: Rule("an order is cancelled", "Nothing.", reaction=_ABORT),
}
"""In order of precedence for problems of a run."""


def fault_of_run(problems: Sequence[str]) -> Fault:
    """The fault of the problems of a run, by precedence."""
    for fault, rule in RULES.items():
        if rule.says and any(re.search(rule.says, problem) for problem in problems):
            return fault
    return Fault.ODD_RUN


def rule_of(name: str) -> Rule | None:
    """The rule of a fault by name; None if unknown."""
    return RULES[Fault(name)] if name in {fault.value for fault in Fault} else None
