"""What can be made to go wrong in the simulated lab.

The power switch's SSH server takes `break MACHINE FAULT` and `mend MACHINE` besides
`cycle ROUTER`. A fault is a way in which a machine, its loader, disk or cable behaves; it lasts
until it is mended, and nothing outside the machine is told of it.
"""

from __future__ import annotations

from enum import StrEnum


class Fault(StrEnum):
    """Ways to misbehave."""

    OFF = "off"
    """Goes down at once; the power switch brings it back."""
    DEAD = "dead"
    """Goes down at once and stays down, power or not."""
    HANGS = "hangs"
    """Every kernel but the known-good one stops half-way up and never answers."""
    IGNORES_NEXTBOOT = "ignores-nextboot"
    """The loader cannot read nextboot.conf, as on some file systems: it starts the default."""
    FALLS_BACK = "falls-back"
    """The loader reads nextboot.conf, fails to load the kernel named there, takes the default."""
    STALE_LOADER = "stale-loader"
    """The loader is served the file it loaded last time, whatever it asks for."""
    PANICS_UNDER_LOAD = "panics-under-load"
    """Some seconds of traffic bring the kernel down."""
    HANGS_UNDER_LOAD = "hangs-under-load"
    """Some seconds of traffic, and the kernel never answers again until its power is cycled."""
    POWER_LOSS = "power-loss"
    """In the middle of a run the power is gone for a moment: it starts again, without a word."""
    CLOCK_JUMPS = "clock-jumps"
    """In every run its clock is set forward by an hour."""
    DIES_UNDER_LOAD = "dies-under-load"
    """A traffic host that goes down in the middle of a run, and stays down."""
    LOSES_WRITES = "loses-writes"
    """The disk keeps only half of each new file, and says nothing."""
    DISK_FULL = "disk-full"
    """df shows no room, and there is none."""
    NEW_HOST_KEY = "new-host-key"
    """It answers ssh with another host key, as a reinstalled or a foreign machine does."""
    SLOW_SENDER = "slow-sender"
    """A generator that offers three fifths of the line rate."""
    FADING_SENDER = "fading-sender"
    """A generator that offers a little less every second."""
    PKT_GEN_CRASHES = "pkt-gen-crashes"
    """A thread of pkt-gen dies some seconds into the run."""
    RENAMED_PORTS = "renamed-ports"
    """Every kernel but the known-good one has another driver, which calls its ports em."""
    CABLE_OUT = "cable-out"
    """Its data ports have no carrier."""
    LINK_FLAPS = "link-flaps"
    """In every run the link between generator and router goes down for three seconds."""
    BAD_CABLE = "bad-cable"
    """One in a thousand packets arrives there with a wrong CRC."""
    THROTTLES = "throttles"
    """Under load the processors grow too hot, and slow down."""
    BUSY = "busy"
    """Another program takes most of a processor."""
    MEDDLER = "meddler"
    """In every run somebody changes a setting of the router."""
