"""The clone of a builder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from netbisect.bisect.model.faults import Fault
from netbisect.workers.build.logged_process import LoggedCommands
from netbisect.workers.build.patches import Patch, level_of
from netbisect.workers.config.builder import Overlay, Source
from netbisect.workers.transport.errors import LabFault

_GIT_TIMEOUT = 3600.0
"""Seconds."""
_CLONE_TIMEOUT = 12 * 3600.0
"""Seconds for the first clone; hours on a slow line."""
_GIVES_UP = {
    "GIT_TERMINAL_PROMPT": "0",  # no terminal to answer from
    "GIT_HTTP_LOW_SPEED_LIMIT": "1",  # a server that has gone silent is given up
    "GIT_HTTP_LOW_SPEED_TIME": "300",
}


class Checkout:
    """A work tree at exactly one revision, with optional patches."""

    def __init__(self, tree: Path, source: Source, commands: LoggedCommands) -> None:
        """Describes a work tree, which is cloned if missing; changes nothing yet."""
        self.tree = tree
        self.source = source
        self.commands = commands
        self.say = commands.say
        self.patched = False

    def check_out(self, revision: str) -> None:
        """Checks the revision out and removes everything else.

        Unchanged files keep their times, for make.

        Raises:
            LabFault: the revision is not available.
        """
        self.say(f"checking out {revision[:12]}")
        self.patched = False
        if not (self.tree / ".git").is_dir():
            self._clone(revision)
        for lock in (self.tree / ".git").rglob("*.lock"):
            lock.unlink()  # left by a killed git; no other process uses this tree
        if not self.has(revision):
            heads = "+refs/heads/*:refs/remotes/up/*"
            self._git(revision, "fetch", "--force", "--prune", self.source.repository, heads)
            if not self.has(revision):
                why = f"revision {revision[:12]} is on no branch of {self.source.repository}"
                raise LabFault(Fault.CHECKOUT, why)
        self._git(revision, "checkout", "--quiet", "--force", "--detach", revision)
        self._git(revision, "clean", "-qfdx")
        if self.git_says("rev-parse", "HEAD") != revision or self.git_says("status", "--porcelain"):
            why = f"the tree in {self.tree} is not revision {revision[:12]} after the checkout"
            raise LabFault(Fault.CHECKOUT, why)

    def _clone(self, revision: str) -> None:
        """Clones into a temporary folder, then renames it."""
        new = self.tree.with_name(f"{self.tree.name}.new")
        for path in (new, self.tree):
            shutil.rmtree(path, ignore_errors=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        self.say(
            f"cloning {self.source.repository} for the first time, which takes minutes if it "
            f"is large; {self.commands.log} has the progress"
        )
        clone = ["clone", "--progress", "--no-checkout", self.source.repository, str(new)]
        self._git(revision, *clone, inside=False)
        new.replace(self.tree)

    def apply(self, overlay: Overlay, revision: str) -> None:
        """Applies an overlay; raises LabFault if it does not apply."""
        self._apply(
            overlay.name, revision, f"the overlay {overlay.name} does not apply", str(overlay.patch)
        )

    def state_of(self, *paths: str) -> str:
        """Equal texts for equal files below these paths."""
        listed = self.git_says("ls-tree", "HEAD", "--", *paths)
        return f"{listed}\n{self.git_says('diff', 'HEAD', '--', *paths)}"

    def apply_patch(self, patch: Patch, path: Path, revision: str) -> None:
        """Applies a submitted patch, whose file is at `path`.

        Raises:
            LabFault: it does not apply. git refuses to write outside the tree or
                through symbolic links.
        """
        level = level_of(patch, {place.name for place in self.tree.iterdir()})
        options = [f"-p{level}", "--whitespace=nowarn", str(path)]
        why = f"the patch {patch.mark} does not apply to {revision[:12]}"
        self._apply(patch.mark, revision, why, *options)

    def _apply(self, name: str, revision: str, why: str, *arguments: str) -> None:
        self.say(f"applying {name} to {revision[:12]}")
        self.patched = True
        if self.commands.run(["git", "apply", *arguments], cwd=self.tree) != 0:
            raise LabFault(Fault.DOES_NOT_BUILD, f"{why}: {self.commands.last_line()}")

    def git_says(self, *arguments: str) -> str:
        """Output of git in the tree; "" if it fails.

        Raises:
            LabFault: git was killed by a signal.
        """
        # A diff shows files of any encoding.
        return self.git_gives(*arguments).decode(errors="backslashreplace").strip()

    def git_gives(self, *arguments: str) -> bytes:
        """Output of git as bytes."""
        done = subprocess.run(["git", *arguments], cwd=self.tree, capture_output=True, check=False)
        self.commands.check_not_killed("git", done.returncode)
        return done.stdout if done.returncode == 0 else b""

    def has(self, revision: str) -> bool:
        """Whether the clone has this commit."""
        return self.git_says("cat-file", "-t", f"{revision}^{{commit}}") == "commit"

    def _git(self, revision: str, *arguments: str, inside: bool = True) -> None:
        where = self.tree if inside else None
        limit = _GIT_TIMEOUT if inside else _CLONE_TIMEOUT
        # git gc in the background would keep the lock of the builder.
        command = ["git", "-c", "gc.autoDetach=false", *arguments]
        status = self.commands.run(command, _GIVES_UP, cwd=where, limit=limit)
        if status != 0:
            why = f"`git {arguments[0]}` failed for revision {revision[:12]}"
            raise LabFault(Fault.CHECKOUT, f"{why}: {self.commands.last_line()}")
