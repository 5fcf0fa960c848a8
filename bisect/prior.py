"""Who is likelier before anything is measured: what a commit touches, and how much of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netbisect.bisect.model import Candidate, Commit

_UNIFORM = 0.15
"""Share of the prior that all candidates get alike: a table of paths must not exclude anybody."""

_SOURCES = {
    "em": ("sys/dev/e1000/",),
    "igb": ("sys/dev/e1000/",),
    "lem": ("sys/dev/e1000/",),
    "igc": ("sys/dev/igc/",),
    "ix": ("sys/dev/ixgbe/",),
    "ixv": ("sys/dev/ixgbe/",),
    "ixl": ("sys/dev/ixl/",),
    "iavf": ("sys/dev/iavf/",),
    "ice": ("sys/dev/ice/",),
    "cxgb": ("sys/dev/cxgb/",),
    "cxgbe": ("sys/dev/cxgbe/",),
    "cxl": ("sys/dev/cxgbe/",),
    "cc": ("sys/dev/cxgbe/",),
    "mlx4": ("sys/dev/mlx4/", "sys/ofed/"),
    "mlx4en": ("sys/dev/mlx4/", "sys/ofed/"),
    "mlxen": ("sys/dev/mlx4/", "sys/ofed/"),
    "mlx5": ("sys/dev/mlx5/", "sys/ofed/", "sys/compat/linuxkpi/"),
    "mlx5en": ("sys/dev/mlx5/", "sys/ofed/", "sys/compat/linuxkpi/"),
    "mce": ("sys/dev/mlx5/", "sys/ofed/", "sys/compat/linuxkpi/"),
    "vtnet": ("sys/dev/virtio/",),
    "vmx": ("sys/dev/vmware/",),
    "bnxt": ("sys/dev/bnxt/",),
    "re": ("sys/dev/re/", "sys/dev/rl/"),
}
"""Where a network driver lives; one that is not listed lives in sys/dev/ under its own name."""

_WEIGHTS = (
    # Nothing of these runs in the kernel, though they lie among its sources.
    ("sys/dts/", 0.02),
    ("sys/tests/", 0.02),
    ("sys/tools/", 0.2),
    # The path of a packet.
    ("sys/net/", 1.0),
    ("sys/netinet/", 1.0),
    ("sys/netinet6/", 1.0),
    ("sys/netpfil/", 1.0),
    ("sys/netipsec/", 0.5),
    ("sys/net", 0.3),
    # What every path runs through.
    ("sys/kern/", 0.8),
    ("sys/vm/", 0.8),
    ("sys/sys/", 0.8),
    ("sys/conf/", 0.8),
    ("sys/libkern/", 0.6),
    ("sys/x86/", 0.6),
    ("sys/amd64/", 0.6),
    ("sys/arm64/", 0.6),
    ("sys/dev/pci/", 0.5),
    ("sys/dev/netmap/", 0.4),
    ("sys/crypto/", 0.3),
    ("sys/opencrypto/", 0.3),
    # Drivers that this testbed does not have, file systems, other architectures.
    ("sys/", 0.1),
    # Another compiler, or other flags for it, make other kernels of the same sources.
    ("contrib/llvm-project/", 0.6),
    ("lib/clang/", 0.6),
    ("share/mk/", 0.5),
    ("Makefile.inc1", 0.5),
    ("Makefile", 0.3),
    ("tools/build/", 0.2),
    # How rules are loaded.
    ("sbin/ipfw/", 0.1),
    ("sbin/pfctl/", 0.1),
)
"""How much a path can matter to forwarding, from 0 to 1; the first prefix that fits counts."""
_ELSEWHERE = 0.01
_TEXT = (".md", ".txt", ".rst", "README", *(f".{section}" for section in range(1, 10)))
_DRIVER = 1.0
_UNKNOWN = 0.5
"""For a commit whose paths are not known."""


def weight(commit: Commit, drivers: Sequence[str]) -> float:
    """Weighs a commit by what it touches: the path that matters most, and the size of the diff.

    Args:
        commit: Its paths and its number of lines; without paths it counts as an average change
            of the kernel.
        drivers: Network drivers of the testbed, such as `igb` or `cxgbe`.

    Returns:
        Above 0, and at most 2; not normalised.
    """
    own = tuple(prefix for name in drivers for prefix in _SOURCES.get(name, (f"sys/dev/{name}/",)))
    relevance = max((_relevance(path, own) for path in commit.paths), default=_UNKNOWN)
    # From 1 for a one-liner to 2 for a thousand lines and more: bugs go with lines, but slowly.
    return relevance * (1 + min(1.0, math.log10(1 + commit.lines) / 3))


def _relevance(path: str, own: tuple[str, ...]) -> float:
    if path.endswith(_TEXT):
        return _ELSEWHERE
    if path.startswith(own):
        return _DRIVER
    fitting = (relevance for prefix, relevance in _WEIGHTS if path.startswith(prefix))
    return next(fitting, _ELSEWHERE)


def candidates(commits: Sequence[Commit], drivers: Sequence[str]) -> tuple[Candidate, ...]:
    """Makes candidates of commits, in their order.

    Their weights average 1: 85 % of the whole by `weight`, 15 % alike, so that none is ever 0.
    """
    weights = [weight(commit, drivers) for commit in commits]
    total = math.fsum(weights)
    return tuple(
        Candidate(commit.revision, _UNIFORM + (1 - _UNIFORM) * own * len(commits) / total)
        for commit, own in zip(commits, weights, strict=True)
    )
