"""Output of FreeBSD's tools."""

from __future__ import annotations

from netbisect.workers.dut.freebsd_tools import parse_ps, parse_sensors


def test_a_locale_with_decimal_commas_is_read() -> None:
    """ps(1) and sysctl(8) use the locale of root."""
    cpu = {"dev.cpu.0.temperature": "101,0C", "dev.cpu.0.coretemp.tjmax": "100,0C"}
    assert parse_ps("  100  1  55,0 dd\n") == {"dd": 55.0}
    assert parse_sensors(cpu).hot == ("dev.cpu.0 101 of 100 C",)


def test_a_processor_that_chooses_its_clock_is_not_throttled() -> None:
    """An idle one with AMD's CPPC reports its nominal clock as the only level."""
    cpu = {"dev.cpu.0.freq": "1397", "dev.cpu.0.freq_levels": "3693/-1"}
    for name, value, top in (
        ("dev.hwpstate_intel.0.%driver", "hwpstate_intel", None),
        ("dev.hwpstate_amd.0.epp", "50", None),
        ("dev.hwpstate_amd.0.%driver", "hwpstate_amd", 3693.0),
    ):
        assert parse_sensors(cpu | {name: value}).top_clock == top
