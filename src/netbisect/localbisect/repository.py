"""The user's repository: its commits, and a separate worktree."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from netbisect.bisect.model.entities import Commit
from netbisect.errors import UserError
from netbisect.store.git.history import History

_OPTIONS = (
    # The hooks of the user do not apply to a temporary checkout.
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "advice.detachedHead=false"),
    # A fresh checkout has no submodules, and git fails to move them.
    *("-c", "submodule.recurse=false"),
)
_OURS = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
_END = b"\n"
"""Terminator of a complete path in a note."""
LOCATION = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables of git that name the user's checkout, as in a hook or an alias."""


class RepositoryError(UserError):
    """The repository does not allow the search."""


def _git(folder: Path, *arguments: str, ask: bool = False, task: str = "") -> str:
    """Output of git; "" if it fails and `ask` is true. Errors name the task, if given."""
    done = _called(folder, *arguments)
    if done.returncode == 0:
        return done.stdout.decode(errors="replace").rstrip("\n")
    if ask:
        return ""
    task = task or f"{arguments[0]} in {folder}"
    raise RepositoryError(f"git {task} failed: {_complaint(done)}")


def _called(
    folder: Path, *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if name not in LOCATION}
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
    """The first and the last line of the error output of git: the cause is mostly in the first."""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    plain = [(line.partition(": ")[2] or line).rstrip(".") for line in lines]
    return "; ".join(dict.fromkeys(plain[:1] + plain[-1:])) or f"exit status {done.returncode}"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with the user's checkout."""

    folder: Path
    """Folder in the user's checkout; its HEAD is used."""
    common: Path
    """The git directory shared by all worktrees."""

    @classmethod
    def containing(cls, folder: Path) -> Repository:
        """The repository that contains a folder.

        Raises:
            RepositoryError: The folder is not in a repository, or git refuses to read it.
        """
        done = _called(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")
        if not done.returncode:
            return cls(folder, Path(os.fsdecode(done.stdout.rstrip(b"\n"))))
        lines = done.stderr.decode(errors="replace").removeprefix("fatal: ").splitlines()
        found = [line.strip() for line in lines if line.strip()]
        # A line is a sentence, or the beginning of one.
        why = " ".join(one if one.endswith((":", ".")) else f"{one}." for one in found).rstrip(".")
        if why.startswith("not a git repository"):
            why = f"{folder} is not in a git repository"
        raise RepositoryError(why)

    @property
    def log(self) -> Path:
        """Default path of the log."""
        return self.common / "netbisect" / "bisect.log"

    def resolve(self, name: str, option: str) -> str:
        """Full hash of a named commit. Raises RepositoryError if there is none."""
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        revision = _git(self.folder, *arguments, f"{name}^{{commit}}", ask=True)
        if not revision:
            raise RepositoryError(
                f"{option} {name}: no commit of that name in {self.common}{self._shallow_hint()}"
            )
        return revision

    def commits_between(self, good: str, bad: str, *, names: tuple[str, str]) -> list[Commit]:
        """The first-parent commits after `good` up to `bad`, full hashes, oldest first.

        Messages contain the names.

        Raises:
            RepositoryError: `good` is not a first-parent ancestor of `bad`.
            HistoryError: The repository cannot be read.
        """
        first, last = f"--good {names[0]}", f"--bad {names[1]}"
        if good == bad:
            raise RepositoryError(f"{first} and {last} are the same commit, {good[:12]}")
        if self._is_ancestor(bad, good):
            raise RepositoryError(
                f"{first} comes after {last}; to find an improvement, use the other --direction"
            )
        if not self._is_ancestor(good, bad):
            base = _git(self.folder, "merge-base", good, bad, ask=True)
            hint = f"their merge base is {base[:12]}" if base else "they have no common ancestor"
            raise RepositoryError(
                f"{first} is not an ancestor of {last}; {hint}{self._shallow_hint()}"
            )
        *_, (_, before) = self._history.line(f"{good}..{bad}")
        if before != good:
            merged = f"; the latest one that {first} contains is {before[:12]}"
            raise RepositoryError(
                f"{first} is not a first-parent ancestor of {last}"
                f"{merged if before else self._shallow_hint()}"
            )
        return self._history.between(good, bad)

    def check_patch(self, content: bytes) -> None:
        """Checks that git accepts a patch. Raises RepositoryError."""
        done = _called(self.common, "apply", "--numstat", "-", given=content)
        if done.returncode or not done.stdout:
            raise RepositoryError(_complaint(done) if done.returncode else "no files changed")

    def commit(self, revision: str) -> Commit:
        """A commit by its full hash."""
        return self._history.commit(revision)

    def merged_by(self, revision: str) -> tuple[str, str] | None:
        """The ends of the branch that a commit merges: its base and its last commit."""
        parents = self._history.parents(revision)
        base = _git(self.folder, "merge-base", *parents, ask=True) if parents[1:] else ""
        return (base, parents[1]) if base and len(parents) == 2 else None  # noqa: PLR2004

    @property
    def _history(self) -> History:
        return History(self.common, str(self.common))

    def _is_ancestor(self, older: str, newer: str) -> bool:
        return _git(self.folder, "merge-base", older, newer, ask=True) == older

    def _shallow_hint(self) -> str:
        """A hint if the repository is shallow."""
        if _git(self.folder, "rev-parse", "--is-shallow-repository", ask=True) != "true":
            return ""
        return "; the repository is shallow: `git fetch --unshallow` completes it"

    def trees(self, good: str, bad: str) -> dict[str, str]:
        """Tree hashes of `good` and of the commits up to `bad`, by revision."""
        log = ("log", "--first-parent", "--no-show-signature", "--format=%H %T")
        ranges = ("-1", good), (f"{good}..{bad}",)
        lines = [_git(self.folder, *log, *one, "--").split() for one in ranges]
        return {words[i]: words[i + 1] for words in lines for i in range(0, len(words), 2)}


class Worktree:
    """A temporary checkout as a context manager.

    Its path is written to a file first, so that the next call can remove it after a kill.
    """

    def __init__(self, repository: Repository, folder: Path | None, note: Path) -> None:
        """Does nothing yet.

        The folder is new or empty, None for a temporary one; its path is written to `note`.
        """
        self._repository = repository
        self._wanted = folder
        self._note = note
        self.folder = Path()

    def __enter__(self) -> Self:
        """Prepares the folder; the first `check_out` creates the worktree.

        Raises RepositoryError if the folder is not empty.
        """
        # After a kill, the path may be incomplete; an empty one is the current folder.
        if self._note.exists() and (noted := self._note.read_bytes()).endswith(_END):
            self.folder = Path(os.fsdecode(noted.removesuffix(_END)))
            if self._is_own():
                self._remove()
            elif not (self.folder / ".git").exists():  # lets git prune its record
                _git(self._repository.common, "worktree", "unlock", str(self.folder), ask=True)
        wanted = self._wanted
        if wanted is None:
            wanted = Path(tempfile.mkdtemp(prefix="netbisect-")) / "tree"
        elif wanted.exists() and (not wanted.is_dir() or any(wanted.iterdir())):
            raise RepositoryError(f"--worktree {wanted}: expected a new or an empty folder")
        self.folder = wanted.absolute()
        try:
            self._note.write_bytes(os.fsencode(self.folder) + _END)
        except BaseException:
            self._remove()
            raise
        return self

    def check_out(self, revision: str) -> str:
        """Checks out a revision; only ignored files of the previous one stay.

        Returns:
            The hash of its tree.

        Raises:
            RepositoryError: The checkout failed.
        """
        task = f"checkout of {revision[:12]} in {self.folder}"
        if not (self.folder / ".git").exists():
            _git(
                self._repository.common,
                # The folder may be one that a killed call has left behind, and the user emptied.
                *("worktree", "add", "--quiet", "--force", "--force", "--detach", "--lock"),
                str(self.folder),
                revision,
                task=task,
            )
        else:
            self._remove_compiled(revision)
            # Also removes the files that patches added.
            _git(self.folder, "checkout", "--quiet", "--force", "--detach", revision, task=task)
            _git(self.folder, "clean", "--quiet", "-d", "--force", "--force")  # clones, too
        found, tree = _git(self.folder, "rev-parse", "HEAD", "HEAD^{tree}").split()
        if found != revision:
            raise RepositoryError(f"{self.folder} is at {found[:12]}, expected {revision[:12]}")
        return tree

    def apply(self, patch: bytes) -> bool:
        """Applies a patch to the checkout, until the next `check_out`.

        Returns False if the change is already present. Raises RepositoryError if it does not
        apply; nothing has changed.
        """
        apply = ("apply", "--index", "--whitespace=nowarn")
        contained = _called(self.folder, *apply, "--check", "--reverse", "-", given=patch)
        if contained.returncode == 0:
            return False
        done = _called(self.folder, *apply, "-", given=patch)
        if done.returncode:
            raise RepositoryError(_complaint(done))
        return True

    def _remove_compiled(self, revision: str) -> None:
        """Removes the compiled Python modules of files that another revision changes.

        Python uses them if only the size and the second of a change are the same.
        """
        for path in map(self.folder.joinpath, self.changed_files(revision, "--", "*.py")):
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
                with contextlib.suppress(OSError):  # as of a container of the user
                    compiled.unlink()

    def changed_files(self, *against: str) -> set[str]:
        """Names of tracked files that differ from the checkout with its patches, or `against`."""
        options = ("--name-only", "-z", "--no-ext-diff", "--ignore-submodules")
        return set(_git(self.folder, "diff", *options, *against, ask=True).split("\0")) - {""}

    def tree(self) -> str:
        """Hash of the current tree, including patches."""
        return _git(self.folder, "write-tree")

    def _is_own(self) -> bool:
        """Whether the folder is still that of a killed call: a locked worktree.

        The user may have replaced it.
        """
        if not self.folder.exists() or self._is_temporary:
            return True
        if not (self.folder / ".git").exists():  # also a folder in another repository
            return False
        lock = _git(self.folder, "rev-parse", "--git-path", "locked", ask=True)
        return bool(lock) and (self.folder / lock).exists()

    @property
    def _is_temporary(self) -> bool:
        return self.folder.name == "tree" and self.folder.parent.name.startswith("netbisect-")

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _remove(self) -> None:
        remove = ("worktree", "remove", "--force", "--force", str(self.folder))
        _git(self._repository.common, *remove, ask=True)
        for folder, _, _ in os.walk(self.folder):  # read-only ones are left, as of Go's modules
            with contextlib.suppress(OSError):
                Path(folder).chmod(stat.S_IRWXU)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._is_temporary:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        # Again: git removes an incomplete worktree only after its folder.
        _git(self._repository.common, *remove, ask=True)
        self._note.unlink(missing_ok=True)
