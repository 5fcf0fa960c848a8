"""netbisect's own command line: what it says, and that nothing stays behind when it refuses."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netbisect.bisect.model import Night, Profiled, Profiling, Unfinished
from netbisect.demo.house import House
from netbisect.steps import cli, control
from netbisect.steps.memory import open_ledger
from netbisect.steps.settings import load
from netbisect.store.ledger import Ledger
from netbisect.store.records import Asked

HISTORIES = Path(__file__).parents[2] / "shared" / "netbenches" / "histories.jsonl"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a service that never runs."""
    house = House(tmp_path_factory.mktemp("cli") / "house")
    house.build()
    return house.place


@pytest.fixture
def folder(written: Path) -> Iterator[Path]:
    """That folder, for a test that spoils its settings."""
    path = written / control.SETTINGS
    text = path.read_text()
    yield written
    path.write_text(text)


def change(folder: Path, old: str, new: str) -> None:
    path = folder / control.SETTINGS
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def refused(folder: Path) -> str:
    """The one sentence with which a start is refused; nothing runs then."""
    result = run("start", folder)

    assert result.exit_code == 1
    assert not (folder / "twistd.pid").exists()
    assert "Traceback" not in result.output
    assert result.output.startswith("Error: ")
    return result.output.removeprefix("Error: ").strip()


# ------------------------------------------------------------------------------- what is wrong


def test_what_is_right_is_said_to_be_right(folder: Path) -> None:
    """Exit status 0, and a line for everything that was looked at."""
    result = run("check", folder)

    assert result.exit_code == 0, result.output
    assert "main is at" in result.output
    assert "FAIL" not in result.output


def test_a_check_can_be_read_by_machines(folder: Path) -> None:
    """The same as JSON."""
    change(folder, 'branches = ["main"]', 'branches = ["main", "stable/15"]')
    result = run("check", "--json", folder)
    found = {one["what"]: one for one in json.loads(result.stdout)}

    assert result.exit_code == 1
    assert not found["branch"]["good"]
    assert found["database"]["good"]


def test_a_branch_that_does_not_exist(folder: Path) -> None:
    """Said with the branches that there are."""
    change(folder, 'branches = ["main"]', 'branches = ["stable/15"]')
    said = refused(folder)

    assert "there is no branch 'stable/15'" in said
    assert "main" in said


def test_a_tree_without_commits(folder: Path, tmp_path: Path) -> None:
    """There is nothing to measure."""
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "empty.git"], check=True)
    lab = (folder / "lab" / "lab.toml").read_text()
    path = folder / "lab" / "empty.toml"
    repository = str(folder / "tree.git")
    assert repository in lab
    path.write_text(lab.replace(repository, str(tmp_path / "empty.git")))
    change(folder, "lab/lab.toml", "lab/empty.toml")
    change(folder, "poll = 60", f'poll = 60\nstate = "{tmp_path}"')
    said = refused(folder)

    assert "empty.git" in said
    assert "no commits" in said


def test_a_port_in_use(folder: Path) -> None:
    """Said before anything starts, with the key that names it."""
    settings, _ = load(folder / control.SETTINGS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", settings.web.port))
        taken.listen()
        said = refused(folder)

    assert said == f"web.port: 127.0.0.1:{settings.web.port} cannot be used: Address already in use"


def test_an_unknown_key_in_the_lab_file(folder: Path) -> None:
    """File, key, and what was probably meant."""
    lab = folder / "lab" / "lab.toml"
    wrong = folder / "lab" / "wrong.toml"
    wrong.write_text(lab.read_text().replace("kernel_config", "kernel_confg"))
    change(folder, "lab/lab.toml", "lab/wrong.toml")
    said = refused(folder)

    assert f"{wrong}: testbeds[0]: unknown key 'kernel_confg'" in said
    assert "did you mean 'kernel_config'?" in said


def test_an_overlay_for_a_stretch_that_is_not_there(folder: Path) -> None:
    """Said before a night comes to it."""
    none = "0" * 40
    one = f'{{ name = "mend", patch = "lab.toml", first = "{none}", last = "{none}" }}'
    lab = folder / "lab" / "lab.toml"
    lab.write_text(lab.read_text().replace("[source]", f"[source]\noverlays = [{one}]"))

    assert f"'{none}' is no branch, tag or commit" in refused(folder)


def test_a_missing_password(folder: Path) -> None:
    """None is made up."""
    change(folder, "[workers]", '[workers]\npassword_file = "none"')

    assert "workers.password_file" in refused(folder)


def test_an_unusable_database(folder: Path) -> None:
    """Said with the place."""
    change(folder, "poll = 60", 'poll = 60\ndatabase = "sqlite:////nonexistent/x.sqlite"')

    assert "/nonexistent" in refused(folder)


def test_a_folder_without_settings(tmp_path: Path) -> None:
    """The first thing that is looked for."""
    said = refused(tmp_path)

    assert str(tmp_path / "netbisect.toml") in said


# ----------------------------------------------------------------------------- what one can do


def test_a_night_is_asked_for_once(written: Path) -> None:
    """The same revision is not measured twice, whoever asks."""
    first = run("night", "--testbed", "c2558", written)
    second = run("night", written)
    settings, _ = load(written / control.SETTINGS)
    asked = open_ledger(settings.database).open_questions()

    assert "is to be measured" in first.output
    assert second.exit_code == 0
    assert sorted(one.question.testbed for one in asked) == ["c2558", "e5-2650"]
    assert all(isinstance(one.question, Night) for one in asked)
    status = json.loads(run("status", "--json", written).stdout)
    assert [one["kind"] for one in status["questions"]] == ["Night", "Night"]
    assert "Night on c2558, main" in run("status", written).output


def test_an_unknown_testbed_is_refused(written: Path) -> None:
    """With those that there are."""
    result = run("night", "--testbed", "c2578", written)

    assert result.exit_code == 1
    assert "there is no testbed 'c2578' in the lab file; there is c2558, e5-2650" in result.output


def wishes(ledger: Ledger) -> list[Asked]:
    return [one for one in ledger.open_questions() if isinstance(one.question, Profiling)]


def test_a_profile_is_asked_for_once(written: Path) -> None:
    """Two names of one commit are one; and where to look for the answer is said."""
    wish = ("profile", "--testbed", "c2558", "main~3", "main", "--folder", written)
    first = run(*wish)
    settings, _ = load(written / control.SETTINGS)
    ledger = open_ledger(settings.database)
    [asked] = wishes(ledger)

    assert f"reports/profile-{asked.id}.html" in first.output
    assert isinstance(asked.question, Profiling)
    assert asked.question.scenarios == ("inet4-forwarding",)
    assert len(asked.question.revisions) == 2
    hashes = asked.question.revisions
    assert run("profile", "--testbed", "c2558", *hashes, "--folder", written).output == first.output
    with ledger.closing(asked, Profiled(hashes)):
        pass
    assert "was answered before" in run(*wish).output
    assert wishes(ledger) == []


def test_a_profile_that_came_to_nothing_is_asked_for_again(written: Path) -> None:
    """As a question of its own."""
    wish = ("profile", "--testbed", "c2558", "main", "--folder", written)
    run(*wish)
    settings, _ = load(written / control.SETTINGS)
    ledger = open_ledger(settings.database)
    [first] = wishes(ledger)
    with ledger.closing(first, Unfinished("no event")):
        pass
    run(*wish)
    [second] = wishes(ledger)

    assert second.id != first.id
    assert second.question == first.question


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["main", "--scenario", "inet5"],
            "c2558 has no scenario 'inet5'; there is inet4-forwarding",
        ),
        (["nothing"], "nothing"),
        (["main", "main~1", "main~2"], "one revision, or the earlier and the later of two"),
    ],
)
def test_a_profile_of_what_is_not_there_is_refused(
    written: Path, words: list[str], said: str
) -> None:
    result = run("profile", "--testbed", "c2558", *words, "--folder", written)

    assert result.exit_code != 0
    assert said in result.output


def test_stopping_what_does_not_run(written: Path) -> None:
    """Is no error."""
    assert run("stop", written).output == "The master did not run.\n"


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["check"],
        ["start"],
        ["stop"],
        ["night"],
        ["status"],
        ["follow"],
        ["init"],
        ["service"],
        ["backup"],
        ["restore"],
        ["completion"],
        ["health"],
        ["samples"],
        ["schema"],
        *(
            ["export", name]
            for name in (
                "alert",
                "bisection",
                "comparison",
                "digest",
                "feed",
                "health",
                "series",
                "status",
            )
        ),
        ["profile"],
        ["report", "flamegraph"],
        ["import", "netbenches"],
        ["detect"],
        ["alerts"],
        *(
            ["alerts", name]
            for name in (
                "show",
                "ack",
                "mute",
                "reopen",
                "invalid",
                "infra",
                "fixed",
                "withdraw",
            )
        ),
    ],
)
def test_every_command_explains_itself(command: list[str]) -> None:
    """`--help` works everywhere, with an example for every command."""
    result = run(*command, "--help")

    assert result.exit_code == 0
    assert "Example: netbisect" in result.output or not command


# ---------------------------------------------------------------------------- real measurements


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> str:
    if not HISTORIES.is_file():
        pytest.skip(f"the published measurements are not there: {HISTORIES}")
    address = f"sqlite:///{tmp_path_factory.mktemp('histories') / 'netbisect.sqlite'}"
    result = run("import", "netbenches", HISTORIES, "--database", address)
    assert result.exit_code == 0, result.output
    return address


def steps(address: str, testbed: str) -> dict[tuple[str, str], float]:
    result = run(
        "detect", "--database", address, "--testbed", testbed, "--json", "--min-effect", "2"
    )
    assert result.exit_code == 0, result.output
    return {
        (shift["scenario"], event["at"]): shift["ln_ratio"]
        for event in json.loads(result.stdout)
        for shift in event["series"]
    }


@pytest.mark.data
def test_the_conversion_to_iflib_is_found(imported: str) -> None:
    """r311849 cost the C2558 about 11 %, and the APU2 about 25 %."""
    c2558 = steps(imported, "atom-c2558-i350-12-head-iflib")
    apu2 = steps(imported, "amd-gx-412tc-i210at-12-head-iflib")

    assert -0.135 < c2558["inet4-forwarding", "r311849"] < -0.09
    assert -0.33 < apu2["inet4-forwarding", "r311849"] < -0.25


@pytest.mark.data
def test_the_steps_of_2016_are_found(imported: str) -> None:
    """The documented ones on the C2558, of either sign and in every scenario, and few others."""
    found = steps(imported, "atom-c2558-i350-2016")

    for scenario in ("inet4-forwarding", "inet4-pf-stateful", "inet4-ipfw-stateful"):
        assert found[scenario, "r303643"] < 0
        assert found[scenario, "r309257"] > 0
    assert len(found) <= 8


@pytest.mark.data
def test_the_steps_of_2016_on_the_apu2_are_found(imported: str) -> None:
    """The gain of r309257 in forwarding, and few others in so noisy a series."""
    found = steps(imported, "amd-gx-412tc-i210at-2016")

    assert found["inet4-forwarding", "r309257"] > 0.1
    assert len(found) <= 8


@pytest.mark.data
def test_a_change_without_effect_shows_nothing(imported: str) -> None:
    """r291853 made no difference to the firewalls of the E5-2650."""
    testbed = "xeon-e5-2650-t540-cr-11-head-r291853"
    result = run("detect", "--database", imported, "--testbed", testbed)

    assert result.stdout == "No shift of level was found.\n"


@pytest.mark.data
def test_an_unknown_series_is_not_a_quiet_one(imported: str) -> None:
    """A name that is not there is said, with those that are like it."""
    result = run("detect", "--database", imported, "--testbed", "atom-c2558-i350-2017")

    assert result.exit_code == 1
    assert "there is no testbed 'atom-c2558-i350-2017' with measurements" in result.output
    assert "atom-c2558-i350-2016" in result.output


def test_importing_nothing_is_said(tmp_path: Path) -> None:
    """An empty folder is a mistake."""
    address = f"sqlite:///{tmp_path / 'x.sqlite'}"
    (tmp_path / "results").mkdir()
    result = run("import", "netbenches", tmp_path / "results", "--database", address)

    assert result.exit_code == 1
    assert "holds nothing to import" in result.output


def test_the_command_is_installed() -> None:
    """By its own name, and quick to say its version."""
    command = Path(sys.executable).with_name("netbisect")
    done = subprocess.run(
        [command, "--version"], capture_output=True, text=True, check=True, env=dict(os.environ)
    )

    assert done.stdout.startswith("netbisect, version ")
