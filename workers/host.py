"""What a build host offers that makes builds faster."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from netbisect.workers.lab import Builder

_FILEMON = Path("/dev/filemon")
_SECONDS = 30.0
"""Until a simple command counts as hung."""


def fast_options(options: Sequence[str]) -> list[str]:
    """Arguments of make that have nothing compiled twice, as far as this host can.

    Args:
        options: those of the lab file; what they name, with or without, is left to them.
    """
    named = " ".join(options)
    found = []
    if "META_MODE" not in named and has_filemon():
        found.append("WITH_META_MODE=yes")
    ccache = shutil.which("ccache")
    if "CCACHE_BUILD" not in named and ccache is not None:
        found += ["WITH_CCACHE_BUILD=yes", f"CCACHE_BIN={ccache}"]
    return found


def has_filemon() -> bool:
    """Whether make can see which files a command reads: filemon(4), on FreeBSD alone."""
    on_freebsd = platform.system() == "FreeBSD"
    return on_freebsd and (_FILEMON.exists() or _run(["kldload", "-n", "filemon"]) is not None)


def compiler_of(builder: Builder) -> str:
    """The compiler of the host: `cc`, or the one to cross-build with."""
    return "cc" if builder.cross_bindir is None else str(builder.cross_bindir / "clang")


def version_of(compiler: str) -> str:
    """What a compiler says it is; "" when there is none."""
    return _run([compiler, "--version"]) or ""


def takes(compiler: str, flag: str) -> bool:
    """Whether a compiler knows a flag."""
    probe = [compiler, "-Werror", flag, "-E", "-x", "c", "/dev/null"]
    return _run(probe) is not None


def _run(command: list[str]) -> str | None:
    """What a command prints; None when it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
