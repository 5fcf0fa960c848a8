"""Faults that can be injected into the simulated lab.

The SSH server of the power switch accepts `cycle ROUTER`, `break MACHINE FAULT` and
`mend MACHINE`. A fault lasts until it is mended.
"""

from __future__ import annotations

from enum import StrEnum


class InjectedFault(StrEnum):
    """Faults of a machine."""

    OFF = "off"
    """Goes down at once; a power cycle recovers it."""
    DEAD = "dead"
    """Goes down at once and stays down, power or not."""
    HANGS = "hangs"
    """Every kernel except the known-good one hangs during boot."""
    IGNORES_NEXTBOOT = "ignores-nextboot"
    """The loader cannot read nextboot.conf, as on some file systems, and boots the default."""
    FALLS_BACK = "falls-back"
    """The loader fails to load the kernel of nextboot.conf and boots the default."""
    STALE_LOADER = "stale-loader"
    """The loader receives the file of its last request."""
    PANICS_UNDER_LOAD = "panics-under-load"
    """The kernel panics after some seconds of traffic."""
    HANGS_UNDER_LOAD = "hangs-under-load"
    """The kernel hangs after some seconds of traffic, until a power cycle."""
    POWER_LOSS = "power-loss"
    """A short power failure during a run causes a silent reboot."""
    CLOCK_JUMPS = "clock-jumps"
    """The clock jumps ahead by an hour in every run."""
    DIES_UNDER_LOAD = "dies-under-load"
    """A traffic host goes down during a run and stays down."""
    LOSES_WRITES = "loses-writes"
    """The disk silently keeps only half of each new file."""
    DISK_FULL = "disk-full"
    """The disk is full."""
    NEW_HOST_KEY = "new-host-key"
    """The SSH host key differs, as after a reinstallation."""
    SLOW_SENDER = "slow-sender"
    """The generator sends three fifths of the line rate."""
    PKT_GEN_CRASHES = "pkt-gen-crashes"
    """A thread of pkt-gen dies during the run."""
    RENAMED_PORTS = "renamed-ports"
    """Every kernel except the known-good one names its ports em."""
    CABLE_OUT = "cable-out"
    """The data ports have no carrier."""
    ONE_QUEUE = "one-queue"
    """The router sends all packets through the first queue of its port."""
    LINK_FLAPS = "link-flaps"
    """In every run the link between generator and router goes down for three seconds."""
    BAD_CABLE = "bad-cable"
    """One packet in a thousand has a wrong CRC."""
    THROTTLES = "throttles"
    """The processors overheat under load and throttle."""
    BUSY = "busy"
    """Another program takes most of a processor."""
    MEDDLER = "meddler"
    """A setting of the router changes in every run."""
