"""Queues of ports in the sysctls of their drivers."""

from __future__ import annotations

import pytest

from netbisect.workers.dut import drivers


@pytest.mark.parametrize(
    ("interface", "values", "packets"),
    [
        (
            "igb2",
            {
                "dev.igb.2.iflib.txq0.txq_processed": "12",
                "dev.igb.2.iflib.txq01.txq_processed": "3",
                "dev.igb.2.iflib.txq0.txq_cleaned": "9",
                "dev.igb.3.iflib.txq0.txq_processed": "7",
            },
            {"tx 0": 12, "tx 1": 3},
        ),
        (
            "ix0",
            {"dev.ix.0.queue1.rx_packets": "5", "dev.ix.0.queue1.tx_packets": "6"},
            {"rx 1": 5, "tx 1": 6},
        ),
        ("cxl1", {"dev.cxl.1.txq.3.r_enqueues": "8"}, {"tx 3": 8}),
        ("igb2", {"dev.igb.2.iflib.txq0.txq_processed": "none"}, {}),
    ],
)
def test_packets_by_queue(interface: str, values: dict[str, str], packets: dict[str, int]) -> None:
    assert drivers.queue_packets(interface, values) == packets
    assert all(
        any(name.startswith(node) for node in drivers.queue_sysctls(interface))
        for name in values
        if not name.startswith("dev.igb.3")
    )


@pytest.mark.parametrize(
    ("interface", "values", "counts"),
    [
        (
            "ix0",
            {
                "dev.ix.0.iflib.driver_version": "5.0.1-k",
                "dev.ix.0.iflib.rxq0.rxq_fl0.pidx": "1",
                "dev.ix.0.iflib.rxq0.rxq_fl0.cidx": "1",
                "dev.ix.0.iflib.rxq1.rxq_fl0.pidx": "1",
                "dev.ix.0.iflib.txq0.r_drops": "0",
            },
            "2 rx, 1 tx, iflib 5.0.1-k",
        ),
        ("cxl1", {"dev.cxl.1.nrxq": "8", "dev.cxl.1.ntxq": "8"}, "8 rx, 8 tx"),
        ("vtnet0", {}, ""),
    ],
)
def test_numbers_of_queues(interface: str, values: dict[str, str], counts: str) -> None:
    assert drivers.queue_counts(interface, values) == counts
    iflib = "iflib" in counts
    assert drivers.iflib_queues(interface, "rx", values) == (2 if iflib else 0)
    assert drivers.iflib_queues(interface, "tx", values) == (1 if iflib else 0)


def test_crc_errors_are_counted_by_all_physical_ports() -> None:
    """Virtual interfaces have the counters of the port above them."""
    without = {name for name in drivers.DRIVERS if not drivers.crc_sysctls(f"{name}0")}
    assert without == {"vcxgbe", "vcc", "vtnet"}
    assert drivers.crc_sysctls("mce1") == ["dev.mce.1.pstats.check_seq_err"]
