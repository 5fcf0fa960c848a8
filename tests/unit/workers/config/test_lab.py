"""Parsing of lab.toml and of scenario files, and messages about errors."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from netbisect.demo.lab.testbeds import TESTBEDS, lab_toml
from netbisect.workers.config.custom_measurement import HostCommand
from netbisect.workers.config.lab import Lab, load_lab
from netbisect.workers.config.scenario import builtin_scenarios, load_scenario, load_scenario_folder
from netbisect.workers.config.toml import FileError


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "config").write_text("")
    testbeds = [TESTBEDS["c2558"], TESTBEDS["e5-2650"]]
    return lab_toml(testbeds, Path("/tree.git"), tmp_path / "ssh" / "config", "GENERIC-NODEBUG")


def load(tmp_path: Path, text: str) -> Lab:
    (tmp_path / "lab.toml").write_text(text)
    return load_lab(tmp_path / "lab.toml")


def test_invalid_kernel_config_is_rejected(tmp_path: Path, text: str) -> None:
    for wrong, message in {
        "5": "expected a string or a table of strings, found a whole number",
        "{ main = 5 }": "expected a string or a table of strings",
        "{}": "kernel_config: expected a string, or at least one branch",
        '{ main = "../x" }': "'../x': expected the name of a file in sys/ARCH/conf",
    }.items():
        with pytest.raises(FileError, match=message):
            load(tmp_path, text.replace('"GENERIC-NODEBUG"', wrong, 1))


@pytest.mark.parametrize(
    ("key", "other", "named"),
    [
        ('kernel_config = "GENERIC-NODEBUG"', 'kernel_config = "GENERIC"', "kernel_config"),
        ("line_rate_pps = 1488095", "line_rate_pps = 1488096", "line_rate_pps"),
        ('scenarios = ["inet4-forwarding", ', "scenarios = [", "scenarios"),
    ],
)
def test_testbeds_of_a_group_must_be_equal(
    tmp_path: Path, text: str, key: str, other: str, named: str
) -> None:
    """The message names the testbeds and the key."""
    before, mark, rest = text.partition("[[testbeds]]")
    first = rest.partition(mark)[0].replace("owner =", 'group = "atoms"\nowner =', 1)
    second = first.replace('"c2558', '"c2558-2')
    assert key in second
    with pytest.raises(FileError) as caught:
        load(tmp_path, before + mark + first + mark + second.replace(key, other))
    message = str(caught.value)
    assert f"testbeds 'c2558' and 'c2558-2' of group 'atoms' differ in {named}: " in message
    assert message.endswith("; expected the same of all testbeds of a group")
    with pytest.raises(FileError, match=r"differ in the number of generators: 2 and 1; expected"):
        load(tmp_path, with_generators(before + mark + first + mark + second))


SECOND = """\
[[testbeds.generator]]
address = "gen2"
port = { interface = "igb4" }
dut_port = { mac = "00:08:a2:09:33:dc" }
"""


def with_generators(text: str, more: str = SECOND) -> str:
    text = text.replace("[testbeds.generator]", "[[testbeds.generator]]", 1)
    return text.replace("[testbeds.receiver]", f"{more}[testbeds.receiver]", 1)


def test_testbed_may_have_several_generators(tmp_path: Path, text: str) -> None:
    """The second generator has its own port; the third shares the first port through a switch."""
    third = '[[testbeds.generator]]\naddress = "gen2"\nport = { interface = "igb5" }\n'
    testbed = load(tmp_path, with_generators(text, SECOND + third)).testbed("c2558")
    assert [host.address for host in testbed.generators] == ["c2558-gen", "gen2", "gen2"]
    assert len(testbed.receivers) == 1
    assert testbed.wires == {
        "generator": "ingress",
        "generator 2": "ingress 2",
        "generator 3": "ingress",
        "receiver": "egress",
    }
    assert [*testbed.ports] == [*("ingress", "egress", "ingress 2"), *testbed.wires]
    assert testbed.roles["generator 3"] == "generator 3 on gen2"
    assert testbed.roles["receiver"] == "the receiver"
    assert testbed.share("ingress") == pytest.approx(2 / 3)
    assert testbed.share("ingress 2") == testbed.share("generator") == pytest.approx(1 / 3)
    assert testbed.share("egress") == testbed.share("receiver") == 1


def test_list_of_one_generator_equals_a_table(tmp_path: Path, text: str) -> None:
    listed, plain = (
        load(tmp_path, one).testbed("c2558") for one in (with_generators(text, ""), text)
    )
    assert listed.generators == plain.generators
    assert (listed.ports, listed.roles, listed.wires) == (plain.ports, plain.roles, plain.wires)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("[]", "testbeds[0]: receiver: expected a table, or at least one in the list"),
        ('"gen1"', "testbeds[0].receiver: expected a table or a list of tables, found a string"),
    ],
)
def test_testbed_needs_a_host_at_each_end(
    tmp_path: Path, text: str, wrong: str, message: str
) -> None:
    before, _, rest = text.partition("[testbeds.receiver]")
    before = before.replace("[testbeds.dut]", f"receiver = {wrong}\n[testbeds.dut]", 1)
    with pytest.raises(FileError) as caught:
        load(tmp_path, f"{before}[testbeds.power]{rest.partition('[testbeds.power]')[2]}")
    assert str(caught.value).startswith(f"{tmp_path / 'lab.toml'}: {message}")


def test_builders_build_the_modules_of_testbeds(tmp_path: Path, text: str) -> None:
    """The default has modules of firewalls, drivers and testbeds; a builder may override it."""
    text = text.replace("owner =", 'modules = ["ipmi"]\nowner =', 1)
    text = text.replace("[testbeds.dut]\n", '[testbeds.dut]\ndeploy = "bootenv"\n', 1)
    modules = load(tmp_path, text.replace('"e1000"', '"ice"')).builders[0].modules or ()
    assert {"pf", "ipfw", "hwpmc", "igb", "cxgbe", "ipmi", "zfs", "ice", "ice_ddp"} <= set(modules)
    assert len(modules) == len(set(modules))
    text = text.replace('directory = "builder"', 'directory = "builder"\nmodules = ["pf"]')
    assert load(tmp_path, text).builders[0].modules == ("pf",)
    text = text.replace('modules = ["pf"]', "modules = []")
    assert load(tmp_path, text).builders[0].modules == ()


def test_paths_are_relative_to_the_lab_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileError, match=r"ssh\.config: there is no file .*/ssh/cfg"):
        load(tmp_path, text.replace("ssh/config", "ssh/cfg", 1))
    with pytest.raises(FileError, match=r"scenario_directories: there is no folder .*/own"):
        load(tmp_path, f'scenario_directories = ["own"]\n{text}')
    text = text.replace("[source]", '[source]\nkernel_configs = "conf"', 1)
    with pytest.raises(FileError, match=r"source\.kernel_configs: there is no folder .*/conf"):
        load(tmp_path, text)
    (tmp_path / "conf").mkdir()
    assert load(tmp_path, text).source.kernel_configs == tmp_path / "conf"
    revision = "a" * 40
    overlay = f'name = "mend"\npatch = "p"\nfirst = "{revision}"\nlast = "{revision}"\n'
    text = text.replace("[[builders]]", f"[[source.overlays]]\n{overlay}[[builders]]", 1)
    with pytest.raises(FileError, match=f"source.overlays: there is no file {tmp_path / 'p'}"):
        load(tmp_path, text)
    (tmp_path / "p").touch()
    assert load(tmp_path, text).source.overlay("mend").patch == tmp_path / "p"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("owner =", "layouts = 100\nowner =", "testbeds[0]: layouts 100: expected 0 to 99"),
        ('name = "e5-2650"', 'name = "c2558"', "two testbeds are named 'c2558'"),
        ('e5-2650-dut"', 'c2558-dut"', "two testbeds have the DUT 'c2558-dut'; expected one each"),
        (
            '"e5-2650-rcv"\nport = { interface = "vcxl1" }',
            '"c2558-gen"\nport = { interface = "igb3" }',
            "two testbeds have the port igb3 of 'c2558-gen'; expected one each",
        ),
        (
            'name = "c2558"',
            'name = "C2558"',
            (
                "testbeds[0]: name 'C2558': expected lower-case letters, digits, '.', '_' or '-', "
                "at most 63"
            ),
        ),
        (
            '["inet4-forwarding"]',
            '["inet4-frowarding"]',
            "testbeds[1].scenarios: there is no scenario 'inet4-frowarding'; found "
            + ", ".join(sorted(path.stem for path in builtin_scenarios().glob("*.toml"))),
        ),
        ('["inet4-forwarding"]', "[]", "testbeds[1]: scenarios: expected at least one"),
        (
            'arch = "amd64"\nkernel_config',
            'arch = "arm64"\nkernel_config',
            "testbed 'c2558': no builder has arch 'arm64'; found amd64",
        ),
        (
            'ingress = { mac = "00:08:a2:09:33:da" }',
            'ingress = { mac = "00-08-A2-09-33-DA" }',
            (
                "testbeds[0].dut.ingress: mac '00-08-A2-09-33-DA': expected six pairs of "
                "lower-case hex digits, as 00:1b:21:c4:95:7a"
            ),
        ),
        (
            "[[builders]]",
            (
                '[[source.overlays]]\nname = "mend"\npatch = "p"\nfirst = "0a1b2c"\n'
                'last = "0a1b2c"\n[[builders]]'
            ),
            "source.overlays[0]: first '0a1b2c': expected the full hash of a commit",
        ),
        (
            'directory = "builder"',
            'directory = "builder"\nworker = "../x"',
            "builders[0]: worker '../x': expected letters, digits, '.', '_' or '-'",
        ),
        ('"e1000"', '""', "testbeds[0]: drivers: '' is no folder of sys/modules, such as if_ovpn"),
        ('"c2558-gen"', '""', "testbeds[0].generator[0]: address '': expected an ssh name"),
        ('["inet4-forwarding"]', '["x", "x"]', "testbeds[1]: two scenarios are named 'x'"),
        (
            "owner =",
            "values = { end-2 = 1 }\nowner =",
            "testbeds[0]: values: 'end-2': expected the name of a variable of sh(1)",
        ),
        ("cycle = [", "cycle = [] # [", "testbeds[0].power: cycle: expected a command"),
        ("command = [", "command = [] # [", "testbeds[0].console: command: expected a command"),
        ("poll = 0.1", "poll = 0", "testbeds[0].timing: poll: expected seconds > 0"),
        ("settle = 0.02", "settle = -1", "testbeds[0].timing: settle: expected 0 seconds or more"),
        (
            "settle = 0.02",
            "run = 10",
            (
                "testbeds[0].timing: run 10: expected 25 seconds or more: ten are trimmed, "
                "and 15 must remain"
            ),
        ),
        (
            "settle = 0.02",
            "run = 4000",
            "testbeds[0].timing: run_timeout 3600: expected more than the 4009 s of a run",
        ),
        (
            'address = "c2558-gen"\n',
            'address = "c2558-gen"\ndut_port = { interface = "igb9" }\n',
            (
                "testbeds[0]: generator.dut_port: expected none, because the first generator is "
                "connected to dut.ingress"
            ),
        ),
        (
            'address = "gen2"\nport = { interface = "igb4" }',
            'address = "c2558-gen"\nport = { interface = "igb3" }',
            (
                "testbeds[0]: generator, receiver: the port igb3 of 'c2558-gen' is listed twice; "
                "expected a different port for each host"
            ),
        ),
        (
            'port = { interface = "igb4" }',
            "port = {}",
            "testbeds[0].generator[1].port: expected one of `interface`, `mac` and `pci`",
        ),
    ],
)
def test_errors_name_the_key_and_the_expected_value(
    tmp_path: Path, text: str, right: str, wrong: str, message: str
) -> None:
    text = with_generators(text)
    assert right in text
    with pytest.raises(FileError) as caught:
        load(tmp_path, text.replace(right, wrong, 1))
    assert str(caught.value) == f"{tmp_path / 'lab.toml'}: {message}"


@pytest.mark.parametrize(
    "path", sorted(builtin_scenarios().glob("*.toml")), ids=lambda path: str(path.stem)
)
def test_builtin_scenarios_load(path: Path) -> None:
    """The name contains address family, firewall and whether the firewall is stateful."""
    scenario = load_scenario(path.stem)
    family, _, rest = path.stem.partition("-")
    if scenario.traffic:
        counts = {"states": 200_000, "routes": 61_440, "full-table": 1 << 24}
        flows = next((counts[one] for one in counts if rest.endswith(one)), 2000)
        assert (scenario.traffic.family, scenario.traffic.flows) == (family, flows)
        assert scenario.sysctls == {"net.inet.ip.redirect": 0, "net.inet6.ip6.redirect": 0}
    first = rest.partition("-")[0]
    assert scenario.firewall == (first if first in ("pf", "ipfw") else "")
    stateful = {"pf": "pass" in scenario.rules, "ipfw": "keep-state" in " ".join(scenario.rules)}
    assert stateful.get(scenario.firewall, False) == rest.endswith(("stateful", "states"))


@pytest.mark.parametrize("end", ["dut", "end"])
def test_keys_of_wireguard_belong_together(end: str) -> None:
    values = load_scenario("inet4-wireguard").values
    private = X25519PrivateKey.from_private_bytes(b64decode(values[f"{end}_key"]))
    assert b64decode(values[f"{end}_public"]) == private.public_key().public_bytes_raw()


FIREWALL = 'firewall = "pf"\nrules = ["set skip on lo0", "pass"]\n'


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('"pf"', '"ipf"', "firewall 'ipf': expected 'pf', 'ipfw' or none"),
        ('rules = ["set skip on lo0", "pass"]\n', "", "firewall and rules go together"),
        (
            "198.18.10.1:2001-198.18.10.20",
            "198.18.10.1",
            "traffic: source '198.18.10.1': expected a range such as 198.18.10.1:2001-198.18.10.20",
        ),
        (
            "198.18.10.20",
            "198.18.10.200.1",
            "traffic: source: '198.18.10.200.1' is no inet4 address",
        ),
        (
            '"inet4"',
            '"inet6"',
            (
                "traffic: source '198.18.10.1:2001-198.18.10.20': expected a range such as "
                "[2001:2::1]-[2001:2::14]"
            ),
        ),
        ("size = 60", "size = 20", "traffic: size 20: expected 46 to 1518 bytes"),
        (
            "size = 60",
            "size = 590\nmix = [[60, 7]]",
            "traffic: size 590: expected none beside the sizes of the mix",
        ),
        (
            "size = 60",
            "mix = [[60]]",
            "traffic: mix [60]: expected a size and a share above 0, such as [590, 4]",
        ),
        (
            "size = 60",
            "mix = [[60, 7], [60, 1]]",
            "traffic: mix: 60 bytes are listed twice; expected different sizes",
        ),
        (
            '"198.19.10.1:2001-198.19.10.100"\n',
            '"198.19.10.1:2001-198.19.10.100"\nmix = [[60, 7]]\n[values]\n',
            (
                "no_drop_steps 2: expected none with a mix, whose pkt-gens lose a few packets when "
                "they end"
            ),
        ),
        (
            "198.19.10.100",
            "198.19.10.10",
            "traffic: flows 2000: the ranges of source and destination make 200",
        ),
        (
            "198.18.10.1:2001-198.18.10.20",
            "198.18.10.20:2001-198.18.10.1",
            ("traffic: source '198.18.10.20:2001-198.18.10.1': expected the lower address first"),
        ),
        (
            "flows = 2000",
            "rate = -1",
            "traffic: rate -1: expected packets/s, or 0 for all the wire takes",
        ),
        (
            '"net.inet.ip.redirect" = 0',
            '"net.inet.ip.redirect; reboot" = 0',
            (
                "sysctl 'net.inet.ip.redirect; reboot': expected a name such as "
                "net.inet.ip.redirect or dev.{ingress}.fc"
            ),
        ),
        (
            '"net.inet.ip.fastforwarding" = 1',
            '"net.inet.ip.redirect" = 1',
            "net.inet.ip.redirect: expected in sysctls or in optional, not in both",
        ),
        ('name = "mine"', 'name = "other"', "name: expected 'mine', the name of the file"),
    ],
)
def test_scenario_errors(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    text = (builtin_scenarios() / "inet4-forwarding.toml").read_text()
    top = f'name = "mine"\n{FIREWALL}' + ("no_drop_steps = 2\n" if "[values]" in wrong else "")
    text = text.replace('name = "inet4-forwarding"\n', top)
    assert right in text
    (tmp_path / "mine.toml").write_text(text.replace(right, wrong, 1))
    with pytest.raises(FileError) as caught:
        load_scenario("mine", [tmp_path])
    assert str(caught.value) == f"{tmp_path / 'mine.toml'}: {message}"


def test_scenario_inherits_the_keys_of_its_base_but_no_part_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "large"\nbase = "inet4-forwarding"\n'
        '[traffic]\nsize = 1514\n[sysctls]\n"net.inet.ip.redirect" = 1\n'
    )
    base, mine = load_scenario("inet4-forwarding"), load_scenario("mine", [tmp_path])
    assert base.traffic
    assert mine == replace(
        base,
        name="mine",
        title="large",
        traffic=replace(base.traffic, size=1514),
        sysctls=base.sysctls | {"net.inet.ip.redirect": 1},
    )

    flow = (builtin_scenarios() / "tcp-one-flow.toml").read_text()
    (tmp_path / "flow.toml").write_text(flow.replace("tcp-one-flow", "flow"))
    own = f'name = "{tmp_path.name}"\ntitle = "x"\nbase = "flow"\nmeasure.on = "dut"\n'
    (tmp_path / "scenario.toml").write_text(f'{own}measure.file = "m"\n')
    (tmp_path / "m").write_text("true\n")
    base, mine = load_scenario("flow", [tmp_path]), load_scenario_folder(tmp_path, [tmp_path])
    assert mine.measure == HostCommand("dut", "true\n")
    assert (mine.prepare, mine.metrics) == (base.prepare, base.metrics)


def test_builtin_scenarios_have_builtin_bases(tmp_path: Path) -> None:
    text = 'name = "inet4-forwarding"\ntitle = "mine"\nbase = "inet6-forwarding"\n'
    (tmp_path / "inet4-forwarding.toml").write_text(text)
    assert load_scenario("inet4-590-bytes", [tmp_path]) == load_scenario("inet4-590-bytes")


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ('"nothing"', "there is no scenario 'nothing'; found "),
        ('"inet4-ipsec"', "'inet4-ipsec' has a base itself; expected a scenario without one"),
        ("5", "there is no scenario '5'; found "),
    ],
)
def test_invalid_base_is_reported(tmp_path: Path, base: str, message: str) -> None:
    place = tmp_path / "mine.toml"
    place.write_text(f'name = "mine"\ntitle = "t"\nbase = {base}\n')
    with pytest.raises(FileError, match=re.escape(f"{place}: base: {message}")):
        load_scenario("mine", [tmp_path])
