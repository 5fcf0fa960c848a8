"""Checks the machines and links of a testbed on its known-good kernel.

A fault that also occurs there is not the revision's. Also used before a testbed leaves quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator

from netbisect.bisect.model.entities import Stage
from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut import ports
from netbisect.workers.transport.errors import (
    CommandError,
    HostKeyError,
    LabFault,
    UnreachableError,
    lab_fault,
    traffic_fault,
)
from netbisect.workers.transport.ssh import Connections


def find_faults(testbed: Testbed, connections: Connections) -> Iterator[LabFault]:
    """Faults of machines and links."""
    dut, generator, receiver = testbed.dut, testbed.generator, testbed.receiver
    for where, address, port in (
        ("the generator", generator.address, generator.port),
        ("the receiver", receiver.address, receiver.port),
        ("the router's ingress", dut.address, dut.ingress),
        ("the router's egress", dut.address, dut.egress),
    ):
        try:
            found = ports.read_inventory(connections.machine(address), [port]).find(port)
        except UnreachableError as error:
            yield traffic_fault(error, generator.address, receiver.address)
        except (HostKeyError, CommandError, ports.PortNotFoundError) as error:
            yield lab_fault(Stage.BENCH, error)
        else:
            if found.status not in ("", "active"):
                why = f"{where} ({found.name}) has no link on the known-good kernel: {found.status}"
                yield LabFault.of(Fault.NO_LINK, why)
