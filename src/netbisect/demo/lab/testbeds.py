"""The testbeds of the simulated lab and their two configuration files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_GIGABIT = "1000baseT <full-duplex>"
_TEN_GIGABIT = "10Gbase-T <full-duplex>"


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
    media: str
    scenarios: tuple[str, ...]
    root: str = "disk"
    """Settings of the router for the simulator."""
    server: str = ""
    """Host of the root file system of the router."""
    deploy: str = ""
    """Keys of the DUT's table for the boot method."""
    more: tuple[tuple[LinkEnd, LinkEnd], ...] = ()
    """Further generators and receivers; each pair has two more ports of the router."""

    @property
    def dut(self) -> str:
        """Name of the router."""
        return f"{self.name}-dut"

    @property
    def hosts(self) -> dict[str, list[LinkEnd]]:
        """The traffic hosts with their ports."""
        hosts: dict[str, list[LinkEnd]] = {}
        for end in itertools.chain(*self.pairs):
            hosts.setdefault(end.host, []).append(end)
        return hosts

    @property
    def pairs(self) -> tuple[tuple[LinkEnd, LinkEnd], ...]:
        """Generators and receivers."""
        return (self.generator, self.receiver), *self.more

    @property
    def machines(self) -> list[str]:
        """Names of all machines."""
        return [self.dut, *self.hosts, *([self.server] if self.server else [])]

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
    bits=1e9,
    media=_GIGABIT,
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
            bits=1e10,
            media=_TEN_GIGABIT,
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
            bits=1e10,
            media=_TEN_GIGABIT,
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
            root="network",
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


def simulator_toml(
    beds: Sequence[SimulatedTestbed], doors: Mapping[str, int], compression: float, seed: int
) -> str:
    """The configuration of the simulated lab; `doors` are TCP ports by name."""
    parts = [
        (
            'state = "machines"\nauthorized_keys = "ssh/authorized_keys"\n'
            f"switch_port = {doors['power']}\nconsole_port = {doors['console']}\n"
            f"compression = {float(compression)}\nseed = {seed}\n"
        )
    ]
    for bed in beds:
        parts.append(
            f'[[routers]]\nname = "{bed.dut}"\nport = {doors[bed.dut]}\n'
            f'profile = "{bed.profile}"\ndriver = "{bed.driver}"\n'
            f'root = "{bed.root}"\nserver = "{bed.server}"\n'
            f"ports = [{', '.join(_port(name, mac, bed.media) for name, mac in bed.ports)}]\n"
        )
        if bed.server:
            parts.append(
                f'[[hosts]]\nname = "{bed.server}"\nport = {doors[bed.server]}\nports = []\n'
            )
        for host, ends in bed.hosts.items():
            ports = ", ".join(_port(end.port, end.mac, bed.media) for end in ends)
            parts.append(f'[[hosts]]\nname = "{host}"\nport = {doors[host]}\nports = [{ports}]\n')
        parts += [
            f'[[wires]]\nrouter = "{bed.dut}"\n'
            f'generator = "{generator.host}"\ngenerator_port = "{generator.port}"\n'
            f'receiver = "{receiver.host}"\nreceiver_port = "{receiver.port}"\n'
            f"bits = {bed.bits}\ningress = {2 * number}\negress = {2 * number + 1}\n"
            for number, (generator, receiver) in enumerate(bed.pairs)
        ]
    return "\n".join(parts)


def _port(name: str, mac: str, media: str) -> str:
    return f'{{ name = "{name}", mac = "{mac}", media = "{media}" }}'


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
poll = 0.05
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
    parts = [_HEAD.format(repository=_text(str(repository)))]
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
