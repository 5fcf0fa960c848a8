"""Settings of a router that are conditions of its samples."""

from __future__ import annotations

from netbisect.workers.measure import lab_settings

KENV = """\
hint.acpi.0.rsdp="0xf0490"
hint.uart.0.at="isa"
hw.ix.num_queues="4"
kern.hz="1000"
kern.panic_reboot_wait_time="5"
kernelname="/boot/kernel.nb-0123456789ab/kernel"
net.inet.ip.fw.default_to_accept="1"
net.isr.maxthreads="-1"
netbisect.order="0123"
smbios.bios.reldate="03/09/2020"
smbios.bios.vendor="American Megatrends Inc."
smbios.bios.version="1.0"
"""
SYSCTL_CONF = """\
# local settings
net.inet.ip.redirect=0
security.bsd.see_other_uids=0
dev.ix.0.fc=0  # no pauses
"""


def test_settings_of_the_owner_are_conditions() -> None:
    """Settings are selected by prefix; those of loader, netbisect and other subsystems are not.

    Names of kernels and addresses of tables are no conditions.
    """
    found = lab_settings.of_router(KENV, SYSCTL_CONF)
    hints = found.pop("hints")
    assert len(hints) == 16
    assert found == {
        "hw.ix.num_queues": "4",
        "kern.hz": "1000",
        "net.isr.maxthreads": "-1",
        "net.inet.ip.redirect (sysctl.conf)": "0",
        "dev.ix.0.fc (sysctl.conf)": "0",
        "BIOS": "American Megatrends Inc. 1.0 03/09/2020",
    }

    # A change of conditions begins a new epoch of the series.
    other = KENV.replace("0123456789ab", "ba9876543210").replace("0xf0490", "0xf1000")
    other = other.replace('order="0123"', 'order="4567"')
    assert lab_settings.of_router(other, "") == lab_settings.of_router(KENV, "")
    changed = KENV.replace('"isa"', '"acpi"')
    assert lab_settings.of_router(changed, "") != lab_settings.of_router(KENV, "")
