"""Import of measurements of netbenches."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netbisect.store.ledger import Ledger
from netbisect.store.netbenches.files import NetbenchesError, Parser
from netbisect.store.netbenches.importer import ImportSummary, import_into
from netbisect.workers.measure import pktgen

HISTORIES = Path(__file__).parents[5] / "shared" / "netbenches" / "histories.jsonl"
PARSER = Parser(pktgen.median_rate, pktgen.all_rates)
RESULTS = "Atom_C2558_4Cores/Intel_i350/firewalls/results"
UNAME = (
    "FreeBSD netgate.bsdrp.net 12.0-CURRENT FreeBSD 12.0-CURRENT #0 r{}M: Mon Jan 23 07:45:03 "
    "CET 2017     olivier@lame4.bsdrp.net:/usr/obj/TESTING.amd64/FreeBSD/src/sys/amd64  amd64"
)


def receiver(pps: float, seconds: int = 40) -> str:
    """Output of pkt-gen's receiver at a constant rate."""
    lines = [
        "CMD: pkt-gen -N -f rx -i igb3 -w 4",
        *7 * ["456.099101 main [2564] interface is igb3"],
        "460.206323 receiver_body [1644] reading from netmap:igb3 fd 3 main_fd 3",
    ]
    lines += [
        f"{461 + i}.208240 main_thread [2329] {pps:.0f} pps ({pps:.0f} pkts {480 * pps:.0f} bps "
        "in 1001926 usec) 2.20 avg_batch 0 min_space"
        for i in range(seconds)
    ]
    return "\n".join([*lines, "Terminated", ""])


class Results:
    """A folder of results in the layout of netbenches."""

    def __init__(self, top: Path, result: str, place: str = RESULTS) -> None:
        self.directory = top / place / result
        self.directory.mkdir(parents=True)

    def raw(self, label: str, rates: Sequence[float], folder: str = "RAW") -> None:
        raw = self.directory / folder
        raw.mkdir(exist_ok=True)
        for iteration, pps in enumerate(rates, 1):
            (raw / f"bench.{label}.{iteration}.receiver").write_text(receiver(pps))
            (raw / f"bench.{label}.{iteration}.sender").write_text("not read")

    def info(self, label: str, svn: int, image: str, config: str, traffic: str = "") -> None:
        (self.directory / "RAW" / f"bench.{label}.info").write_text(
            f'IMAGE="{image}"\nCFG="{config}"\nPKTGEN="{traffic}"\nUNAME="{UNAME.format(svn)}"'
        )

    def pps(self, label: str, values: Sequence[float]) -> None:
        (self.directory / f"{label}.pps").write_text("".join(f"{value:g}\n" for value in values))


def rates_of(ledger: Ledger, testbed: str, scenario: str, branch: str = "head") -> dict[str, Any]:
    """Rates of the boots in order by revision, packets per second."""
    return {
        level.revision: [round(math.exp(value), 1) for value in level.ln_pps]
        for level in ledger.series.levels(testbed, scenario, branch)
    }


def counts(summary: ImportSummary) -> tuple[int, int, int, int]:
    return summary.kernels, summary.boots, summary.samples, summary.known


def history(**changes: Any) -> str:
    line = {
        "id": "h000",
        "hw": "AMD_GX-412TC_4Cores",
        "nic": "Intel_i210AT",
        "dir": "AMD_GX-412TC_4Cores/Intel_i210AT/firewalls/results/fbsd.2016",
        "cfg": "fastforwarding",
        "pktgen": "",
        "points": [
            {"image": "293643", "rev": 293643, "v": [581881, 565413.5], "release": "11.0-CURRENT"},
            {"image": "293069", "rev": 293069, "v": [553160], "release": "11.0-CURRENT"},
        ],
    }
    return json.dumps({**line, **changes}) + "\n"


def test_series_are_in_the_order_of_revisions_without_patched_and_unnamed_images(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = tmp_path / "histories.jsonl"
    points = [
        {"image": "295150", "rev": 295150, "v": [100.0], "release": ""},
        {"image": "295150mbuf", "rev": 295150, "v": [99.0], "release": "", "patch": "mbuf"},
        {"image": "HEAD120", "rev": 295150, "v": [98.0], "release": ""},
        {"image": "7f4e724829e_20201227", "rev": "7f4e724829e", "v": [97.0], "release": ""},
        {"image": "n277887", "rev": 277887, "v": [96.0], "release": ""},
        {"image": "9", "rev": 9, "v": [95.0], "release": ""},
    ]
    series = history(dir="AMD_GX-412TC_4Cores/Intel_i210AT/firewalls/results/fbsd.2017")
    path.write_text(history(points=points) + series)

    summary = import_into(lambda: ledger, path, parser=PARSER)

    testbed, scenario = "amd-gx-412tc-i210at-2016", "inet4-forwarding"
    assert (summary.series, counts(summary)) == (2, (7, 8, 8, 0))
    assert rates_of(ledger, "amd-gx-412tc-i210at-2017", scenario) == {
        "r293069": [553160.0],
        "r293643": [581881.0, 565413.5],
    }
    assert ledger.commits.find(["r293643"])["r293643"].number == 293643
    assert rates_of(ledger, testbed, scenario) == {"r9": [95.0], "r295150": [100.0]}
    assert rates_of(ledger, testbed, scenario, "head+mbuf") == {"r295150+mbuf": [99.0]}
    assert rates_of(ledger, testbed, scenario, "head+HEAD120") == {"r295150+HEAD120": [98.0]}
    assert rates_of(ledger, testbed, scenario, "main") == {"n277887": [96.0]}
    assert summary.skipped == [f"{path}:1: image 7f4e724829e_20201227 names no revision by number"]


NAN = history(points=[{"rev": 293069, "v": [float("nan")]}])
HUGE = history(points=[{"rev": 293069, "v": [10**400]}])
BEYOND = history(points=[{"rev": 2**31, "v": [5e5]}])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not a line of JSON"),
        (NAN, "no rate in packets per second is NaN"),
        (HUGE, "no rate in packets per second is 1000"),
        (BEYOND, "point 1 has 2147483648 for its revision `rev`"),
    ],
)
def test_a_malformed_line_is_reported_and_nothing_is_imported(
    ledger: Ledger, tmp_path: Path, line: str, why: str
) -> None:
    path = tmp_path / "histories.jsonl"
    path.write_text(history() + line.rstrip("\n") + "\n")

    with pytest.raises(NetbenchesError) as caught:
        import_into(lambda: ledger, path, parser=PARSER)

    assert str(caught.value).startswith(f"{path}:2: ")
    assert why in str(caught.value)
    assert ledger.events.since(0) == ([], 0)


@pytest.mark.long
@pytest.mark.data
def test_all_published_histories_are_imported(ledger: Ledger) -> None:
    if not HISTORIES.is_file():
        pytest.skip("needs ../shared/netbenches/histories.jsonl")
    lines = [json.loads(line) for line in HISTORIES.read_text().splitlines()]

    summary = import_into(lambda: ledger, HISTORIES, parser=PARSER)

    excluded = [
        point for line in lines for point in line["points"] if not isinstance(point["rev"], int)
    ]
    boots = sum(len(point["v"]) for line in lines for point in line["points"])
    expected = boots - sum(len(point["v"]) for point in excluded)
    assert len(summary.skipped) == len(excluded) == 6
    assert (summary.boots, summary.samples) == (expected, expected) == (3586, 3586)
    assert summary.series == 162
    assert summary.kernels == 235

    [line] = [line for line in lines if line["id"] == "h068"]
    found = rates_of(ledger, "atom-c2558-i350-2016", "inet4-ipfw-stateful")
    assert found == {
        f"r{point['rev']}": [float(v) for v in point["v"]]
        for point in sorted(line["points"], key=lambda point: point["rev"])
    }
    assert counts(import_into(lambda: ledger, HISTORIES, parser=PARSER)) == (0, 0, 0, expected)


def test_a_folder_is_read_from_output_of_pkt_gen(ledger: Ledger, tmp_path: Path) -> None:
    """An info file of 2015 has another form."""
    results = Results(tmp_path, "fbsd11-head.2015")
    results.raw("ipfw-statefull", [5e5], folder=".")
    (results.directory / "bench.ipfw-statefull.info").write_text(
        "Image: /root/benchs/images.2015//BSDRP-upgrade-amd64-serial.img.xz\n"
        "CFG: fastforwarding-pf-ipfw/configs//ipfw-statefull\n"
        "FreeBSD hp 11.0-CURRENT FreeBSD 11.0-CURRENT #0 r293120: Tue Jan 26 06:15:20 CET 2016"
        "     root@lame4.bsdrp.net:/usr/obj/TESTING.amd64/FreeBSD/src/sys/amd64  amd64\n"
        "Start time: February  1, 2016 at 01:45:03 PM CET\n"
    )
    results = Results(tmp_path, "fbsd.2016")
    rates = [500_000 + i for i in range(10)]
    results.raw("311848.fastforwarding", rates)
    results.info("311848.fastforwarding", 311848, "311848", "fastforwarding")
    results.raw("311849.pf-statefull", [400_000.0])
    results.info("311849.pf-statefull", 311849, "311849", "pf-statefull")

    summary = import_into(lambda: ledger, tmp_path, parser=PARSER)

    assert (summary.series, counts(summary), summary.skipped) == (3, (3, 12, 12, 0), [])
    found = rates_of(ledger, "atom-c2558-i350-11-head-2015", "inet4-ipfw-stateful")
    assert found == {"r293120": [5e5]}
    testbed = "atom-c2558-i350-2016"
    assert rates_of(ledger, testbed, "inet4-forwarding") == {
        "r311848": [float(rate) for rate in rates]
    }
    assert rates_of(ledger, testbed, "inet4-pf-stateful") == {"r311849": [400_000.0]}


def test_contradicting_values_and_runs_without_a_rate_are_reported(
    ledger: Ledger, tmp_path: Path
) -> None:
    """A run without a rate is kept as invalid. The first of two measurements counts."""
    results = Results(tmp_path, "fbsd.2016")
    results.pps("311848", [5e5, 7e5])
    results.raw("311848", [5e5, 6e5])
    results.raw("311849", [5e5, 6e5])
    broken = results.directory / "RAW" / "bench.311849.2.receiver"
    broken.write_text(receiver(6e5, seconds=3))

    twice = Results(tmp_path, "fbsd10.2")
    twice.pps("311848.fastforwarding", [9e5])
    twice.pps("311848.forwarding", [5e5])

    summary = import_into(lambda: ledger, tmp_path, parser=PARSER)

    assert summary.samples == 5
    [contradiction, missing, second] = summary.skipped
    assert "311848.forwarding: r311848 was already measured in inet4-forwarding" in second
    found = rates_of(ledger, "atom-c2558-i350-10-2", "inet4-forwarding")
    assert found == {"r311848": [9e5]}
    assert contradiction.endswith(
        "311848.pps: its values are not those of the receivers' files, which were taken"
    )
    assert missing.startswith(f"{broken}: no sample: none of its ")
    found = rates_of(ledger, "atom-c2558-i350-2016", "inet4-forwarding")
    assert found == {"r311848": [5e5, 6e5], "r311849": [5e5]}


def test_runs_under_hwpmc_are_excluded(ledger: Ledger, tmp_path: Path) -> None:
    results = Results(tmp_path, "fbsd12-head.iflib")
    results.raw("311848", [3e5, 5e5], folder="PMC")
    results.pps("311849", [5e5, 6e5])
    results.raw("311849", [3e5, 6e5], folder=".")
    (results.directory / "bench.311849.1.pmc.out").touch()
    results.raw("312904", [3e5, 6e5], folder=".")
    (results.directory / "bench.312904.1.pmc.log").touch()

    summary = import_into(lambda: ledger, tmp_path, parser=PARSER)

    assert rates_of(ledger, "atom-c2558-i350-12-head-iflib", "inet4-forwarding") == {
        "r311849": [5e5, 6e5],
        "r312904": [6e5],
    }
    assert sorted(reason.rpartition(": ")[2] for reason in summary.skipped) == [
        "measured while hwpmc was counting",
        "overwritten while hwpmc was counting",
    ]


@pytest.mark.parametrize(
    ("label", "info", "result", "revision"),
    [
        ("forwarding.inet4", ("", "forwarding", "inet4"), "fbsd12.1", "r320001"),
        ("forwarding.inet4", None, "fbsd13-c255412", "c255412"),
        ("r335106D15789.inet4", None, "fbsd12", "r335106+D15789"),
        ("364937_UMA_ALIGN_CACHE.inet4", None, "fbsd13", "r364937+UMA-ALIGN-CACHE"),
        ("11.0.forwarding.inet4", ("11.0", "forwarding", "inet4"), "fbsd11", "r320001+11.0"),
        ("MAIN_n272915.forwarding.inet4", None, "main-vs-stable", "n272915+MAIN"),
        ("311849.forwarding.inet4", ("299999", "pf-stateful", ""), "renamed", "r311849"),
    ],
)
def test_a_revision_is_read_from_any_file(
    ledger: Ledger,
    tmp_path: Path,
    label: str,
    info: tuple[str, str, str] | None,
    result: str,
    revision: str,
) -> None:
    results = Results(tmp_path, result)
    results.raw(label, [5e5])
    if info is not None:
        results.info(label, 320001, *info)

    summary = import_into(lambda: ledger, tmp_path, parser=PARSER)

    assert (summary.samples, summary.skipped) == (1, [])
    learned = ledger.commits.get(revision)
    assert learned is not None
    variant = revision.partition("+")[2]
    line = "head" if revision.startswith("r") else "main"
    branch = f"{line}+{variant}" if variant else line
    testbed = f"atom-c2558-i350-{result.removeprefix('fbsd').replace('.', '-').lstrip('-')}"
    assert rates_of(ledger, testbed, "inet4-forwarding", branch) == {revision: [5e5]}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "README.md",
            "no results\n",
            "has nothing to import; expected a histories.jsonl, or a folder with",
        ),
        ("", "", "has nothing to import"),
        (
            "forwarding.pps",
            "500000\n",
            "forwarding names no revision by number; expected a histories.jsonl",
        ),
        ("", None, "No such file or directory"),
        ("311849.pps", "\n", "311849: r311849 has no boot; expected a histories.jsonl"),
        ("311849.pps", "500000\n\n1.2.3\n", ".pps:3: '1.2.3' is not a rate in packets per second"),
    ],
)
def test_a_folder_without_data_is_reported(
    tmp_path: Path, name: str, text: str | None, why: str
) -> None:
    path = tmp_path / "results"
    if text is not None:
        file = path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    with pytest.raises(NetbenchesError, match=str(path)) as caught:
        import_into(lambda: pytest.fail("opened"), path, parser=PARSER)

    assert why in str(caught.value)
    assert "\n" not in str(caught.value)
