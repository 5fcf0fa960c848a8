"""Manual pages and shell completion."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from programs import captured

MAN = Path(__file__).resolve().parents[2] / "docs" / "man"


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


def test_manual_pages_are_current(generate: ModuleType) -> None:
    pages = generate.pages()

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
    [
        ("netbisect bisect run --dir", ["--direction"]),
        ("netbisect-lab trial --ru", ["--runs"]),
    ],
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
        "assert not {'buildbot', 'sqlalchemy', 'numpy'} & set(sys.modules)"
    )
    done = captured([sys.executable, "-c", code], check=True, timeout=60)

    assert "'status'" in done.stdout
