"""The user's repository: its commits, and a worktree beside the user's own checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from netbisect.bisect.model import Commit
from netbisect.store.history import History

_OPTIONS = (
    # Of the user's hooks none is meant for a checkout that comes and goes.
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "advice.detachedHead=false"),
)
_OURS = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_LOCATION = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


class RepositoryError(Exception):
    """Something is not as it must be; the text says what, in one sentence."""


def _git(folder: Path, *arguments: str, ask: bool = False) -> str:
    """What git says, without the end of its last line; "" where it is asked and says no."""
    done = _called(folder, *arguments)
    if done.returncode == 0:
        return done.stdout.decode(errors="replace").rstrip("\n")
    if ask:
        return ""
    raise RepositoryError(f"git {arguments[0]} in {folder} failed: {_complaint(done)}")


def _called(
    folder: Path, *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in _LOCATION}
    try:
        return subprocess.run(
            ["git", *_OPTIONS, *arguments],
            cwd=folder,
            env=environment | _OURS,
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise RepositoryError("git is not installed, or not in PATH") from error


def _complaint(done: subprocess.CompletedProcess[bytes]) -> str:
    """The last line of what git says is wrong."""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1].partition(": ")[2] or said[-1] if said else f"exit status {done.returncode}"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that somebody works in."""

    folder: Path
    """Where revisions are looked up; HEAD is that of the checkout around it."""
    common: Path
    """The git directory that all its worktrees share."""

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """The repository that a folder lies in.

        Raises:
            RepositoryError: It lies in none.
        """
        common = _git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir", ask=True)
        if not common:
            raise RepositoryError(f"{folder} lies in no git repository")
        return cls(folder, Path(common))

    @property
    def log(self) -> Path:
        """Where the log of a search is, unless it is told otherwise."""
        return self.common / "netbisect" / "bisect.log"

    def resolve(self, name: str, option: str) -> str:
        """Full hash of the commit that a name means.

        Raises:
            RepositoryError: It means none; the text names the option.
        """
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        revision = _git(self.folder, *arguments, f"{name}^{{commit}}", ask=True)
        if not revision:
            raise RepositoryError(f"{option} {name}: no commit of that name in {self.common}")
        return revision

    def line(self, good: str, bad: str, *, names: tuple[str, str]) -> list[Commit]:
        """The commits that lead from `good` to `bad` along first parents, oldest first.

        Args:
            good: Full hash; left out of the answer.
            bad: Full hash; the last one of the answer.
            names: What the user calls them.

        Raises:
            RepositoryError: They are the same, or the first does not lead to the second.
            HistoryError: The repository cannot be read.
        """
        first, last = f"--good {names[0]}", f"--bad {names[1]}"
        if good == bad:
            raise RepositoryError(
                f"{first} and {last} are the same commit, {good[:12]}: there is nothing to search"
            )
        if self._leads(bad, good):
            raise RepositoryError(
                f"{first} comes after {last}: they are the other way round; "
                "what became better is found with --direction turned round"
            )
        if not self._leads(good, bad):
            raise RepositoryError(f"{first} is not an ancestor of {last}; {self._fork(good, bad)}")
        newer = _git(self.folder, "rev-list", "--first-parent", f"{good}..{bad}").splitlines()
        before = _git(self.folder, "rev-parse", "--verify", "--quiet", f"{newer[-1]}^1", ask=True)
        if before != good:
            raise RepositoryError(
                f"{first} is not on the line of first parents that leads to {last}; "
                f"the commit of that line before it came in is {before[:12]}"
            )
        return History(self.common, str(self.common)).between(good, bad)

    def check_patch(self, content: bytes) -> None:
        """Makes sure that git takes it for a patch.

        Raises:
            RepositoryError: It does not; the text is git's.
        """
        done = _called(self.common, "apply", "--numstat", "-", given=content)
        if done.returncode or not done.stdout:
            raise RepositoryError(_complaint(done) if done.returncode else "it changes no file")

    def commit(self, revision: str) -> Commit:
        """What is known of a commit, by its full hash."""
        return History(self.common, str(self.common)).commit(revision)

    def _leads(self, older: str, newer: str) -> bool:
        return _git(self.folder, "merge-base", older, newer, ask=True) == older

    def _fork(self, good: str, bad: str) -> str:
        base = _git(self.folder, "merge-base", good, bad, ask=True)
        if not base:
            return "they have no commit in common"
        return f"the last commit that both have is {base[:12]}"

    def trees(self, good: str, bad: str) -> dict[str, str]:
        """Hashes of the trees of `good` and of the commits from there to `bad`, by revision."""
        listing = _git(
            self.folder, "log", "--first-parent", "--format=%H %T", f"{good}..{bad}", "--"
        )
        own = _git(self.folder, "rev-parse", f"{good}^{{tree}}")
        return {good: own} | dict(line.split(" ", 1) for line in listing.splitlines())


class Worktree:
    """A checkout beside the user's own, which is there as long as this is entered.

    Its place is noted before it is made, so that whoever comes after a kill can remove it.
    """

    def __init__(self, repository: Repository, folder: Path | None, note: Path) -> None:
        """Nothing is done yet.

        Args:
            repository: Whose worktree it is.
            folder: Where it is to be, new or empty; a new one for temporary files when None.
            note: File for its place.
        """
        self._repository = repository
        self._wanted = folder
        self._note = note
        self.folder = Path()

    def __enter__(self) -> Self:
        """Makes room; the first `check_out` makes the worktree itself.

        Raises:
            RepositoryError: There is something at its place.
        """
        if self._note.exists():
            self.folder = Path(os.fsdecode(self._note.read_bytes()))
            self._remove()
        wanted = self._wanted
        if wanted is None:
            wanted = Path(tempfile.mkdtemp(prefix="netbisect-")) / "tree"
        elif wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise RepositoryError(f"--worktree {wanted}: a new or an empty folder expected")
        self.folder = wanted.absolute()
        self._note.write_bytes(os.fsencode(self.folder))
        return self

    def check_out(self, revision: str) -> None:
        """Makes the worktree that revision: files that git ignores stay, all others do not.

        Raises:
            RepositoryError: It could not be checked out.
        """
        if not (self.folder / ".git").exists():
            _git(
                self._repository.common,
                *("worktree", "add", "--quiet", "--force", "--detach"),
                str(self.folder),
                revision,
            )
        else:
            _git(self.folder, "reset", "--quiet", "--hard")  # away with what patches have added
            _git(self.folder, "checkout", "--quiet", "--force", "--detach", revision)
            _git(self.folder, "clean", "--quiet", "-d", "--force")
        found = _git(self.folder, "rev-parse", "HEAD")
        if found != revision:
            raise RepositoryError(f"{self.folder} is at {found[:12]} instead of {revision[:12]}")

    def apply(self, patch: bytes) -> bool:
        """Puts a patch on top of what is checked out, until the next `check_out`.

        Returns:
            False if its change is there already.

        Raises:
            RepositoryError: It does not apply; the text is git's. Nothing has changed then.
        """
        apply = ("apply", "--index", "--whitespace=nowarn")
        contained = _called(self.folder, *apply, "--check", "--reverse", "-", given=patch)
        if contained.returncode == 0:
            return False
        done = _called(self.folder, *apply, "-", given=patch)
        if done.returncode:
            raise RepositoryError(_complaint(done))
        return True

    def tree(self) -> str:
        """Hash of the tree that is checked out, patches included."""
        return _git(self.folder, "write-tree")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        remove = ("worktree", "remove", "--force", "--force", str(self.folder))
        _git(self._repository.common, *remove, ask=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.name == "tree" and self.folder.parent.name.startswith("netbisect-"):
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        # Again: what was made by half is no worktree to git before its folder is gone.
        _git(self._repository.common, *remove, ask=True)
        self._note.unlink(missing_ok=True)
