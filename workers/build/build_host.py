"""Build accelerators of the host."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from netbisect.workers.config.builder import Builder

_FILEMON = Path("/dev/filemon")
_SECONDS = 30.0
"""Timeout of a simple command, in seconds."""


def fast_options(options: Sequence[str]) -> list[str]:
    """Arguments of make for meta mode and ccache, if available; `options` take precedence."""
    named = " ".join(options)
    found = []
    on_freebsd = platform.system() == "FreeBSD"
    filemon = on_freebsd and (_FILEMON.exists() or _run(["kldload", "-n", "filemon"]) is not None)
    if "META_MODE" not in named and filemon:
        found.append("WITH_META_MODE=yes")
    ccache = shutil.which("ccache")
    if "CCACHE_BUILD" not in named and ccache is not None:
        found += ["WITH_CCACHE_BUILD=yes", f"CCACHE_BIN={ccache}"]
    return found


def compiler_of(builder: Builder) -> str:
    """The host's C compiler, or the cross compiler."""
    return "cc" if builder.cross_bindir is None else str(builder.cross_bindir / "clang")


def version_of(compiler: str) -> str:
    """Version text of a compiler, or ""."""
    return _run([compiler, "--version"]) or ""


def accepts_flag(compiler: str, flag: str) -> bool:
    """Whether a compiler accepts a flag."""
    probe = [compiler, "-Werror", flag, "-E", "-x", "c", "/dev/null"]
    return _run(probe) is not None


def _run(command: list[str]) -> str | None:
    """Output of a command; None if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
