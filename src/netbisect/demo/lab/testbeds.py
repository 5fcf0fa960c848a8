"""The testbeds of the simulated lab, and their lab file for netbisect."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

_GIGABIT = 1e9


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A network port."""

    name: str
    mac: str
    media: str

    @property
    def driver(self) -> str:
        """The letters of the port name."""
        return self.name.rstrip("0123456789")

    @property
    def device(self) -> str:
        """The name in sysctl(8), such as `igb.2`."""
        return f"{self.driver}.{self.name.removeprefix(self.driver)}"


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """A netmap port of a host."""

    host: str
    port: str
    mac: str


@dataclass(frozen=True, slots=True)
class SimulatedTestbed:
    """A testbed, for the simulator and for netbisect."""

    name: str
    description: str
    profile: str
    driver: str
    drivers: tuple[str, ...]
    """Folders and names of the drivers of the data ports."""
    ports: tuple[tuple[str, str], ...]
    """Name and MAC address of the ports of the router: ingress, egress, and those of `more`."""
    generator: LinkEnd
    receiver: LinkEnd
    bits: float
    """Bits per second of the links."""
    scenarios: tuple[str, ...]
    root: Literal["disk", "zfs", "partitions"] = "disk"
    """Root file system of the router: disk, zfs, or two partitions."""
    server: str = ""
    """Host of the root file system, if the router boots over the network."""
    deploy: str = ""
    """Keys of the DUT's table for the boot method."""
    more: tuple[tuple[LinkEnd, LinkEnd], ...] = ()
    """Further generators and receivers; each pair has two more ports of the router."""

    @property
    def dut(self) -> str:
        """Name of the router."""
        return f"{self.name}-dut"

    @property
    def router_ports(self) -> list[PortConfig]:
        """The ports of the router."""
        return [PortConfig(name, mac, self.media) for name, mac in self.ports]

    @property
    def hosts(self) -> dict[str, list[PortConfig]]:
        """The other machines with their ports."""
        hosts: dict[str, list[PortConfig]] = {self.server: []} if self.server else {}
        for end in itertools.chain(*self.pairs):
            hosts.setdefault(end.host, []).append(PortConfig(end.port, end.mac, self.media))
        return hosts

    @property
    def media(self) -> str:
        """Media of all ports."""
        return f"{'1000base' if self.bits == _GIGABIT else '10Gbase-'}T <full-duplex>"

    @property
    def pairs(self) -> tuple[tuple[LinkEnd, LinkEnd], ...]:
        """Generators and receivers."""
        return (self.generator, self.receiver), *self.more

    @property
    def machines(self) -> list[str]:
        """Names of all machines."""
        return [self.dut, *self.hosts]

    def roots(self, machines: Path) -> list[Path]:
        """The root file systems of the router, each with a known-good kernel."""
        if self.server:
            return [machines / self.server / "disk" / "roots" / self.dut]
        disk = machines / self.dut / "disk"
        return [disk, machines / self.dut / "upgrade"] if self.root == "partitions" else [disk]

    @property
    def line_rate_pps(self) -> int:
        """Line rate of the generators' links in 60-byte packets per second."""
        return int(self.bits / 672) * len(self.pairs)


_C2558 = SimulatedTestbed(
    name="c2558",
    description="Atom C2558, 4 cores, Intel i350",
    profile="C2558-i350",
    driver="igb",
    drivers=("e1000", "igb"),
    ports=(("igb2", "00:08:a2:09:33:da"), ("igb3", "00:08:a2:09:33:db")),
    generator=LinkEnd("c2558-gen", "igb2", "00:1b:21:c4:95:7a"),
    receiver=LinkEnd("c2558-gen", "igb3", "00:1b:21:c4:95:7b"),
    bits=_GIGABIT,
    scenarios=("inet4-forwarding", "inet6-forwarding", "inet4-pf-stateful", "inet4-ipfw-stateful"),
)


def _like_c2558(name: str, description: str, ports: str, macs: str) -> SimulatedTestbed:
    """A testbed of the same kind; ports and MACs are ingress, egress, generator, receiver."""
    ingress, egress, generator, receiver = zip(ports.split(), macs.split(), strict=True)
    return replace(
        _C2558,
        name=name,
        description=description,
        ports=(ingress, egress),
        generator=LinkEnd(f"{name}-gen", *generator),
        receiver=LinkEnd(f"{name}-gen", *receiver),
        scenarios=("inet4-forwarding",),
    )


TESTBEDS: dict[str, SimulatedTestbed] = {
    bed.name: bed
    for bed in (
        _C2558,
        SimulatedTestbed(
            name="e5-2650",
            description="Xeon E5-2650, 8 cores, Chelsio T540-CR",
            profile="E5-2650-T540",
            driver="cxgbe",
            drivers=("cxgbe",),
            ports=(("cxl0", "00:07:43:2e:e5:92"), ("cxl1", "00:07:43:2e:e5:9a")),
            generator=LinkEnd("e5-2650-gen", "vcxl0", "00:07:43:2e:e4:72"),
            receiver=LinkEnd("e5-2650-rcv", "vcxl1", "00:07:43:2e:e4:7a"),
            bits=10 * _GIGABIT,
            scenarios=("inet4-forwarding",),
        ),
        SimulatedTestbed(
            name="l5630",
            description="Xeon L5630, 4 cores, Intel 82599EB",
            profile="L5630-82599",
            driver="ix",
            drivers=("ixgbe", "ix"),
            ports=(("ix0", "00:1b:21:d3:8f:3e"), ("ix1", "00:1b:21:d3:8f:3f")),
            generator=LinkEnd("l5630-gen", "ix0", "00:1b:21:d4:0a:10"),
            receiver=LinkEnd("l5630-gen", "ix1", "00:1b:21:d4:0a:11"),
            bits=10 * _GIGABIT,
            scenarios=("inet4-forwarding",),
        ),
        replace(
            _like_c2558(
                "apu2",
                "GX-412TC, 4 cores, Intel i210, two NanoBSD partitions",
                "igb1 igb2 igb2 igb3",
                "00:0d:b9:41:ca:3d 00:0d:b9:41:ca:3e 00:1b:21:c4:95:9a 00:1b:21:c4:95:9b",
            ),
            root="partitions",
            deploy='deploy = "nanobsd"\nnanobsd = { good = "BSDRP1", test = "BSDRP2" }\n',
        ),
        replace(
            _like_c2558(
                "atom-zfs",
                "Atom C2558, 4 cores, Intel i350, root on ZFS",
                "igb0 igb1 igb2 igb3",
                "00:08:a2:09:33:ea 00:08:a2:09:33:eb 00:1b:21:c4:95:ba 00:1b:21:c4:95:bb",
            ),
            root="zfs",
            deploy='deploy = "nextboot-zfs"\n',
        ),
        replace(
            _like_c2558(
                "atom-be",
                "Atom C2558, 4 cores, Intel i350, boot environments",
                "igb0 igb1 igb2 igb3",
                "00:08:a2:09:33:fa 00:08:a2:09:33:fb 00:1b:21:c4:95:ca 00:1b:21:c4:95:cb",
            ),
            root="zfs",
            deploy='deploy = "bootenv"\n',
        ),
        replace(
            _like_c2558(
                "d1518",
                "Xeon D-1518, 4 cores, Intel i350, root over NFS",
                "igb0 igb1 igb2 igb3",
                "00:25:90:fb:1e:10 00:25:90:fb:1e:11 00:1b:21:c4:95:aa 00:1b:21:c4:95:ab",
            ),
            server="boot-server",
            deploy='deploy = "pxe"\npxe = { server = "boot-server", root = "/roots/d1518-dut" }\n',
        ),
    )
}


def copies(bed: SimulatedTestbed, number: int) -> list[SimulatedTestbed]:
    """Copies of a testbed with separate machines."""
    return [
        replace(
            bed,
            name=f"{bed.name}-{copy}",
            generator=replace(bed.generator, host=f"{bed.generator.host}-{copy}"),
            receiver=replace(bed.receiver, host=f"{bed.receiver.host}-{copy}"),
        )
        for copy in range(1, number + 1)
    ]


def _text(value: object) -> str:
    """A TOML value."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_text, value))}]"
    return json.dumps(value, ensure_ascii=False)


_HEAD = """\
kernels = "kernels"

[source]
repository = {repository}

[ssh]
config = "ssh/config"
connect_timeout = 5

[[builders]]
name = "amd64"
arch = "amd64"
directory = "builder"
options = [{python}]
build_timeout = 120
"""
_BED = """\
[[testbeds]]
name = "{name}"
description = "{description}"
arch = "amd64"
kernel_config = "{kernel_config}"
drivers = {drivers}
line_rate_pps = {line_rate_pps}
scenarios = {scenarios}
owner = "lab@netbisect.invalid"

[testbeds.dut]
address = "{dut}"
ingress = {{ mac = "{ingress}" }}
egress = {{ mac = "{egress}" }}
{deploy}
{hosts}
[testbeds.power]
cycle = {cycle}

[testbeds.console]
command = {attach}

[testbeds.timing]
boot_timeout = 15.0
poll = 0.1
settle = 0.02
run_timeout = 3600.0
pause = 0.1
"""


def _hosts(bed: SimulatedTestbed) -> Iterator[str]:
    """The tables of the traffic hosts; a list of tables if there are several."""
    for side, end in enumerate(("generator", "receiver")):
        head = f"[testbeds.{end}]" if not bed.more else f"[[testbeds.{end}]]"
        for number, pair in enumerate(bed.pairs):
            one, (_, mac) = pair[side], bed.ports[2 * number + side]
            yield f'{head}\naddress = "{one.host}"\nport = {{ interface = "{one.port}" }}\n'
            if number:
                yield f'dut_port = {{ mac = "{mac}" }}\n'


def lab_toml(
    beds: Sequence[SimulatedTestbed], repository: Path, ssh_config: Path, kernel_config: str
) -> str:
    """The lab file for netbisect."""
    python = f"PYTHON={shlex.quote(sys.executable)}"
    parts = [_HEAD.format(repository=_text(str(repository)), python=_text(python))]
    ssh = ["ssh", "-F", str(ssh_config), "-T"]
    parts += [
        _BED.format(
            name=bed.name,
            description=bed.description,
            kernel_config=kernel_config,
            drivers=_text(bed.drivers),
            line_rate_pps=bed.line_rate_pps,
            scenarios=_text(bed.scenarios),
            dut=bed.dut,
            deploy=bed.deploy,
            ingress=bed.ports[0][1],
            egress=bed.ports[1][1],
            hosts="\n".join(_hosts(bed)),
            cycle=_text([*ssh, "power", "cycle", bed.dut]),
            attach=_text([*ssh, "console", "attach", bed.dut]),
        )
        for bed in beds
    ]
    return "\n".join(parts)
