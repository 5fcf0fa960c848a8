"""pkt-gens of this host stand for those of a generator or receiver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from localbisect_fixtures import interruptible

from netbisect.workers.config.lab import Ssh
from netbisect.workers.config.vm import HOST_MARK
from netbisect.workers.measure.traffic import PktGen, _stop
from netbisect.workers.transport.ssh import Connections


def test_the_pkt_gen_of_another_testbed_is_not_stopped(tmp_path: Path) -> None:
    ours, other = (
        subprocess.Popen(
            ["pkt-gen", "-c", "input()", "-i", port, "-w", "2"],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            preexec_fn=interruptible,  # noqa: PLW1509 - no thread of the test holds a lock
        )
        for port in ("netmap:igb3-0", "igb33")
    )
    with ours, other, Connections(Ssh()) as connections:
        machine = connections.machine(f"{HOST_MARK}{tmp_path}")
        _stop([PktGen("the receiver", machine, ours, tmp_path / "log", 1.0, "igb3")])
        statuses = ours.poll(), other.poll()
        other.kill()
    assert statuses[0] is not None
    assert statuses[1] is None
