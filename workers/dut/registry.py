"""Finds the boot method of a testbed."""

from __future__ import annotations

import importlib

from netbisect.workers.config.dut import BOOT_METHODS, Dut
from netbisect.workers.dut.base import BootMethod
from netbisect.workers.transport.ssh import Connections


def boot_method(dut: Dut, connections: Connections) -> BootMethod:
    """The boot method named by `deploy` in the lab file."""
    module, _, name = BOOT_METHODS[dut.deploy].partition(":")
    method: type[BootMethod] = getattr(importlib.import_module(module), name)
    return method(dut, connections)
