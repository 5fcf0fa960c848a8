"""Flow control and CRC counters of network drivers, in sysctl(8) below the device of a port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from netbisect.workers.dut import freebsd_tools

_OFF = ("0", "0x0", "None")
"""Values of flow control that is off: a number, a set of bits, the name that ice(4) uses."""


@dataclass(frozen=True, slots=True)
class PortDriver:
    """What a driver calls them."""

    flow_control: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    """Counters of frames with a wrong CRC; the first that exists is read."""
    tunable: bool = False
    """Whether flow control is set in loader.conf only."""


_INTEL = PortDriver(("fc",), ("mac_stats.crc_errs",))
_CHELSIO = PortDriver(("pause_settings",), ("stats.rx_fcs_err",))
_NONE = PortDriver()
DRIVERS = {
    "em": _INTEL,
    "igb": _INTEL,
    "igc": _INTEL,
    "ix": _INTEL,
    "ixl": PortDriver(("fc",), ("mac.crc_errors",)),
    "ice": PortDriver(("fc",), ("hw.mac.crc_errors", "mac.crc_errors")),
    "cxgbe": _CHELSIO,
    "cxl": _CHELSIO,
    "cc": _CHELSIO,
    # Virtual interfaces of the port above them, which has both.
    "vcxgbe": _NONE,
    "vcxl": PortDriver((), _CHELSIO.damaged),
    "vcc": _NONE,
    "mce": PortDriver(("rx_pauseframe_control", "tx_pauseframe_control"), tunable=True),
    "vtnet": _NONE,
}
"""By name of the interface without its number. Sources: if_em.c (em, igb), if_igc.c, if_ix.c,
ixl_pf_main.c:906, ice_lib.c:4857 (`fc` is a string there), t4_main.c:7997 (`pause_settings`),
mlx5_en_main.c (`mce`, read-only after boot).
"""


def driver_of(interface: str) -> PortDriver | None:
    """The driver of an interface; None for an unknown one."""
    name, _, number = freebsd_tools.device(interface).partition(".")
    return DRIVERS.get(name) if number else _NONE


def flow_control(interface: str) -> list[str]:
    """Sysctls of the flow control of an interface."""
    driver = driver_of(interface)
    names = driver.flow_control if driver else ()
    return [f"dev.{freebsd_tools.device(interface)}.{one}" for one in names]


def pausing(interface: str, values: Mapping[str, str]) -> list[str]:
    """What tells of flow control that is on, as NAME=VALUE."""
    found = {name: values[name] for name in flow_control(interface) if name in values}
    return [f"{name}={value}" for name, value in found.items() if value not in _OFF]


def crc_sysctls(interfaces: Iterable[str]) -> list[str]:
    """Sysctls that may count CRC errors of these interfaces."""
    return [
        f"dev.{freebsd_tools.device(one)}.{leaf}"
        for one in interfaces
        if (driver := driver_of(one))
        for leaf in driver.damaged
    ]
