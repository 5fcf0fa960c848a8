"""Finding interfaces in the output of ifconfig(8) and pciconf(8)."""

from __future__ import annotations

import pytest

from netbisect.workers.config.dut import PortSelector
from netbisect.workers.dut.ports import (
    Interface,
    Inventory,
    PortNotFoundError,
    options_of,
    parse_devices,
    parse_interfaces,
)

IFCONFIG = """\
igb0: flags=1008843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST,LOWER_UP> metric 0 mtu 1500
	options=4e527bb<RXCSUM,TXCSUM,VLAN_MTU,VLAN_HWTAGGING,TSO4,TSO6,LRO,WOL_MAGIC>
	ether 00:0d:b9:41:ca:3c
	inet 192.168.1.3 netmask 0xffffff00 broadcast 192.168.1.255
	media: Ethernet autoselect (1000baseT <full-duplex>)
	status: active
	nd6 options=29<PERFORMNUD,IFDISABLED,AUTO_LINKLOCAL>
vcxl0: flags=8802<BROADCAST,SIMPLEX,MULTICAST> metric 0 mtu 1500
	ether 00:07:43:2e:e4:72
	hwaddr 00:07:43:2e:e4:70
	media: Ethernet 10Gbase-Twinax <full-duplex,rxpause,txpause>
	status: no carrier
lo0: flags=1008049<UP,LOOPBACK,RUNNING,MULTICAST,LOWER_UP> metric 0 mtu 16384
	inet 127.0.0.1 netmask 0xff000000
	groups: lo
"""


PCICONF = """\
hostb0@pci0:0:0:0:	class=0x060000 rev=0x02 hdr=0x00 vendor=0x8086 device=0x1f08 subvendor=0x0000
igb0@pci0:2:0:0:	class=0x020000 rev=0x03 hdr=0x00 vendor=0x8086 device=0x157b subvendor=0x8086
t5nex0@pci0:4:0:4:	class=0x020000 card=0x00001425 chip=0x54101425 rev=0x00 hdr=0x00
em0@pci0:7:0:0:	class=0x020000 rev=0x03 hdr=0x00 vendor=0x8086 device=0x157b subvendor=0x8086
mlx5_core1@pci0:5:0:1:	class=0x020000 rev=0x00 hdr=0x00 vendor=0x15b3 device=0x1017
none3@pci0:6:0:0:	class=0x020000 rev=0x00 hdr=0x00 vendor=0x8086 device=0x1533 subvendor=0x8086
"""


def found_at(pci: str, *names: str, parents: dict[str, str] | None = None) -> str:
    present = tuple(Interface(name, "", "active", "") for name in (*names, "lo0"))
    devices = parse_devices(PCICONF)
    return Inventory("gw", present, devices, parents or {}).find(PortSelector(pci=pci)).name


def test_pci_address_finds_a_port_with_any_driver() -> None:
    assert found_at("pci0:2:0:0", "igb0", "igb1") == "igb0"
    assert found_at("pci0:7:0:0", "igb0", "em0") == "em0"
    assert found_at("pci0:5:0:1", "mce0", "mce1") == "mce1"  # the number of a Mellanox device


@pytest.mark.parametrize(
    ("pci", "message"),
    [
        ("pci0:9:0:0", "no interface at pci0:9:0:0, where pciconf knows no device; found cxl0, "),
        ("pci0:6:0:0", "no interface at pci0:6:0:0, whose device has no driver; found cxl0, "),
        ("pci0:2:0:0", "no interface at pci0:2:0:0 (igb0); found cxl0, cxl1, lo0"),
        ("pci0:4:0:4", "pci0:4:0:4 has several interfaces: cxl0, cxl1; expected a MAC address"),
    ],
)
def test_pci_address_without_exactly_one_port_is_reported(pci: str, message: str) -> None:
    with pytest.raises(PortNotFoundError) as caught:
        found_at(pci, "cxl0", "cxl1", parents={"cxl0": "t5nex0", "cxl1": "t5nex0"})
    assert str(caught.value).startswith(f"gw: {message}")


def test_enabled_and_disabled_options() -> None:
    """`ifconfig -a -m` lists capabilities; without them, disabled options are unknown."""
    more = "\tcapabilities=4f507bb<RXCSUM,TXCSUM,TXCSUM_IPV6,NETMAP>\n\tether 00:0d"
    text = IFCONFIG.replace("\tether 00:0d", more)
    on = "RXCSUM,TXCSUM,VLAN_MTU,VLAN_HWTAGGING,TSO4,TSO6,LRO,WOL_MAGIC"
    assert options_of(text, "igb0") == f"{on} (off: TXCSUM_IPV6,NETMAP)"
    assert options_of(IFCONFIG, "igb0") == on
    assert options_of(IFCONFIG, "vcxl0") == ""
    assert options_of(IFCONFIG, "igb9") == ""


def test_every_interface_is_parsed() -> None:
    assert parse_interfaces(IFCONFIG) == [
        Interface(
            "igb0",
            "00:0d:b9:41:ca:3c",
            "active",
            "Ethernet autoselect (1000baseT <full-duplex>)",
            mtu=1500,
        ),
        Interface(
            "vcxl0",
            "00:07:43:2e:e4:72",
            "no carrier",
            "Ethernet 10Gbase-Twinax <full-duplex,rxpause,txpause>",
            up=False,
            mtu=1500,
        ),
        Interface("lo0", "", "", "", mtu=16384),
    ]


def test_missing_port_is_reported_with_the_present_ones() -> None:
    for port, wanted in (
        (PortSelector(mac="00:00:00:00:00:01"), "with MAC 00:00:00:00:00:01"),
        (PortSelector(interface="ix0"), "called ix0"),
    ):
        with pytest.raises(PortNotFoundError) as caught:
            Inventory("gw", tuple(parse_interfaces(IFCONFIG))).find(port)
        assert str(caught.value) == (
            f"gw: no interface {wanted}; found igb0 00:0d:b9:41:ca:3c, vcxl0 00:07:43:2e:e4:72, lo0"
        )
