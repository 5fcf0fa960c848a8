"""Flow control, CRC counters and queues of drivers, in sysctl(8) below the device of a port."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from netbisect.workers.dut import freebsd_tools

_OFF = ("0", "0x0", "None")
"""Values of flow control that is off: a number, a set of bits, the name that ice(4) uses."""


@dataclass(frozen=True, slots=True)
class PortDriver:
    """Names of a driver's sysctls, below the device."""

    flow_control: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    """Counters of frames with a wrong CRC; the first that exists is read."""
    tunable: bool = False
    """Whether flow control is set in loader.conf only."""
    queues: tuple[str, ...] = ()
    """Nodes with packet counters of queues."""


_MOST_QUEUES = 32
_INTEL = PortDriver(("fc",), ("mac_stats.crc_errs",), queues=("iflib",))
_CHELSIO = PortDriver(("pause_settings",), ("stats.rx_fcs_err",), queues=("txq",))
_NONE = PortDriver()
DRIVERS = {
    "em": _INTEL,
    "igb": _INTEL,
    "igc": _INTEL,
    "ix": replace(_INTEL, queues=tuple(f"queue{number}" for number in range(_MOST_QUEUES))),
    "ixl": PortDriver(("fc",), ("mac.crc_errors",), queues=("iflib",)),
    "ice": PortDriver(("fc",), ("hw.mac.crc_errors", "mac.crc_errors"), queues=("iflib",)),
    "cxgbe": _CHELSIO,
    "cxl": _CHELSIO,
    "cc": _CHELSIO,
    # Virtual interfaces of the port above them, which has both.
    "vcxgbe": _NONE,
    "vcxl": PortDriver((), _CHELSIO.damaged),
    "vcc": _NONE,
    "mce": PortDriver(
        ("rx_pauseframe_control", "tx_pauseframe_control"), ("pstats.check_seq_err",), tunable=True
    ),
    "vtnet": _NONE,
}
"""By name of the interface without its number. Sources: if_em.c (em, igb), if_igc.c, if_ix.c,
ixl_pf_main.c:906, ice_lib.c:4857 (`fc` is a string there), t4_main.c:7997 (`pause_settings`),
mlx5_en_main.c (`mce`, read-only after boot); MLX5E_PPORT_IEEE802_3_STATS in its en.h has the
aFrameCheckSequenceErrors of IEEE 802.3. Queues: iflib_add_device_sysctl_post() in
sys/net/iflib.c, if_ix.c, t4_sge.c.
"""
_QUEUE = re.compile(
    r"(?:iflib\.txq(?P<iflib>[0-9]{1,4})\.txq_processed|queue(?P<ix>[0-9]{1,4})\.(?P<way>[rt]x)_packets"
    r"|txq\.(?P<cxgbe>[0-9]{1,4})\.r_enqueues)\Z"
)
"""Sent descriptors of iflib(4), packets of ix(4), packets handed to a ring of cxgbe(4)."""


def driver_of(interface: str) -> PortDriver | None:
    """The driver of an interface; None for an unknown one."""
    name, _, number = freebsd_tools.device(interface).partition(".")
    return DRIVERS.get(name) if number else _NONE


def _below(interface: str, leaves: Callable[[PortDriver], tuple[str, ...]]) -> list[str]:
    """Sysctls below the device of an interface."""
    place = f"dev.{freebsd_tools.device(interface)}"
    return [f"{place}.{leaf}" for leaf in leaves(driver_of(interface) or _NONE)]


def flow_control(interface: str) -> list[str]:
    """Sysctls of the flow control of an interface."""
    return _below(interface, lambda driver: driver.flow_control)


def pausing(interface: str, values: Mapping[str, str]) -> list[str]:
    """Settings of flow control that is on, as NAME=VALUE."""
    found = {name: values[name] for name in flow_control(interface) if name in values}
    return [f"{name}={value}" for name, value in found.items() if value not in _OFF]


def crc_sysctls(interface: str) -> list[str]:
    """Sysctls that may count CRC errors of an interface."""
    return _below(interface, lambda driver: driver.damaged)


def queue_sysctls(interface: str) -> list[str]:
    """Nodes that may count packets of an interface by queue."""
    return _below(interface, lambda driver: driver.queues)


def count_sysctls(interface: str) -> list[str]:
    """Nodes with the number of queues of an interface and the version of its driver."""
    device = freebsd_tools.device(interface)
    return [f"dev.{device}.{leaf}" for leaf in ("iflib", "nrxq", "ntxq")] if device else []


def queue_counts(interface: str, values: Mapping[str, str]) -> str:
    """Numbers of queues, and the version of a driver with iflib(4), as `4 rx, 4 tx, iflib 7.7.8`.

    "" if the driver has no such sysctls.
    """
    place = f"dev.{freebsd_tools.device(interface)}."
    counts = []
    for way in ("rx", "tx"):
        count = iflib_queues(interface, way, values) or values.get(f"{place}n{way}q")
        counts += [f"{count} {way}"] if count else []
    version = values.get(f"{place}iflib.driver_version")
    return ", ".join([*counts, *([f"iflib {version}"] if version else [])])


def iflib_queues(interface: str, way: str, values: Mapping[str, str]) -> int:
    """Number of receive or transmit queues (`rx`, `tx`) of a driver with iflib(4); 0: unknown.

    They are the rings of netmap(4): iflib_netmap_attach() in sys/net/iflib.c. cxgbe(4) has other
    ones for netmap (`hw.cxgbe.nnmtxq`), and no sysctl with their number.
    """
    queue = re.compile(rf"dev\.{re.escape(freebsd_tools.device(interface))}\.iflib\.{way}q(\d+)\.")
    return len({match[1] for match in map(queue.match, values) if match})


def queue_packets(interface: str, values: Mapping[str, str]) -> dict[str, int]:
    """Packets since boot by queue, such as `tx 0`."""
    place = f"dev.{freebsd_tools.device(interface)}."
    found = {}
    for name, value in values.items():
        match = _QUEUE.match(name.removeprefix(place)) if name.startswith(place) else None
        packets = freebsd_tools.parse_count(value)
        if match and packets is not None:
            number = match["iflib"] or match["ix"] or match["cxgbe"]
            found[f"{match['way'] or 'tx'} {int(number)}"] = packets
    return found
