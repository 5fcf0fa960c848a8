"""The clone of a builder, brought to a revision."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from netbisect.bisect.faults import Fault
from netbisect.workers.faults import LabFault
from netbisect.workers.lab import Overlay, Source
from netbisect.workers.logged import LoggedCommands
from netbisect.workers.patches import Patch, level_of

_GIT_TIMEOUT = 3600.0
"""Seconds; a first clone of a FreeBSD tree takes many minutes."""


class Checkout:
    """A work tree that holds exactly one revision, and perhaps fixes on top."""

    def __init__(
        self, tree: Path, source: Source, commands: LoggedCommands, say: Callable[[str], None]
    ) -> None:
        """Nothing is done yet.

        Args:
            tree: folder of the work tree; cloned if it is not there.
            source: what to clone and to fetch from.
            commands: runs git, with its output in the build's log.
            say: takes what happens on the way.
        """
        self.tree = tree
        self.source = source
        self.commands = commands
        self.say = say
        self.patched = False

    def check_out(self, revision: str) -> None:
        """Leaves the tree at the revision, with nothing else in it.

        Files that are the same in both revisions keep their times, so that make sees what changed.

        Raises:
            LabFault: the revision cannot be had.
        """
        self.say(f"checking out {revision[:12]}")
        self.patched = False
        if not (self.tree / ".git").is_dir():
            self._clone(revision)
        for name in ("index.lock", "HEAD.lock"):
            # Left by a git that was killed; nobody else works here.
            (self.tree / ".git" / name).unlink(missing_ok=True)
        if not self._has(revision):
            heads = "+refs/heads/*:refs/remotes/up/*"
            self._git(revision, "fetch", "--force", self.source.repository, heads)
            if not self._has(revision):
                raise LabFault.of(
                    Fault.CHECKOUT,
                    f"revision {revision[:12]} is on no branch of {self.source.repository}",
                )
        self._git(revision, "checkout", "--quiet", "--force", "--detach", revision)
        self._git(revision, "clean", "-qfdx")
        if self.git_says("rev-parse", "HEAD") != revision or self.git_says("status", "--porcelain"):
            raise LabFault.of(
                Fault.CHECKOUT,
                f"the tree in {self.tree} is not revision {revision[:12]} after the checkout",
            )

    def _clone(self, revision: str) -> None:
        """The clone takes its place when it is complete."""
        new = self.tree.with_name(f"{self.tree.name}.new")
        for path in (new, self.tree):
            shutil.rmtree(path, ignore_errors=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        clone = ["clone", "--no-checkout", self.source.repository, str(new)]
        self._git(revision, *clone, inside=False)
        new.replace(self.tree)

    def apply(self, overlay: Overlay, revision: str) -> None:
        """Applies a fix to the tree.

        Raises:
            LabFault: it does not apply.
        """
        self.say(f"applying {overlay.name} to {revision[:12]}")
        self.patched = True
        if self.commands.run(["git", "apply", str(overlay.patch)], cwd=self.tree) != 0:
            raise LabFault.of(
                Fault.DOES_NOT_BUILD,
                f"the overlay {overlay.name} does not apply: {self.commands.last_line()}",
            )

    def state_of(self, *paths: str) -> str:
        """A text that is the same for two trees whose files below these paths are the same."""
        listed = self.git_says("ls-tree", "HEAD", "--", *paths)
        return f"{listed}\n{self.git_says('diff', 'HEAD', '--', *paths)}"

    def apply_patch(self, patch: Patch, path: Path, revision: str) -> None:
        """Applies a patch that people asked for.

        Args:
            patch: what it says.
            path: its file.
            revision: what is checked out.

        Raises:
            LabFault: it does not apply. git itself refuses to write outside of the tree, or
                through a symbolic link.
        """
        self.say(f"applying {patch.mark} to {revision[:12]}")
        self.patched = True
        level = level_of(patch, {place.name for place in self.tree.iterdir()})
        command = ["git", "apply", f"-p{level}", "--whitespace=nowarn", str(path)]
        if self.commands.run(command, cwd=self.tree) != 0:
            raise LabFault.of(
                Fault.DOES_NOT_BUILD,
                f"the patch {patch.mark} does not apply to {revision[:12]}: "
                f"{self.commands.last_line()}",
            )

    def git_says(self, *arguments: str) -> str:
        """What git prints in the tree; "" when it fails."""
        return subprocess.run(
            ["git", *arguments], cwd=self.tree, capture_output=True, text=True, check=False
        ).stdout.strip()

    def _has(self, revision: str) -> bool:
        return self.git_says("cat-file", "-t", f"{revision}^{{commit}}") == "commit"

    def _git(self, revision: str, *arguments: str, inside: bool = True) -> None:
        where = self.tree if inside else None
        status = self.commands.run(["git", *arguments], cwd=where, limit=_GIT_TIMEOUT)
        if status != 0:
            raise LabFault.of(
                Fault.CHECKOUT,
                f"`git {arguments[0]}` failed for revision {revision[:12]}: "
                f"{self.commands.last_line()}",
            )
