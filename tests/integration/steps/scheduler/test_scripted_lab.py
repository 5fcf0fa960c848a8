"""The scripted lab of tests with a master prints what netbisect-lab prints."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import real_master

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import Boot, Conditions, Failure, Kernel, Profile, Sample
from netbisect.workers.build.artifacts import ArtefactStore

SCRIPT = Path(real_master.__file__).with_name("scripted_lab.py")


def test_facts_have_all_fields_and_kernels_are_intact(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps({"bad": {"build": "fail"}}))

    def run(*arguments: str) -> list[str]:
        command = [sys.executable, str(SCRIPT), "--lab", f"{tmp_path}/lab.toml", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False
        ).stdout.splitlines()

    build = ("--builder", "one", "--config", "GENERIC", "build")
    lines = run("--revision", "bad", *build) + run("--revision", "good", *build)
    kernel = serialization.loads_as(lines[-1], Kernel)
    shutil.copytree(tmp_path / "build" / "kernels", tmp_path / "kernels")
    trial = ("--testbed", "c2558", "--kernel", kernel.key, "--logs", f"{tmp_path}/logs")
    for verb in ("trial", "profile"):
        lines += run(*trial, "--scenario", "inet4-forwarding", verb)

    facts = [serialization.loads(line) for line in lines]
    assert [type(one) for one in facts] == [
        Failure,
        Kernel,
        Boot,
        Conditions,
        Sample,
        Boot,
        Profile,
    ]
    for line, fact in zip(lines, facts, strict=True):
        assert json.loads(line).keys() == json.loads(serialization.dumps(fact)).keys()
    assert ArtefactStore(tmp_path / "kernels").discard_damaged(kernel.key) == ""
