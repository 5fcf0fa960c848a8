"""Looks at a testbed that runs its known-good kernel: what is wrong there is not the revision's.

Used where a fault may have several causes, and before a testbed leaves quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator

from netbisect.bisect.faults import Fault
from netbisect.bisect.model import Stage
from netbisect.workers import ports
from netbisect.workers.faults import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
    traffic_fault,
)
from netbisect.workers.lab import Testbed
from netbisect.workers.ssh import Connections


def faults(testbed: Testbed, connections: Connections) -> Iterator[LabFault]:
    """What is wrong with its machines and its links; nothing when all is well."""
    dut, generator, receiver = testbed.dut, testbed.generator, testbed.receiver
    for where, address, port in (
        ("the generator", generator.address, generator.port),
        ("the receiver", receiver.address, receiver.port),
        ("the router's ingress", dut.address, dut.ingress),
        ("the router's egress", dut.address, dut.egress),
    ):
        try:
            found = ports.look(connections.machine(address), [port]).find(port)
        except UnreachableError as error:
            yield traffic_fault(error, generator.address, receiver.address)
        except (HostKeyError, CommandError, ports.NoPortError) as error:
            yield lab_fault(Stage.BENCH, error)
        else:
            if found.status not in ("", "active"):
                why = f"{where} ({found.name}) has no link on the known-good kernel: {found.status}"
                yield LabFault.of(Fault.NO_LINK, why)
