"""What people are told without asking the program: manual pages, and completion by a shell."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from netbisect.steps import cli

MAN = Path(__file__).resolve().parent.parent / "docs" / "man"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """docs/man/generate.py."""
    spec = importlib.util.spec_from_file_location("generate", MAN / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["generate"] = module
    spec.loader.exec_module(module)
    return module


def test_the_manual_pages_say_what_the_commands_say(generate: ModuleType) -> None:
    """`make manual` writes them anew."""
    pages = generate.pages()

    assert sorted(pages) == sorted(path.name for path in MAN.glob("*.1"))
    for name, text in pages.items():
        assert (MAN / name).read_text() == text, f"{name} is old: make manual"


@pytest.mark.parametrize("line", [".Sh none", "'quoted", "a\\fBb", "--why -n"])
def test_no_text_is_taken_for_a_macro(generate: ModuleType, line: str) -> None:
    escaped = generate.escaped(line)

    assert not escaped.startswith((".", "'"))
    assert escaped.removeprefix("\\&").replace("\\-", "-").replace("\\e", "\\") == line


@pytest.mark.parametrize("name", ["netbisect.1", "netbisect-lab.1"])
def test_the_manual_pages_are_rendered_without_a_complaint(name: str) -> None:
    if shutil.which("mandoc"):
        command = ["mandoc", "-Tlint", "-Wwarning", str(MAN / name)]
    elif shutil.which("groff"):
        command = ["groff", "-mdoc", "-Tascii", "-ww", "-z", str(MAN / name)]
    else:
        pytest.skip("there is neither mandoc nor groff here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ------------------------------------------------------------------------------------ completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_both_programs(shell: str) -> None:
    done = CliRunner().invoke(cli.main, ["completion", shell])

    assert done.exit_code == 0, done.output
    assert "_NETBISECT_COMPLETE=" in done.output
    assert "image-noise" in done.output
    shells = shutil.which(shell)
    if shells:
        subprocess.run([shells, "-n"], input=done.output, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("netbisect al", ["alerts"]),
        ("netbisect rest", ["restore"]),
        ("netbisect alerts inv", ["invalid"]),
        ("netbisect service systemd w", ["worker"]),
        ("netbisect bisect run --dir", ["--direction"]),
    ],
)
def test_words_are_completed(words: str, expected: list[str]) -> None:
    environment = {
        **os.environ,
        "_NETBISECT_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from netbisect.steps.cli import main; main(prog_name='netbisect')"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


def test_a_first_word_is_completed_without_importing_the_commands() -> None:
    """Whoever presses a key does not wait for Buildbot."""
    code = (
        "import sys; from netbisect.steps.cli import main; "
        "found = main.shell_complete(main.make_context('netbisect', [], resilient_parsing=True), "
        "'s'); print([one.value for one in found]); "
        "assert not {'buildbot', 'sqlalchemy', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert "'status'" in done.stdout
