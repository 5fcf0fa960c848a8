"""Checks of `netbisect-lab doctor`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from lab_fixtures import RunningLab

from netbisect.workers.config.builder import Builder, Source
from netbisect.workers.config.dut import PortSelector
from netbisect.workers.config.lab import Lab
from netbisect.workers.config.scenario import builtin_scenarios, load_scenario
from netbisect.workers.config.testbed import Console, Power
from netbisect.workers.doctor import checks as checkup
from netbisect.workers.doctor.checks import DoctorCheck
from netbisect.workers.doctor.doctor import examine
from netbisect.workers.dut.ports import Interface


def checks(
    lab: Lab, testbed: str = "", *, rates: bool = False
) -> dict[tuple[str, str], DoctorCheck]:
    found = examine(lab, testbed=testbed, rates=rates)
    return {(check.where, check.what): check for check in found}


def test_a_working_lab_has_no_faults(running_lab: RunningLab) -> None:
    """The checks include tree, builder, routers, ports, routes, hosts, power and console."""
    found = checks(running_lab.lab)
    assert [key for key, check in found.items() if not check.good] == []
    assert list(found)[:3] == [("source", "branches"), ("amd64", "make"), ("amd64", "disk")]
    assert [what for where, what in found if where == "e5-2650"] == [
        *("dut e5-2650-dut", "ingress e5-2650-dut", "egress e5-2650-dut"),
        *("generator e5-2650-gen", "receiver e5-2650-rcv"),
        *("release of the dut", "clock of the dut", "known-good kernel", "room in /boot"),
        *("boot method", "forwarding inet4", "after a panic", "sysctls of scenarios"),
        *("routes through ingress", "routes through egress"),
        *("static entries on ingress", "static entries on egress"),
        *("release of e5-2650-gen", "clock of e5-2650-gen", "pkt-gen on e5-2650-gen"),
        *("release of e5-2650-rcv", "clock of e5-2650-rcv", "pkt-gen on e5-2650-rcv"),
        *("power", "console"),
    ]
    assert found["source", "branches"].found == "main"
    assert found["c2558", "receiver c2558-gen"].found == ("igb3 00:1b:21:c4:95:7b active, 1 Gbit/s")
    assert "forwarding inet6" in {what for where, what in found if where == "c2558"}
    assert found["c2558", "routes through egress"].found == (
        "198.19.10.1 on igb3 by 198.19.0.1; 198.19.10.100 on igb3 by 198.19.0.1; "
        "2001:2:0:8010::1 on igb3 by 2001:2:0:8000::2; "
        "2001:2:0:8010::64 on igb3 by 2001:2:0:8000::2"
    )


def test_missing_parts_of_a_testbed_are_reported(running_lab: RunningLab) -> None:
    """One testbed has no such port, switch or console; the other ones lack the programs."""
    first, second = running_lab.lab.testbeds
    port = PortSelector(interface="ix7")
    first = replace(first, power=None, console=None, dut=replace(first.dut, ingress=port))
    second = replace(
        second,
        power=Power(("ipmi-of-nowhere", "cycle")),
        console=Console(("conserver-of-nowhere",)),
        line_rate_pps=148_809_524,
    )
    found = checks(replace(running_lab.lab, testbeds=(first, second)))
    ports = "c2558-dut: no interface called ix7; found igb2 00:08:a2:09:33:da, igb3 "
    for where, what, message in (
        ("c2558", "ingress c2558-dut", ports),
        ("c2558", "power", "the lab file names no switch"),
        ("c2558", "console", "the lab file names no console"),
        ("e5-2650", "power", "no ipmi-of-nowhere on this host"),
        ("e5-2650", "console", "no conserver-of-nowhere on this host"),
    ):
        check = found[where, what]
        assert not check.good
        assert check.found.startswith(message)
    assert found["e5-2650", "egress e5-2650-dut"].found.endswith(
        "10 Gbit/s: 14,880,952 pps fit, line_rate_pps is 148,809,524"
    )


def test_a_builder_that_cross_builds_needs_its_compiler(
    running_lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bootstrap also needs tools and headers; a missing tree is reported."""
    builder = Builder("b", "amd64", tmp_path / "b", cross_bindir=tmp_path)
    lab = replace(running_lab.lab, builders=(builder,), source=Source(str(tmp_path / "none.git")))
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("netbisect.workers.doctor.doctor._HEADERS", (tmp_path,))
    which, absent = shutil.which, {"flex"}

    def found_as(name: str) -> str | None:
        return which(name) if "/" in name else None if name in absent else f"/bin/{name}"

    monkeypatch.setattr("shutil.which", found_as)
    found = checks(lab)
    assert not found["source", "repository"].good
    assert "none.git" in found["source", "repository"].found
    assert found["b", "make"].found == "tools/build/make.py comes with the tree"
    for what in ("compiler", "linker", "tools of the bootstrap"):
        assert not found["b", what].good
    missing = "no flex, archive.h, bzlib.h: install bison flex bc "
    assert found["b", "tools of the bootstrap"].found.startswith(missing)

    for tool in ("clang", "ld.lld", "archive.h", "bzlib.h"):
        (tmp_path / tool).touch(mode=0o755)
    (tmp_path / "b" / "source").mkdir(parents=True)
    absent.clear()
    found = checks(lab)
    for what in ("compiler", "linker", "tools of the bootstrap"):
        assert found["b", what].good
    assert found["b", "make"].found == f"no {tmp_path}/b/source/tools/build/make.py"


def test_rates_are_measured_on_request(c2558: RunningLab) -> None:
    """The measured rate is compared with the line rate of the lab file."""
    found = checks(c2558.lab, "c2558", rates=True)["c2558", "rates"]
    assert found.good
    assert "pps offered" in found.found
    c2558.control("break", "c2558-gen", "slow-sender")
    found = checks(c2558.lab, "c2558", rates=True)["c2558", "rates"]
    assert not found.good
    assert found.found.endswith("c2558 must offer 1,488,095")


def test_options_and_sysctls_unknown_to_the_lab_are_reported(
    running_lab: RunningLab, tmp_path: Path
) -> None:
    """The check names host and scenario; enabled redirects are accepted in sysctls of names."""
    name = "inet4-checksums"
    text = (builtin_scenarios() / "inet4-forwarding.toml").read_text()
    text = text.replace("inet4-forwarding", name)
    text = text.replace("[traffic]", "[traffic]\nchecksums = true")
    (tmp_path / f"{name}.toml").write_text(text)
    wrong = "sysctl:net.nothing=1,sysctl:dev.{ingress}.nothing=1"
    accepted = "inet6-forwarding@sysctl:net.inet6.ip6.redirect=1"
    metrics = '[{ name = "t", unit = "us", better = "lower" }]'  # without packets
    own = f'title = "own"\nmetrics = {metrics}\nmeasure = {{ on = "dut", run = "true" }}\n'
    (tmp_path / "own.toml").write_text(f'name = "own"\n{own}')
    names = ("inet4-forwarding", name, accepted, f"inet4-forwarding@{wrong}", "own")
    testbed = replace(running_lab.lab.testbed("c2558"), scenarios=names)
    lab = replace(running_lab.lab, testbeds=(testbed,), scenario_directories=(tmp_path,))
    bad = {what: check.found for (_, what), check in checks(lab, "c2558").items() if not check.good}
    assert bad == {
        "pkt-gen on c2558-gen": "/usr/local/bin/pkt-gen: no option -U for inet4-checksums; "
        "-U is `checksums` in [traffic]",
        "sysctls of scenarios": "net.nothing, dev.igb.2.nothing: unknown to the running kernel",
    }


def test_routes_of_a_scenario_are_not_checked() -> None:
    addresses = {end for _, _, end in checkup.ends([load_scenario("inet4-full-table")])}
    assert addresses == {"198.18.10.1"}


def test_boot_needs_space() -> None:
    """There must be space for two kernels, besides the good one."""
    df = "Filesystem 1024-blocks Used Avail Capacity Mounted on\n/dev/x 100 50 {} 50% /\n"
    du = "40000\t/boot/kernel\n"
    found = dict(checkup.room(df.format(90_000), du, "kernel"))
    assert found["room in /boot"].good
    assert found["known-good kernel"].found == "/boot/kernel, 39 MiB"
    found = dict(checkup.room(df.format(70_000), du, "kernel"))
    assert found["room in /boot"].found == "68 MiB free, 78 are needed"
    found = dict(checkup.room("", "", "kernel.good"))
    assert found["known-good kernel"].found == "there is no /boot/kernel.good"
    assert not found["room in /boot"].good


def test_boot_needs_a_method_that_fits_the_root(running_lab: RunningLab) -> None:
    testbed = running_lab.lab.testbed("c2558")
    testbed = replace(testbed, dut=replace(testbed.dut, deploy="bootenv"))
    found = checks(replace(running_lab.lab, testbeds=(testbed,)), "c2558")["c2558", "boot method"]
    assert not found.good
    assert found.found.startswith("deploy = 'bootenv', but the DUT has its root on ufs:/dev/")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("ice0", {"dev.ice.0.fc": "Full"}, "flow control is on (dev.ice.0.fc=Full); expected off"),
        ("ice0", {"dev.ice.0.fc": "None"}, ""),
        ("igc1", {"dev.igc.1.fc": "1"}, "flow control is on (dev.igc.1.fc=1); expected off"),
        ("cxl1", {"dev.cxl.1.pause_settings": "7<PAUSE_RX,PAUSE_TX,PAUSE_AUTONEG>"}, "is on"),
        ("cxl1", {"dev.cxl.1.pause_settings": "0"}, ""),
        (
            "mce0",
            {"dev.mce.0.rx_pauseframe_control": "1", "dev.mce.0.tx_pauseframe_control": "0"},
            "(dev.mce.0.rx_pauseframe_control=1); expected off in loader.conf",
        ),
        ("vtnet0", {}, ""),
        ("re0", {}, "its driver is unknown, so neither flow control nor CRC errors are looked at"),
    ],
)
def test_flow_control_is_checked_for_each_driver(
    name: str, values: dict[str, str], message: str
) -> None:
    found = checkup.link(Interface(name, "", "active", ""), values, 1)
    assert found.good is (message == "")
    assert message in found.found
    # ifconfig(8) adds the reason of the driver: SIOCGIFDOWNREASON, of mlx5en(4) for one.
    for status in ("no carrier", "no carrier (Cable is unplugged.)"):
        found = checkup.link(Interface(name, "", status, ""), values, 1)
        assert found == (False, f"{name} {status}")


@pytest.mark.parametrize(
    ("release", "family", "names"),
    [
        ("12.4-RELEASE", "inet4", ["redirects inet4"]),
        ("13.2-RELEASE", "inet4", []),
        ("15.0-CURRENT", "inet6", ["redirects inet6"]),
        ("", "inet4", ["redirects inet4"]),
    ],
)
def test_redirects_are_checked_where_they_end_the_fast_path(
    release: str, family: str, names: list[str]
) -> None:
    tree = {"inet4": "net.inet.ip", "inet6": "net.inet6.ip6"}[family]
    values = {f"{tree}.forwarding": "1", f"{tree}.redirect": "1"}
    scenario = replace(load_scenario(f"{family}-forwarding"), sysctls={})
    found = checkup.settings(values, [scenario], release)
    assert [what for what, check in found if not check.good] == names


def test_wrong_routes_are_reported() -> None:
    text = "   route to: 198.19.10.1\ndestination: {}\n    gateway: 10.0.0.1\n  interface: {}\n"
    text += "      flags: <UP,GATEWAY,DONE,STATIC>\n"
    for output, found in {
        "": "198.19.10.1: no route",
        text.format("default", "igb1"): "198.19.10.1 on igb1 by 10.0.0.1, but by the default route",
        text.format("198.19.0.0", "igb0"): "198.19.10.1 on igb0 by 10.0.0.1; expected on igb1",
    }.items():
        finding, _, follows = checkup.route(output, "198.19.10.1", ["igb1"])
        assert not finding.good
        assert finding.found.startswith(found)
        assert follows == ""
    direct = text.replace("GATEWAY,", "").format("198.19.0.0", "igb1")
    finding, through, follows = checkup.route(direct, "198.19.10.1", ["igb1"])
    assert (finding.good, through, follows) == (True, "igb1", "198.19.10.1")


def test_dynamic_neighbour_entries_are_reported() -> None:
    entry = "? (198.19.0.2) at 00:1b:21:c4:95:7b on igb3 {} [ethernet]\n"
    learned = checkup.neighbour(entry.format("expires in 900 seconds"), "198.19.0.2", [])
    assert learned.found == "198.19.0.2: no static entry; it would be asked for under load"
    other = checkup.neighbour(entry.format("permanent"), "198.19.0.2", ["00:1b:21:c4:95:7c"])
    assert other.found == "198.19.0.2 is 00:1b:21:c4:95:7b; the port there has 00:1b:21:c4:95:7c"
    assert checkup.neighbour(entry.format("permanent"), "198.19.0.2", []).good


def test_a_host_without_netmap_is_reported() -> None:
    path, absent = "/usr/bin/pkt-gen", "there is no pkt-gen; it is in FreeBSD's port net/pkt-gen"
    for program, admode, message in (
        ("pkt-gen: Command not found.\n", "0", absent),
        (path, None, f"{path}, but the kernel has no netmap"),
        (path, "2", "dev.netmap.admode=2: netmap is emulated, which is slow"),
    ):
        finding = checkup.netmap(program, admode)
        assert not finding.good
        assert finding.found.startswith(message)
    usage = checkup.pkt_gen_options(path, "Segmentation fault\n", {})
    text = f"{path} -h prints no usage text; its last line: Segmentation fault"
    assert (usage.good, usage.found) == (False, text)
