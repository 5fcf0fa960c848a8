"""Which of the ways to boot a kernel once a testbed has."""

from __future__ import annotations

from netbisect.workers.deploy import Deployment, NextBoot
from netbisect.workers.deploy_nanobsd import TwoPartitions
from netbisect.workers.deploy_pxe import NetworkBoot
from netbisect.workers.lab import Testbed
from netbisect.workers.ssh import Connections


def deployment_of(testbed: Testbed, connections: Connections) -> Deployment:
    """The way in which this testbed's lab file says that kernels are booted."""
    dut = testbed.dut
    machine = connections.machine(dut.address)
    if dut.nanobsd is not None:
        return TwoPartitions(machine, dut.nanobsd, dut)
    if dut.pxe is not None:
        return NetworkBoot(connections.machine(dut.pxe.server), dut.pxe, dut)
    return NextBoot(machine, dut)
