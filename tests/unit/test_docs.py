"""The documentation agrees with the code; instructions and shell completion work."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
import shutil
import sys
import textwrap
from pathlib import Path

import click
import pytest
from programs import captured

from netbisect.bisect.model.alert_state import ALLOWED, AlertAction, AlertState
from netbisect.cli import main
from netbisect.reports.documents import openapi
from netbisect.steps.service import settings, web_settings
from netbisect.steps.service.rights import RIGHTS
from netbisect.workers.cli.main import netbisect_lab
from netbisect.workers.config import builder, dut, lab, scenario, testbed, vm

ROOT = Path(__file__).resolve().parents[2]
PAGE = "\n".join(
    (ROOT / "docs" / name).read_text() for name in ("lab.md", "scenarios.md", "settings.md")
)

SECTIONS = {
    lab.Lab: ("lab.toml", "### Top level"),
    builder.Source: ("lab.toml", "### `[source]`"),
    lab.Ssh: ("lab.toml", "### `[ssh]`"),
    builder.Builder: ("lab.toml", "### `[[builders]]`"),
    testbed.Testbed: ("lab.toml", "### `[[testbeds]]`"),
    dut.Dut: ("lab.toml", "`[testbeds.dut]`\n"),
    dut.NanoBsd: ("lab.toml", "`[testbeds.dut.nanobsd]`"),
    dut.Pxe: ("lab.toml", "`[testbeds.dut.pxe]`"),
    testbed.TrafficHost: ("lab.toml", "`[testbeds.generator]` and"),
    testbed.Power: ("lab.toml", "`[testbeds.power]`\n"),
    testbed.Console: ("lab.toml", "`[testbeds.console]`\n"),
    vm.Vm: ("lab.toml", "`[testbeds.vm]`\n"),
    testbed.Timing: ("lab.toml", "`[testbeds.timing]`\n"),
    scenario.Scenario: ("Scenario files", "| key "),
    scenario.Traffic: ("Scenario files", "`[traffic]`\n"),
    settings.Settings: ("netbisect.toml", "### Top level"),
    settings.NightSettings: ("netbisect.toml", "`[night]`\n"),
    settings.SearchSettings: ("netbisect.toml", "`[search]`\n"),
    settings.MailSettings: ("netbisect.toml", "`[mail]`\n"),
    settings.MailRule: ("netbisect.toml", "`[[mail.rules]]`\n"),
    settings.WebSettings: ("netbisect.toml", "`[web]`\n"),
    web_settings.LoginSettings: ("netbisect.toml", "`[web.login]`\n"),
    web_settings.PeopleRule: ("netbisect.toml", "`[[web.people]]`\n"),
    settings.WorkerSettings: ("netbisect.toml", "`[workers]`\n"),
    settings.MastersSettings: ("netbisect.toml", "`[masters]`,"),
    settings.LinkSettings: ("netbisect.toml", "`[links]`\n"),
    settings.RequestSettings: ("netbisect.toml", "`[requests]`\n"),
}


def rows(text: str) -> list[list[str]]:
    """The cells of the first table in a text, without its head."""
    table = text.split("|---", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[1:]]


@pytest.mark.parametrize("schema", SECTIONS, ids=lambda schema: schema.__name__)
def test_all_keys_are_documented(schema: type) -> None:
    """The tables of lab.md, scenarios.md and settings.md list exactly the keys of the schemas."""
    keys = {field.name for field in dataclasses.fields(schema)}
    if schema is scenario.Scenario:
        keys.add("base")  # its keys take its place when the file is read

    chapter, heading = SECTIONS[schema]
    table = rows(PAGE.split(f"\n## {chapter}\n", 1)[1].split(heading, 1)[1])
    assert {key for cell, *_ in table for key in re.findall(r"`(\w+)`", cell)} == keys


def example(chapter: str, path: Path) -> Path:
    body = PAGE.split(f"\n## {chapter}\n", 1)[1]
    path.write_text(body.split("```toml\n", 1)[1].split("```", 1)[0])
    return path


def test_the_documented_files_are_valid(tmp_path: Path) -> None:
    (tmp_path / "ssh_config").write_text("")
    path = example("lab.toml", tmp_path / "lab.toml")

    assert lab.load_lab(path).testbed("c2558").power is not None
    path = example("netbisect.toml", tmp_path / "netbisect.toml")
    assert settings.load_settings(path).branches == ("main", "stable/15")


def test_states_of_alerts_are_documented() -> None:
    """docs/alerts.md lists the flags of each state: standing, silent, searchable."""
    page = (ROOT / "docs" / "alerts.md").read_text()
    table = rows(page.split("\n## States\n", 1)[1])

    searchable = ALLOWED[AlertAction.SEARCH]
    assert [(name, *flags) for name, _, *flags in table] == [
        (
            f"`{one.value}`",
            *("yes" if so else "" for so in (one.standing, one.silent, one in searchable)),
        )
        for one in AlertState
    ]


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub generates them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_are_valid(page: Path) -> None:
    """The target file exists and has the heading of the anchor."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page

        assert linked.exists(), target
        if anchor:
            assert anchor in headings(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_documented_commands_exist(page: Path) -> None:
    """`netbisect WORD` in the text and `netbisect-lab WORD` name existing commands."""
    known = set(main.main.list_commands(click.Context(main.main)))
    text = re.sub(r"^   ```.*?^   ```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = text.replace("`netbisect branches`", "")  # the example of CONTRIBUTING.md
    assert {*re.findall(r"`netbisect\s([a-z]\w*)", text)} <= known
    named = re.findall(r"netbisect-lab(?: --lab \S+)? ([a-z][a-z-]*)\b", text)
    known = set(netbisect_lab.list_commands(click.Context(netbisect_lab)))
    assert {one for one in named if one not in ("and", "that")} <= known


def test_rights_calls_and_limits_are_documented() -> None:
    """docs/api.md lists exactly the rights and paths of the API."""
    page = (ROOT / "docs" / "api.md").read_text()
    rights = page.split("\n## Rights\n", 1)[1].split("\n## ", 1)[0]
    calls = page.split("\n## The API\n", 1)[1].split("\n## ", 1)[0]
    verbs = {
        path.replace("/requests/7", "").replace("/requests/{number}", "")
        for path in re.findall(r"`(?:GET |POST )?(/[a-z0-9/]+)", calls)
    }
    described = {path.replace("/requests/{number}", "") for path in openapi.description()["paths"]}

    assert set(re.findall(r"^\| `(\w+)`", rights, re.MULTILINE)) == set(RIGHTS)
    assert verbs - {""} == described - {""}
    assert f"{openapi.MOST_BODY_BYTES >> 20} MiB" in calls
    assert f"{openapi.MOST_PATCH_BYTES >> 20} MiB" in calls


COPIED, LINKED = ("docs", "src", "workers"), ("bisect", "master.cfg", "reports", "steps", "store")


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks below a heading of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split(f"\n### {heading}\n")[1]
    section = re.split(r"^##+ ", text, maxsplit=1, flags=re.MULTILINE)[0]
    found = re.findall(rf"^   ```{language}\n(.*?)^   ```$", section, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the folders that the instructions change, with links to the others."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, symlinks=True)
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def shell(checkout: Path, script: str) -> str:
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = captured(
        ["sh", "-e", "-c", script],
        cwd=checkout,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(checkout / "src")},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_scenario_can_be_added(checkout: Path) -> None:
    (script,) = blocks("Add a scenario", "sh")

    assert "size=512," in shell(checkout, script)


@pytest.mark.long
def test_subcommand_can_be_added(checkout: Path) -> None:
    module, entry = blocks("Add a subcommand", "python")
    (script,) = blocks("Add a subcommand", "sh")
    commands = checkout / "src/netbisect/cli"
    (commands / "branches.py").write_text(module)
    main = (commands / "main.py").read_text()
    (commands / "main.py").write_text(main.replace("_COMMANDS = {\n", f"_COMMANDS = {{\n{entry}"))
    output = shell(checkout, script.replace("/tmp/practice", str(checkout / "practice")))

    assert output.splitlines()[-1] == "main"
    assert "branches" in (checkout / "docs/man/netbisect.1").read_text()


MAN = ROOT / "docs" / "man"


def test_manual_pages_are_current() -> None:
    pages = runpy.run_path(str(MAN / "generate.py"))["pages"]()

    assert sorted(pages) == sorted(path.name for path in MAN.glob("*.1"))
    for name, text in pages.items():
        assert (MAN / name).read_text() == text, f"{name} is outdated: make manual"


@pytest.mark.parametrize("name", ["netbisect.1", "netbisect-lab.1"])
def test_manual_pages_have_no_warnings(name: str) -> None:
    if shutil.which("mandoc"):
        command = ["mandoc", "-Tlint", "-Wwarning", str(MAN / name)]
    elif shutil.which("groff"):
        command = ["groff", "-mdoc", "-Tascii", "-ww", "-z", str(MAN / name)]
    else:
        pytest.skip("needs mandoc or groff")
    done = captured(command)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [("netbisect bisect run --dir", ["--direction"]), ("netbisect-lab trial --ru", ["--runs"])],
)
def test_shell_completion(words: str, expected: list[str]) -> None:
    program, *more = words.split()
    module = {"netbisect": "netbisect.cli.main", "netbisect-lab": "netbisect.workers.cli.main"}
    code = f"import sys; from {module[program]} import main; sys.argv[0] = {program!r}; main()"
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    typed = {variable: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(more))}
    done = captured([sys.executable, "-c", code], env={**os.environ, **typed}, check=True)

    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_first_word_is_completed_without_importing_the_commands() -> None:
    code = (
        "import sys; from netbisect.cli.main import main; "
        "found = main.shell_complete(main.make_context('netbisect', [], resilient_parsing=True), "
        "'s'); print([one.value for one in found]); "
        "assert not {'buildbot', 'sqlalchemy', 'numpy'} & set(sys.modules); "
        "import netbisect.cli.detect; assert not {'twisted', 'sqlalchemy'} & set(sys.modules)"
    )
    done = captured([sys.executable, "-c", code], check=True, timeout=60)

    assert "'status'" in done.stdout
