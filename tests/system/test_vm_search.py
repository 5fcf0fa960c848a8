r"""A search on a real FreeBSD in a virtual machine.

    NETBISECT_VM_LAB=lab.toml python -m pytest -s tests/system/test_vm_search.py

The lab file is that of docs/vm-lab.md, with one builder and one prepared virtual machine; its
`repository` is a folder with a FreeBSD tree. The test creates a temporary branch in a clone of it
and takes an hour or more.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from programs import git

from netbisect.workers.config.lab import load_lab

LAB = os.environ.get("NETBISECT_VM_LAB", "")
SOURCE = "sys/netinet/ip_fastfwd.c"
FORWARDED = "\tip->ip_ttl -= IPTTLDEC;\n"
"""A line that runs for every forwarded packet."""
COST = FORWARDED + "\t{ volatile u_int turn; for (turn = 0; turn < 1000; turn++) ; }\n"
PANIC = """
static void search_panic(void *unused) { panic("search: not ready"); }
SYSINIT(search_panic, SI_SUB_PROTO_DOMAIN, SI_ORDER_ANY, search_panic, NULL);
"""
COMMITS, PANICS, FIXED, SLOWER = 17, 6, 7, 11
SETUP = """\
netbisect-lab --lab {lab} build --builder {builder} --revision $NETBISECT_REVISION \
--config {config} > kernel.json"""
MEASURE = r"""
kernel=$(sed -n 's/.*"key":"\([0-9a-f]*\)".*/\1/p' kernel.json)
netbisect-lab --lab {lab} trial --testbed {testbed} --kernel $kernel --kernels {kernels}
status=$?
[ $status = 3 ] && exit 125
exit $status
"""

pytestmark = [pytest.mark.long, pytest.mark.skipif(not LAB, reason="NETBISECT_VM_LAB is not set")]


@dataclass
class Branch:
    """Commits after the HEAD of a tree, in a repository that shares its objects."""

    tree: Path
    repository: Path
    made: list[str] = field(default_factory=list)
    """Hashes, oldest first."""

    def __post_init__(self) -> None:
        clone = ["git", "clone", "-q", "--no-checkout", "--shared", self.tree, self.repository]
        subprocess.run(clone, check=True)
        self.base = self.git("rev-parse", "HEAD")
        text = self.git("show", f"HEAD:{SOURCE}") + "\n"
        assert text.count(FORWARDED) == 1
        self.git("read-tree", "HEAD")
        comment = ""
        for number in range(1, COMMITS + 1):
            if number == PANICS:
                text += PANIC
            elif number == FIXED:
                text = text.replace(PANIC, "")
            elif number == SLOWER:
                text = text.replace(FORWARDED, COST)
            else:
                text = text.removeprefix(comment)
                comment = f"/* {number} */\n"
                text = comment + text
            self.commit(f"ip_fastfwd: {number}", text)

    def git(self, *words: str, stdin: str = "") -> str:
        """Output of git."""
        index = {**os.environ, "GIT_INDEX_FILE": f"{self.repository}.index"}
        return git(self.repository, *words, env=index, input=stdin)

    def commit(self, message: str, text: str) -> None:
        """Adds a commit with this text of the file."""
        blob = self.git("hash-object", "-w", "--stdin", stdin=text)
        self.git("update-index", "--cacheinfo", f"100644,{blob},{SOURCE}")
        parent = self.made[-1] if self.made else self.base
        commit = self.git("commit-tree", self.git("write-tree"), "-p", parent, "-m", message)
        self.made.append(commit)
        self.git("update-ref", "refs/heads/search", commit)


def test_commit_that_makes_forwarding_slower_is_found(tmp_path: Path) -> None:
    """Another commit panics at boot."""
    lab_file = Path(LAB).resolve()
    lab = load_lab(lab_file)
    builder, testbed = lab.builders[0], lab.testbeds[0]
    branch = Branch(Path(lab.source.repository), tmp_path / "tree")
    place = lab_file.with_name("netbisect-search.toml")  # in the same folder, for relative paths
    place.write_text(
        lab_file.read_text().replace(str(lab.source.repository), str(branch.repository))
    )
    words = {
        "lab": place,
        "builder": builder.name,
        "config": testbed.kernel_config,
        "testbed": testbed.name,
        "kernels": builder.directory / "kernels",
    }
    try:
        found = subprocess.run(
            [
                *(sys.executable, "-P", "-c", "from netbisect.cli.main import main; main()"),
                *("bisect", "run", "--good", branch.base, "--bad", "search"),
                *("--metric", r'"pps":([0-9.]+)', "--log", str(tmp_path / "search.log")),
                *("--setup", SETUP.format(**words), "--", "sh", "-c", MEASURE.format(**words)),
            ],
            cwd=branch.repository,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        place.unlink()

    print(found.stdout)
    assert found.returncode == 0
    assert branch.made[SLOWER - 1][:12] in found.stdout
