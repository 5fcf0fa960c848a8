"""Finding interfaces in what ifconfig(8) prints."""

from __future__ import annotations

import pytest

from netbisect.workers.lab import Port
from netbisect.workers.ports import Interface, NoPortError, find, interfaces

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


def test_every_interface_is_read() -> None:
    assert interfaces(IFCONFIG) == [
        Interface(
            "igb0", "00:0d:b9:41:ca:3c", "active", "Ethernet autoselect (1000baseT <full-duplex>)"
        ),
        Interface(
            "vcxl0",
            "00:07:43:2e:e4:72",
            "no carrier",
            "Ethernet 10Gbase-Twinax <full-duplex,rxpause,txpause>",
            up=False,
        ),
        Interface("lo0", "", "", ""),
    ]


def test_a_mac_finds_a_port_whatever_its_name() -> None:
    """A conversion of em(4) to iflib renamed ports; their addresses stayed."""
    renamed = IFCONFIG.replace("igb0", "em0")
    assert find(Port(interface="igb0", mac="00:0d:b9:41:ca:3c"), renamed).name == "em0"


def test_a_name_finds_a_port_without_a_mac() -> None:
    assert find(Port(interface="vcxl0"), IFCONFIG).mac == "00:07:43:2e:e4:72"


@pytest.mark.parametrize(
    ("port", "wanted"),
    [
        (Port(mac="00:00:00:00:00:01"), "with MAC 00:00:00:00:00:01"),
        (Port(interface="ix0"), "called ix0"),
    ],
)
def test_a_port_that_is_not_there_is_told_with_those_that_are(port: Port, wanted: str) -> None:
    with pytest.raises(NoPortError) as caught:
        find(port, IFCONFIG)
    assert str(caught.value) == (
        f"no interface {wanted}; there is igb0 00:0d:b9:41:ca:3c, vcxl0 00:07:43:2e:e4:72, lo0"
    )


def test_no_output_has_no_ports() -> None:
    with pytest.raises(NoPortError, match="there is none"):
        find(Port(interface="igb0"), "")
