"""Checks the machines and links of a testbed on its known-good kernel.

A fault that also occurs there is not the revision's. Also used before a testbed leaves quarantine.
"""

from __future__ import annotations

from collections.abc import Iterator

from netbisect.bisect.model.faults import Fault
from netbisect.workers.config.testbed import Testbed
from netbisect.workers.dut.ports import PortFinder
from netbisect.workers.measure.telemetry import ROLES
from netbisect.workers.transport.errors import LabFault, MachineError, bench_fault
from netbisect.workers.transport.ssh import Connections


def find_faults(testbed: Testbed, connections: Connections) -> Iterator[LabFault]:
    """Faults of machines and links."""
    finder = PortFinder(testbed, connections)
    for part in ("generator", "receiver", "ingress", "egress"):
        try:
            found = finder.find(part)
        except MachineError as error:
            yield bench_fault(error, testbed.generator.address, testbed.receiver.address)
        else:
            if found.status not in ("", "active"):
                where = f"{ROLES[part]} ({found.name})"
                why = f"{where} has no link on the known-good kernel: {found.status}"
                yield LabFault.of(Fault.NO_LINK, why)
