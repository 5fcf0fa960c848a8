"""Commands whose output cannot be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from localbisect_fixtures import NETBISECT


@pytest.mark.parametrize("arguments", [["--help"], ["schema", "alert"], ["ministat", "numbers"]])
def test_unwritable_output_is_one_sentence(arguments: list[str], tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"
    numbers.write_text("1\n2\n3\n")
    with numbers.open() as unwritable:
        done = subprocess.run(
            [NETBISECT, *arguments],
            cwd=tmp_path,
            stdout=unwritable,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 2
    assert done.stderr == (
        "Error: standard output or a temporary file cannot be written: Bad file descriptor.\n"
    )
