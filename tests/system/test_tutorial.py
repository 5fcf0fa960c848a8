"""The commands of docs/tutorial.md, executed in order in one shell."""

from __future__ import annotations

import os
import re
import site
import subprocess
import sys
from pathlib import Path

import pytest

from netbisect.demo.lab.setup import free_ports

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "netbisect": "from netbisect.cli.main import main",
    "netbisect-lab": "from netbisect.workers.cli.main import main",
    "buildbot-worker": "from buildbot_worker.scripts.runner import run as main",
}
"""Entry points of the programs that pip would install."""


def create_environment(clone: Path) -> None:
    """Creates .venv like `make venv`, with the packages of the current environment."""
    venv = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    [packages] = (venv / "lib").glob("python*/site-packages")
    others = [*site.getsitepackages(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    paths = [str(clone / "src"), *filter(None, others)]
    (packages / "all.pth").write_text("\n".join(paths) + "\n")
    for name, line in PROGRAMS.items():
        program = venv / "bin" / name
        program.write_text(f"#!{venv}/bin/python\nimport sys\n{line}\nsys.exit(main())\n")
        program.chmod(0o755)
    (venv / "runtime").touch()


def change_settings(settings: Path, web: str, workers: str) -> None:
    """Changes the ports."""
    text = settings.read_text()
    for old, new in (("# port = 8010", f"port = {web}"), ("# port = 9989", f"port = {workers}")):
        assert old in text
        text = text.replace(old, new)
    settings.write_text(text)


def test_every_command_of_the_tutorial_is_tested() -> None:
    """The page has no fenced blocks but those of commands."""
    assert len(BLOCKS) == PAGE.read_text().count("```") // 2
    assert len(BLOCKS) > 10


@pytest.mark.long
def test_commands_of_the_tutorial_work_in_order(checkout: Path, tmp_path: Path) -> None:
    """The only changes are those of `create_environment` and `change_settings`."""
    with free_ports(2) as (web, workers):
        pass
    clone = tmp_path / "netbisect"
    call = f"'{sys.executable}' '{__file__}'"
    script = []
    for block in BLOCKS:
        text = block.replace("127.0.0.1:9989", f"127.0.0.1:{workers}")
        first, rest = text.split("\n", 1)
        if "git clone" in first:
            text += f"{call} environment .\n"
        if "netbisect init --lab" in first:
            text = f"{first}\n{call} settings service/netbisect.toml {web} {workers}\n{rest}"
        script.append(text)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment["REPOSITORY"] = str(checkout)
    practice = tmp_path / "practice"
    log = tmp_path / "log"
    try:
        with log.open("wb") as stream:
            done = subprocess.run(
                ["sh", "-eux", "-c", "".join(script)],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=1200,
            )
    finally:
        stop_processes(clone / ".venv" / "bin", practice)
    output = log.read_text()

    assert done.returncode == 0, output
    assert "\n\tTraceback" not in (practice / "service" / "twistd.log").read_text()
    assert "checks, all well" in output
    assert "FAIL" not in output
    assert (practice / "restored" / "netbisect.sqlite").is_file()
    assert not [*(practice / "service").glob("netbisect.sqlite-*")]  # the master closes it
    assert "Change 4: inet4 forwarding -1" in output
    assert "inet4-forwarding" in (practice / "pages" / "index.html").read_text()


def stop_processes(programs: Path, practice: Path) -> None:
    """Stops processes that a failure may have left."""
    for command in (
        ["netbisect", "stop", "service"],
        *(["buildbot-worker", "stop", f"hosts/{name}"] for name in ("amd64", "c2558")),
        ["python", "-m", "netbisect.demo", "down", "--place", "machines"],
    ):
        if practice.is_dir():
            subprocess.run(
                [str(programs / command[0]), *command[1:]],
                cwd=practice,
                capture_output=True,
                check=False,
                timeout=300,
            )


if __name__ == "__main__":
    if sys.argv[1] == "environment":
        create_environment(Path(sys.argv[2]).absolute())
    else:
        change_settings(Path(sys.argv[2]), *sys.argv[3:])
