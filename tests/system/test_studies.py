"""Published studies, requested from a service that replays their measurements."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from played_lab import PlayedService, build

SHARED = Path(__file__).resolve().parents[3] / "shared" / "netbenches"
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not (SHARED / "histories.jsonl").is_file(), reason=f"no measurements in {SHARED}"
    ),
]

FORWARDING, PF, IPFW = "inet4-forwarding", "inet4-pf-stateful", "inet4-ipfw-stateful"
COMMITS = {
    "main": (295150, 311848, 311849, 312904, 312905, 313448),
    "stable/10": (295802,),
    "stable/11": (320896, 320897),
}


def recorded(directory: str, config: str) -> dict[str, list[float]]:
    """Recorded rates of the boots by image."""
    for line in (SHARED / "histories.jsonl").read_text().splitlines():
        one = json.loads(line)
        if (one["dir"], one["pktgen"], one["cfg"]) == (directory, "", config):
            return {point["image"]: point["v"] for point in one["points"]}
    raise AssertionError(f"there is no {directory} {config}")


@pytest.fixture
def service(tmp_path: Path, reviews: str) -> PlayedService:
    return build(tmp_path, reviews, COMMITS)


def published(text: str) -> list[float]:
    """The proven differences of a README's ministat blocks, in percent."""
    found = re.findall(r"^\s+(-?\d+\.\d{3,})% \+/- ", text, re.MULTILINE)
    return [round(float(one), 2) for one in found]


def unproven(text: str) -> int:
    """Number of ministat blocks without a proven difference."""
    return len(re.findall(r"^No difference proven at", text, re.MULTILINE))


@pytest.mark.long
def test_comparison_with_a_patch_is_repeated(service: PlayedService) -> None:
    """D5180 on r295150, named first: forwarding is unchanged, pf and ipfw are slower twice."""
    place = "Xeon_L5630_4Cores/Intel_82599EB/firewalls/results/fbsd11-head.r295150.mbuf"
    configs = {FORWARDING: "fastforwarding", PF: "pf-statefull", IPFW: "ipfw-statefull"}
    for scenario, config in configs.items():
        both = [recorded(f"{place}{run}", config=config) for run in ("", ".second")]
        for image, name in (("295150", "295150"), ("295150mbuf", "D5180")):
            service.play("l5630", scenario, name, [*both[0][image], *both[1][image]])
    scenarios = [f"--scenario={one}" for one in configs]
    service.images = _Patched("295150", "D5180")
    pair, repeat = ("r295150+D5180", "r295150"), ("--boots", "10", "--repeat")
    service.request("compare", *pair, "--testbed", "l5630", *scenarios, *repeat)
    service.run()
    first, second = (service.readme(1, f"l5630-{run}") for run in (1, 2))

    assert published(first) == [-1.54, -3.30]
    assert published(second) == [-1.41, -3.19]
    assert unproven(first) == unproven(second) == 1
    shown = service.show(1)
    assert shown["state"] == "answered"
    assert [one["consistent"] for one in shown["repeats"]] == [True, True, True]
    # Images of the same code differ by about 1 %, so that the difference may not be the code.
    assert shown["verdict"] == "inconclusive"
    assert "do not show whether their code or only their images are the cause" in shown["sentence"]
    page = service.page(1)
    for text in (first, second, page):
        assert re.search(r"differ in .*: -3\.\d % \(-\d\.\d to -\d\.\d\); the effect of the", text)
        assert "Images of the same code differ" in text
    for name in re.findall(r'href="reports/(request-1/[^"]*)"', page):
        assert (service.settings.reports / unquote(name)).is_file()


@pytest.mark.long
def test_two_revisions_are_requested_with_and_without_settings(service: PlayedService) -> None:
    """The result has a table and a plot for revisions and for settings on the same kernel."""
    setting = "sysctl:net.inet.ip.redirect=1"
    service.images = {"295150": "a", "320897": "b"}
    for image, level in (("a", 1_000_000), ("b", 900_000)):
        boots = [level * one for one in (1.0, 1.02, 0.99, 1.01, 0.98)]
        service.play("l5630", FORWARDING, image, boots)
        service.play("l5630", f"{FORWARDING}@{setting}", image, [0.95 * one for one in boots])
    service.request(
        *("compare", "r295150", "r320897", "--testbed", "l5630", "--boots", "5"),
        *("--scenario", FORWARDING, "--sysctl", "net.inet.ip.redirect=1"),
    )
    service.run()
    document = service.show(1)
    page = service.page(1)
    readme = service.readme(1, "l5630-1")

    assert [(one["setting"], one["subject"]) for one in document["settings"]] == [
        (setting, label) for label in document["labels"]
    ]
    for one in document["settings"]:
        assert one["difference"]["percent"] == pytest.approx(-5.0)
        assert one["difference"]["percent_high"] < -4.8
    assert len(document["differences"]) == 2
    assert "<title>Effects of the revisions</title>" in re.sub(r' id="[^"]*"', "", page)
    assert "<title>Effects of the settings</title>" in re.sub(r' id="[^"]*"', "", page)
    assert '<h2 id="settings">Settings</h2>' in page
    assert f"On settings of inet4 forwarding at {document['labels'][1]}:" in readme


def test_settings_of_one_revision_are_requested(service: PlayedService) -> None:
    service.images = {"295150": "a"}
    boots = [1e6, 1.02e6, 0.99e6]
    for setting, factor in (("", 1.0), ("@hw.igb.num_queues=1", 0.5), ("@sysctl:net.a=1", 1.0)):
        service.play("l5630", f"{FORWARDING}{setting}", "a", [factor * one for one in boots])
    service.request(
        *("series", "r295150", "--testbed", "l5630", "--scenario", FORWARDING, "--boots", "3"),
        *("--tunable", "hw.igb.num_queues=1", "--sysctl", "net.a=1"),
    )
    service.run()
    document = service.show(1)
    [label] = document["labels"]

    assert (document["state"], document["status"]) == ("answered", 0)
    assert document["sentence"] == "The settings of one kernel are compared."
    assert [one["difference"]["percent"] for one in document["settings"]] == [
        pytest.approx(-50.0),
        pytest.approx(0.0),
    ]
    page = service.page(1)
    assert "hw.igb.num_queues=1" in page
    assert service.readme(1, "l5630-1").startswith(f"Settings of {label} on l5630\n")
    assert "expected 2 to 7 revisions or patches, or one with settings" in service.refused(
        "series", "r295150", "--testbed", "l5630"
    )


class _Patched(dict[str, str]):
    """All patches of this commit have the same image."""

    def __init__(self, commit: str, name: str) -> None:
        super().__init__()
        self._commit, self._name = commit, name

    def get(self, key: str, default: Any = None) -> Any:
        return self._name if key.startswith(f"{self._commit}+") else default
