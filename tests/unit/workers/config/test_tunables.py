"""Tunables and sysctls in names of scenarios, and scenarios that share a boot."""

from __future__ import annotations

import pytest

from netbisect.workers.config.scenario import by_tunables, load_scenario
from netbisect.workers.config.toml import FileError
from netbisect.workers.config.tunables import check_tunables, parse_settings

FORWARDING = "inet4-forwarding"


def test_name_of_a_scenario_may_have_tunables() -> None:
    """The tunables are in the title; all other keys come from the file."""
    found = load_scenario(f"{FORWARDING}@hw.ix.num_queues=4,net.isr.maxthreads=-1")
    plain = load_scenario(FORWARDING)
    assert found.tunables == {"hw.ix.num_queues": "4", "net.isr.maxthreads": "-1"}
    assert found.title == f"{plain.title}, hw.ix.num_queues=4, net.isr.maxthreads=-1"
    assert (found.traffic, found.sysctls) == (plain.traffic, plain.sysctls)


@pytest.mark.parametrize("name", [f"{FORWARDING}@", f"{FORWARDING}@x=1", f"{FORWARDING}@a.b=c d"])
def test_invalid_tunable_is_reported_with_the_scenario(name: str) -> None:
    with pytest.raises(FileError, match=r"scenario 'inet4-forwarding@.*expected"):
        load_scenario(name)


def test_scenarios_are_grouped_by_tunables() -> None:
    """Scenarios without tunables come first."""
    names = ("inet4-forwarding@hw.a=4", FORWARDING, "inet6-forwarding@hw.a=4", "inet6-forwarding")
    groups = by_tunables(map(load_scenario, names))
    assert [[one.name for one in group] for group in groups] == [
        [names[1], names[3]],
        [names[0], names[2]],
    ]


@pytest.mark.parametrize(
    "name", ["netbisect.order", "vfs.root.mountfrom", "debug.debugger_on_panic", "kernel", "a.b c"]
)
def test_reserved_and_invalid_tunables_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="tunable"):
        check_tunables({name: 1})


def test_settings_are_sorted() -> None:
    text = "hw.b=1,sysctl:net.d=3,hw.a=2,sysctl:net.c=4"
    assert parse_settings(text).text == "hw.a=2,hw.b=1,sysctl:net.c=4,sysctl:net.d=3"


def test_sysctls_of_the_name_replace_those_of_the_file() -> None:
    """Sysctls are set after the boot, so that scenarios with different sysctls share a boot."""
    plain = load_scenario("inet6-forwarding")
    found = load_scenario(
        "inet6-forwarding@sysctl:net.inet6.ip6.redirect=1,sysctl:dev.{ingress}.fc=3"
    )
    assert plain.sysctls["net.inet6.ip6.redirect"] == 0
    assert plain.optional["dev.{ingress}.fc"] == 0
    assert found.sysctls["net.inet6.ip6.redirect"] == "1"
    assert found.sysctls["dev.{ingress}.fc"] == "3"
    assert "dev.{ingress}.fc" not in found.optional
    assert found.optional.keys() < plain.optional.keys()
    assert found.title == f"{plain.title}, dev.{{ingress}}.fc=3, net.inet6.ip6.redirect=1"
    assert found.tunables == {}
    assert by_tunables([plain, found]) == [[plain, found]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sysctl:net.a", "sysctl 'net.a': expected NAME=VALUE"),
        ("sysctl:net.a=1,sysctl:net.a=2", "sysctl 'net.a': expected once"),
        (
            "sysctl:kern.securelevel=3",
            "sysctl 'kern.securelevel': expected a name that begins with",
        ),
        ("sysctl:net.a b=1", "sysctl 'net.a b': expected a name"),
        ("sysctl:net.a=1 2", "sysctl net.a: '1 2': expected a number"),
    ],
)
def test_invalid_sysctls_are_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="sysctl") as error:
        parse_settings(text)
    assert str(error.value).startswith(message)
