"""netbisect-lab: facts on standard output, messages on standard error, exit statuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_fixtures import LabCommand, RunningLab

from netbisect.bisect.model import serialization
from netbisect.bisect.model.entities import (
    Boot,
    Conditions,
    Failure,
    Kernel,
    Profile,
    Reaction,
    Sample,
)
from netbisect.demo.lab.setup import KERNEL_CONFIG
from netbisect.workers.build.artifacts import ARCHIVE, FACT
from netbisect.workers.cli import main, output
from netbisect.workers.config.lab import load_lab
from netbisect.workers.transport.locks import lock_testbed

Run = Callable[..., tuple[int, list[Any], str]]
"""Runs netbisect-lab; returns exit status, facts and messages."""


@pytest.fixture
def run(running_lab: RunningLab, lab_command: LabCommand) -> Run:
    def run(*arguments: str) -> tuple[int, list[Any], str]:
        status, facts, messages = lab_command(running_lab.files.lab, *arguments)
        return status, [serialization.loads(line) for line in facts.splitlines()], messages

    return run


def kernels(lab: RunningLab) -> str:
    return str(lab.lab.builders[0].kernels)


def test_build_prints_the_kernel_or_the_failure(run: Run, running_lab: RunningLab) -> None:
    tree, build = running_lab.tree, ("build", "--builder", "amd64", "--config", KERNEL_CONFIG)
    status, (kernel,), messages = run(*build, "--revision", tree.revisions[10])
    assert status == 0
    assert isinstance(kernel, Kernel)
    assert kernel.revision == tree.revisions[10]
    assert f"built n11-{kernel.revision[:12]} in " in messages

    broken = tree.revisions[running_lab.place_of("unbuildable")]
    status, (failure,), messages = run(*build, "--revision", broken)
    assert status == output.EXIT_UNMEASURABLE == 3
    assert isinstance(failure, Failure)
    assert failure.reaction is Reaction.SKIP
    assert messages.endswith(f"no kernel: {failure.why}\n")


def test_trial_prints_every_fact(run: Run, running_lab: RunningLab, tmp_path: Path) -> None:
    """Output of the console and of pkt-gen is in the folder of logs."""
    kernel, _ = running_lab.kernel(10)
    status, facts, messages = run(
        *("trial", "--testbed", "c2558", "--kernel", kernel.key, "--kernels", kernels(running_lab)),
        *("--scenario", "inet4-forwarding", "--logs", str(tmp_path / "logs")),
    )
    assert status == 0
    assert [type(fact) for fact in facts] == [Boot, Conditions, Sample]
    assert f"c2558: {kernel.version}: up after " in messages
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "console.log",
        "inet4-forwarding.observed.json",
        "inet4-forwarding.receiver",
        "inet4-forwarding.sender",
    ]


def test_profile_prints_boot_and_profile(run: Run, running_lab: RunningLab, tmp_path: Path) -> None:
    """The stacks are in a file, and there is no sample; a missing profile has status 3."""
    kernel, _ = running_lab.kernel(10)
    one = ("profile", "--testbed", "c2558", "--kernel", kernel.key)
    one += ("--kernels", kernels(running_lab), "--logs", str(tmp_path / "logs"))
    status, (boot, profile), messages = run(*one, "--rate", "500000")
    assert status == 0
    assert isinstance(boot, Boot)
    assert isinstance(profile, Profile)
    assert not profile.problem
    assert (profile.kernel, profile.pps) == (kernel.key, 500_000.0)
    assert f"{tmp_path}/logs/profile-inet4-forwarding.folded" in messages
    assert (tmp_path / "logs" / "profile-inet4-forwarding.folded").is_file()

    status, facts, messages = run(*one, "--rate", "500000", "--event", "no.such")
    assert status == 3
    assert "no.such" in facts[-1].problem
    assert "no profile: " in messages
    for wrong in ("0", "-3", "inf", "nan"):
        assert run(*one, "--rate", wrong)[:2] == (output.EXIT_USAGE, [])


def test_quarantine_has_status_4(run: Run, c2558: RunningLab) -> None:
    c2558.control("break", "c2558-dut", "new-host-key")
    kernel, one = c2558.kernel(10)[0], ("--testbed", "c2558")
    status, facts, _ = run("boot", *one, "--kernel", kernel.key, "--kernels", kernels(c2558))
    assert status == output.EXIT_LAB == 4
    assert [fact.reaction for fact in facts] == [Reaction.QUARANTINE]
    status, facts, messages = run("recover", *one)
    assert (status, facts) == (output.EXIT_LAB, [])
    assert messages == "netbisect-lab: c2558-dut: the host key is not the known one\n"


def test_bench_measures_the_running_kernel(
    run: Run, running_lab: RunningLab, tmp_path: Path
) -> None:
    """Logs that cannot be written are reported; `recover` boots the known-good kernel."""
    bench = ("bench", "--testbed", "c2558")
    status, (sample,), prose = run(*bench, "--scenario", "inet4-pf-stateless")
    assert (status, prose[:27]) == (0, "c2558: inet4-pf-stateless: ")
    assert isinstance(sample, Sample)
    assert sample.valid
    assert sample.boot == "by-hand"
    running_lab.control("break", "c2558-gen", "slow-sender")
    status, _, prose = run(*bench, "--scenario", "inet4-ipf", "--scenario", "inet4-forwarding")
    running_lab.mend()
    assert (status, prose[:18]) == (output.EXIT_UNMEASURABLE, "c2558: inet4-ipf: ")
    assert "\nc2558: inet4-forwarding: no sample: the generator offered " in prose
    (tmp_path / "file").touch()
    status, _, prose = run(*bench, "--logs", str(tmp_path / "file" / "x"))
    assert status == output.EXIT_FAILED
    assert prose == f"netbisect-lab: {tmp_path / 'file' / 'x'}: Not a directory\n"
    assert run("recover", "--testbed", "c2558") == (0, [], "c2558: on kernel\n")
    assert running_lab.booted("c2558-dut") == "kernel"


def test_testbed_of_another_command_is_left_alone(
    run: Run, running_lab: RunningLab, lab_command: LabCommand
) -> None:
    """Two at once would falsify a measurement. A command that boots waits, but not for ever."""
    lab, one = load_lab(running_lab.files.lab), ("--testbed", "c2558")
    testbed = lab.testbed("c2558")
    shutil.rmtree(lab.kernels, ignore_errors=True)
    boots = running_lab.boots("c2558-dut")
    holder = f"c2558: process {os.getpid()} has been testing since 2"
    said: list[str] = []

    with lock_testbed(lab, testbed, "testing"):
        status, facts, messages = run("bench", *one)
        assert (status, facts) == (output.EXIT_FAILED, [])
        assert f"netbisect-lab: {holder}" in messages
        status, found, _ = lab_command(running_lab.files.lab, "doctor", *one, "--rates")
        assert status == output.EXIT_LAB
        assert holder in found
        with lock_testbed(lab, testbed, "waiting", said.append, seconds=0.4):
            first, last = said
        assert first.startswith(holder)
        assert last.endswith("it had not ended after 0.4 s; continuing beside it")
    assert running_lab.boots("c2558-dut") == boots
    lock = lab.kernels / ".c2558.lock"
    lock.unlink()
    lock.mkdir()
    with lock_testbed(lab, testbed, "testing", said.append):
        lock.rmdir()
    assert said[-1].startswith("c2558 cannot be locked")


def test_doctor_prints_json_and_status_4_when_something_is_wrong(
    c2558: RunningLab, lab_command: LabCommand
) -> None:
    c2558.control("break", "c2558-gen", "cable-out")
    status, found, _ = lab_command(c2558.files.lab, "doctor", "--json")
    assert status == output.EXIT_LAB
    checks = json.loads(found)
    assert {tuple(check) for check in checks} == {("where", "what", "good", "found")}
    assert [check["what"] for check in checks if not check["good"]] == [
        "generator c2558-gen",
        "receiver c2558-gen",
    ]


def test_unknown_name_has_status_2(run: Run, running_lab: RunningLab, tmp_path: Path) -> None:
    """The status of a kernel without its fact is 2 as well."""
    for arguments, message in (
        (
            ("recover", "--testbed", "c2758"),
            "there is no testbed 'c2758' in the lab file; found c2558, e5-2650",
        ),
        (
            ("build", "--builder", "arm64", "--revision", "0" * 40, "--config", "GENERIC"),
            "there is no builder 'arm64' in the lab file; found amd64",
        ),
        (
            ("boot", "--testbed", "c2558", "--kernel", "0" * 64, "--kernels", "nowhere"),
            "there is no kernel 000000000000 in nowhere",
        ),
    ):
        assert run(*arguments) == (output.EXIT_USAGE, [], f"netbisect-lab: {message}\n")
    kernel, archive = running_lab.kernel(10)
    (tmp_path / kernel.key).mkdir()
    (tmp_path / kernel.key / archive.name).write_bytes(archive.read_bytes())
    boot = ("boot", "--testbed", "c2558", "--kernel", kernel.key, "--kernels", str(tmp_path))
    status, facts, messages = run(*boot)
    assert (status, facts) == (output.EXIT_USAGE, [])
    assert "kernel.json" in messages
    assert messages.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ("build", "--builder", "amd64", "--config", "GENERIC"),
        ("image-noise", "--testbed", "c2558", "--builds", "2"),
    ],
)
def test_revision_must_be_a_full_hash(
    capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Status 2 prevents a retry by the service."""
    for revision in ("main", "0" * 39, "0" * 41, "A" * 40, "", "-x", "0" * 40 + "#x", "main#3"):
        words = ["--lab", "none.toml", *command, f"--revision={revision}"]
        assert main.main(words) == output.EXIT_USAGE
        errors = capfd.readouterr().err
        assert "Invalid value for '--revision': " in errors
        assert "expected the " in errors


@pytest.mark.parametrize("name", [FACT, ARCHIVE])
def test_damaged_kernel_is_removed_so_that_it_is_sent_again(
    run: Run, running_lab: RunningLab, name: str
) -> None:
    """kernel.json marks a complete kernel; the damage is that of a power failure."""
    kernel, archive = running_lab.kernel(10)
    store = load_lab(running_lab.files.lab).kernels
    shutil.copytree(archive.parent, store / kernel.key, dirs_exist_ok=True)
    (store / kernel.key / name).write_bytes(b"")
    status, facts, messages = run("boot", "--testbed", "c2558", "--kernel", kernel.key)
    assert (status, facts) == (output.EXIT_FAILED, [])
    assert "netbisect-lab: " in messages
    assert not (store / kernel.key / FACT).exists()
    shutil.rmtree(store / kernel.key)


def test_old_kernels_are_removed_on_the_build_host(
    running_lab: RunningLab, tmp_path: Path, lab_command: LabCommand
) -> None:
    """The newest kernel is kept despite the limit."""
    lab = tmp_path / "lab.toml"
    lab.write_text(f'kernel_space = "1 B"\n{running_lab.files.lab.read_text()}')
    (tmp_path / "ssh").symlink_to(running_lab.files.ssh_config.parent)
    keys = []
    for number in (1, 2):
        revision = running_lab.tree.revisions[number]
        build = ["build", "--builder", "amd64", "--revision", revision, "--config", KERNEL_CONFIG]
        status, fact, _ = lab_command(lab, *build)
        assert status == 0
        keys.append(json.loads(fact)["key"])

    assert [path.name for path in (tmp_path / "builder" / "kernels").iterdir()] == keys[-1:]


def test_a_trial_imports_no_other_command() -> None:
    code = (
        "import sys, netbisect.workers.cli.main, netbisect.workers.cli.trial\n"
        "assert not {'http.client', 'netbisect.workers.doctor.doctor'} & set(sys.modules)\n"
        "assert 'netbisect.workers.build.build' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
