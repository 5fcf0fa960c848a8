"""The check for kernel configurations of the testbeds in the watched branches."""

from __future__ import annotations

from pathlib import Path

from programs import captured

from netbisect.demo.lab.testbeds import TESTBEDS, lab_toml
from netbisect.steps.service.control import kernel_configs
from netbisect.store.git.history import History
from netbisect.workers.config.lab import Lab, load_lab

_COMMIT = """\
commit refs/heads/{branch}
committer C <c@example.org> 1700000000 +0000
data 1
x
"""
_FILE = "M 644 inline sys/amd64/conf/{name}\ndata 0\n\n"
TREES = {"main": ["GENERIC", "GENERIC-NODEBUG"], "stable/14": ["GENERIC"], "bare": []}


def history(folder: Path) -> History:
    captured(["git", "init", "--quiet", "--bare", folder / "tree.git"], check=True)
    stream = "".join(
        _COMMIT.format(branch=branch) + "".join(_FILE.format(name=name) for name in names)
        for branch, names in TREES.items()
    )
    captured(["git", "-C", folder / "tree.git", "fast-import", "--quiet"], input=stream, check=True)
    found = History(folder / "clone", str(folder / "tree.git"))
    found.update()
    return found


def lab(folder: Path, config: str) -> Lab:
    (folder / "ssh").mkdir(exist_ok=True)
    (folder / "ssh" / "config").touch()
    text = lab_toml([TESTBEDS["c2558"]], folder / "tree.git", folder / "ssh" / "config", "NAME")
    (folder / "lab.toml").write_text(text.replace('"NAME"', config))
    return load_lab(folder / "lab.toml")


def test_a_configuration_missing_from_a_branch_is_reported(tmp_path: Path) -> None:
    """GENERIC-NODEBUG exists on main only; branches may have different configurations."""
    tree = history(tmp_path)
    checks = list(kernel_configs(TREES, lab(tmp_path, '"GENERIC-NODEBUG"'), tree))
    missing = "sys/amd64/conf/GENERIC-NODEBUG is not on stable/14, for c2558; "
    missing += "expected one of GENERIC"
    assert [(check.what, check.good, check.found) for check in checks] == [
        ("kernel_config", True, "sys/amd64/conf/GENERIC-NODEBUG is on main, for c2558"),
        ("kernel_config", False, missing),
        ("kernel_config", True, "bare has no sys/amd64/conf to look for GENERIC-NODEBUG in"),
    ]
    table = '{ main = "GENERIC-NODEBUG", "stable/*" = "GENERIC" }'
    checks = list(kernel_configs(TREES, lab(tmp_path, table), tree))
    assert [check.good for check in checks] == [True, True, False]
    assert "kernel_config has nothing for the branch 'bare'" in checks[2].found
