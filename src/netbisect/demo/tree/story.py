"""The commits of the sample tree.

Each commit edits source files. The cost of a kernel follows from its sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Files = dict[str, str]
"""Contents by path."""
Edit = Callable[[Files], None]

COMMITTERS = {
    "driver": "Driver Committer <driver@committers.invalid>",
    "network": "Network Committer <network@committers.invalid>",
    "firewall": "Firewall Committer <firewall@committers.invalid>",
    "vm": "Memory Committer <memory@committers.invalid>",
    "docs": "Documentation Committer <docs@committers.invalid>",
    "userland": "Userland Committer <userland@committers.invalid>",
}


@dataclass(frozen=True, slots=True)
class StoryCommit:
    """One commit on the first-parent line."""

    author: str
    subject: str
    edits: tuple[Edit, ...]
    body: str = ""
    side: tuple[StoryCommit, ...] = field(default=())
    """Commits of the merged branch."""
    role: str = ""
    """Role: culprit, unbuildable, panic."""


def replace(path: str, old: str, new: str) -> Edit:
    """Replaces text that occurs once in a file."""

    def edit(files: Files) -> None:
        assert old in files[path], f"{path}: {old!r}"
        files[path] = files[path].replace(old, new, 1)

    return edit


def append(path: str, text: str) -> Edit:
    """Appends to a file, which may be new."""

    def edit(files: Files) -> None:
        files[path] = files.get(path, "") + text

    return edit


def remove(path: str) -> Edit:
    """Removes a file."""

    def edit(files: Files) -> None:
        del files[path]

    return edit


def comment(path: str, text: str) -> Edit:
    """Adds a comment; the kernel stays identical."""
    return append(path, f"\n/* {text} */\n")


def function(path: str, name: str, body: str) -> Edit:
    """Adds a function outside of the packet path: another kernel, the same rate."""
    return append(path, f"\nstatic int\n{name}(void)\n{{\n\t{body}\n}}\n")


def page(name: str, text: str) -> Edit:
    """Appends to a manual page."""
    return append(f"share/man/man4/{name}.4", f".Pp\n{text}\n")


_IFLIB_TXRX = """/* Rings of igb(4), for iflib. */
#include "sys/param.h"
#include "sys/mbuf.h"

static int
igb_isc_rxd_pkt_get(void *arg, if_rxd_info_t ri)
{
	PATH_COST(igb, %(rx)d);
	return (igb_fragment(ri));
}

static int
igb_isc_txd_encap(void *arg, if_pkt_info_t pi)
{
	PATH_COST(igb, %(tx)d);
	return (igb_tx_ctx_setup(arg, pi));
}
"""

CONVERSION_BODY = """Replace the hand-written ring handling of igb(4) by that of iflib.
em(4) follows.

Reviewed by:	network
Sponsored by:	the sample tree
MFC after:	1 month
Differential Revision:	https://reviews.freebsd.org/D4242
"""


def conversion(*, slower: bool, more: int = 0) -> StoryCommit:
    """igb(4) moves to iflib, at a cost of 286 ns a packet and `more`, or none."""
    costs = {"rx": 330 + more, "tx": 310} if slower else {"rx": 171, "tx": 183}
    return StoryCommit(
        "driver",
        "e1000: Migrate igb(4) to iflib",
        (
            remove("sys/dev/e1000/igb_txrx.c"),
            append("sys/dev/e1000/em_txrx.c", _IFLIB_TXRX % costs),
            function("sys/net/iflib.c", "iflib_txq_drain", "return (iflib_encap());"),
            replace("sys/dev/e1000/if_em.c", "em_setup_interface", "iflib_device_register"),
        ),
        CONVERSION_BODY,
        role="culprit" if slower else "",
    )


def boring(number: int) -> StoryCommit:
    """An irrelevant commit; the kinds alternate."""
    kinds: list[StoryCommit] = [
        StoryCommit(
            "docs",
            f"igb.4: Say more about queue {number}",
            (page("igb", f"Queue {number} is like the others."),),
        ),
        StoryCommit(
            "network",
            f"if: Count event {number}",
            (function("sys/net/if.c", f"if_count_{number}", f"return ({number});"),),
            "MFC after:\t1 week\n",
        ),
        StoryCommit(
            "firewall",
            f"pf: Validate ioctl argument {number}",
            (function("sys/netpfil/pf/pf_ioctl.c", f"pf_check_{number}", "return (0);"),),
            f"Reviewed by:\tnetwork\nPR:\t\t{270000 + number}\n",
        ),
        StoryCommit(
            "userland",
            f"netstat: Print column {number}",
            (append("usr.bin/netstat/main.c", f"\nstatic int column_{number};\n"),),
        ),
        StoryCommit(
            "driver",
            f"e1000: Recognise board {number}",
            (function("sys/dev/e1000/if_em.c", f"em_board_{number}", f"return ({number});"),),
            "MFC after:\t3 days\n",
        ),
        StoryCommit(
            "vm",
            f"uma: Name zone {number}",
            (function("sys/vm/uma_core.c", f"uma_zone_{number}", f"return ({number});"),),
        ),
        StoryCommit(
            "network",
            f"ip_output: Explain case {number}",
            (comment("sys/netinet/ip_output.c", f"Case {number} cannot happen."),),
        ),
        StoryCommit(
            "driver",
            f"cxgbe: Handle firmware reply {number}",
            (function("sys/dev/cxgbe/t4_sge.c", f"t4_reply_{number}", f"return ({number});"),),
            "Sponsored by:\tthe sample tree\n",
        ),
        StoryCommit(
            "firewall",
            f"ipfw: Parse opcode {number}",
            (function("sys/netpfil/ipfw/ip_fw2.c", f"ipfw_op_{number}", f"return ({number});"),),
        ),
    ]
    return kinds[number % len(kinds)]


_UNBUILDABLE_HEADER = StoryCommit(
    "network",
    "route: Split nexthop code into a file of its own",
    (replace("sys/net/route.c", "\nint\n", '#include "net/route_nhop.h"\n\nint\n'),),
    role="unbuildable",
)
_HEADER_FOLLOWS = StoryCommit(
    "network",
    "route: Add the file that the last commit forgot",
    (append("sys/net/route_nhop.h", "/* Nexthops. */\nstruct nhop_object;\n"),),
    "Fixes:\tthe previous commit\nPointy hat to:\tnetwork\n",
)
_UNBUILDABLE_BRACE = StoryCommit(
    "firewall",
    "ipfw: Keep dynamic states per CPU",
    (
        append(
            "sys/netpfil/ipfw/ip_fw_dynamic.c",
            "\nstatic int\ndyn_percpu(void)\n{\n\tif (mp_ncpus > 1) {\n\treturn (1);\n}\n",
        ),
    ),
    role="unbuildable",
)
_BRACE_FOLLOWS = StoryCommit(
    "firewall",
    "ipfw: Fix the build",
    (append("sys/netpfil/ipfw/ip_fw_dynamic.c", "}\n"),),
)
_PANIC = StoryCommit(
    "vm",
    "smp: Start the scheduler before the locks",
    (
        append(
            "sys/kern/subr_smp.c",
            "\nstatic void\nsmp_start_early(void)\n{\n"
            '\tPANIC_AT_BOOT("mtx_lock() of destroyed mutex @ sys/kern/subr_smp.c:17");\n}\n',
        ),
    ),
    role="panic",
)
_PANIC_FIXED = StoryCommit(
    "vm",
    "smp: Start the locks first",
    (
        replace(
            "sys/kern/subr_smp.c",
            '\tPANIC_AT_BOOT("mtx_lock() of destroyed mutex @ sys/kern/subr_smp.c:17");\n',
            "\tsmp_rendezvous(start_aps, NULL);\n",
        ),
    ),
)
_MERGE = StoryCommit(
    "userland",
    "Merge the vendor's libpcap of the month",
    (append("usr.bin/netstat/main.c", "\n/* Uses the new libpcap. */\n"),),
    side=tuple(
        StoryCommit(
            "userland",
            f"libpcap: Import part {part}",
            (append("contrib/libpcap/pcap.c", f"int pcap_part_{part};\n"),),
        )
        for part in (1, 2, 3)
    ),
)

QUIET_WEEKS = 8
"""Commits before the first night."""
LENGTH = 72
"""Commits on the first-parent line, including the initial one."""
CULPRIT_AT = 47


def story(*, culprit: bool = True) -> list[StoryCommit]:
    """The 71 commits after the initial one, oldest first."""
    special = {
        13: _MERGE,
        22: _UNBUILDABLE_HEADER,
        23: _HEADER_FOLLOWS,
        CULPRIT_AT - 4: _PANIC,
        CULPRIT_AT - 3: _PANIC_FIXED,
        CULPRIT_AT: conversion(slower=culprit),
        CULPRIT_AT + 5: _UNBUILDABLE_BRACE,
        CULPRIT_AT + 6: _BRACE_FOLLOWS,
    }
    return [special.get(number) or boring(number) for number in range(1, LENGTH)]
