"""Output of FreeBSD's tools."""

from __future__ import annotations

from netbisect.workers.dut.freebsd_tools import parse_ps, parse_sensors


def test_a_locale_with_decimal_commas_is_read() -> None:
    """ps(1) and sysctl(8) use the locale of root."""
    cpu = {"dev.cpu.0.temperature": "101,0C", "dev.cpu.0.coretemp.tjmax": "100,0C"}
    assert parse_ps("  100  1  55,0 dd\n") == {"dd": 55.0}
    assert parse_sensors(cpu).hot == ("dev.cpu.0 101 of 100 C",)
