"""Prior probability of each commit, from its paths and the size of its diff."""

from __future__ import annotations

import math
from collections.abc import Sequence

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.model.jobs import Candidate

_UNIFORM = 0.15
"""Share of the prior spread evenly, so that no candidate is excluded by its paths."""

_SOURCES = {
    name: tuple(f"sys/{path}/" for path in paths.split())
    for names, paths in {
        "em igb lem": "dev/e1000",
        "ix ixv": "dev/ixgbe",
        "cxgbe cxl cc": "dev/cxgbe",
        "mlx4 mlx4en mlxen": "dev/mlx4 ofed",
        "mlx5 mlx5en mce": "dev/mlx5 ofed compat/linuxkpi",
        "vtnet": "dev/virtio",
        "vmx": "dev/vmware",
        "re": "dev/re dev/rl",
    }.items()
    for name in names.split()
}
"""Source paths of network drivers; the default is sys/dev/NAME/."""

_WEIGHTS = (
    # Not kernel code.
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
    # Common to all paths.
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
    # Other drivers, file systems, other architectures.
    ("sys/", 0.1),
    # Compiler and its flags.
    ("contrib/llvm-project/", 0.6),
    ("lib/clang/", 0.6),
    ("share/mk/", 0.5),
    ("Makefile.inc1", 0.5),
    ("Makefile", 0.3),
    ("tools/build/", 0.2),
    # Firewall configuration.
    ("sbin/ipfw/", 0.1),
    ("sbin/pfctl/", 0.1),
)
"""Relevance to forwarding by path prefix, 0 to 1; the first match counts."""
_ELSEWHERE = 0.01
_TEXT = (".md", ".txt", ".rst", "README", *(f".{section}" for section in range(1, 10)))
_DRIVER = 1.0
_UNKNOWN = 0.5
"""Relevance of a commit with unknown paths."""


def weight(commit: Commit, drivers: Sequence[str]) -> float:
    """Prior weight of a commit: its most relevant path, and the size of its diff.

    Args:
        commit: Without paths, it counts as an average kernel change.
        drivers: Network drivers of the testbed, such as `igb` or `cxgbe`.

    Returns:
        Above 0, at most 2; not normalised.
    """
    own = _sources(drivers)
    return size(commit) * max((_relevance(path, own) for path in commit.paths), default=_UNKNOWN)


def size(commit: Commit) -> float:
    """Weight of a commit by its diff: 1 for one line, 2 from a thousand lines on."""
    return 1 + min(1.0, math.log10(1 + commit.lines) / 3)


def normalized(weights: Sequence[float]) -> list[float]:
    """Prior weights, 1 on average: 85 % as given, 15 % spread evenly, so that none is 0."""
    total = math.fsum(weights)
    return [_UNIFORM + (1 - _UNIFORM) * own * len(weights) / total for own in weights]


def most_relevant(paths: Sequence[str], drivers: Sequence[str]) -> list[str]:
    """The paths of a commit with the largest weight, in their order.

    Args:
        paths: Files that the commit changes.
        drivers: As for `weight`.
    """
    own = _sources(drivers)
    relevance = {path: _relevance(path, own) for path in paths}
    most = max(relevance.values(), default=0.0)
    return [path for path in paths if relevance[path] == most]


def _sources(drivers: Sequence[str]) -> tuple[str, ...]:
    return tuple(prefix for name in drivers for prefix in _SOURCES.get(name, (f"sys/dev/{name}/",)))


def _relevance(path: str, own: tuple[str, ...]) -> float:
    if path.endswith(_TEXT):
        return _ELSEWHERE
    if path.startswith(own):
        return _DRIVER
    fitting = (relevance for prefix, relevance in _WEIGHTS if path.startswith(prefix))
    return next(fitting, _ELSEWHERE)


def candidates(commits: Sequence[Commit], drivers: Sequence[str]) -> tuple[Candidate, ...]:
    """Candidates with normalized prior weights, in the order of the commits."""
    weights = normalized([weight(commit, drivers) for commit in commits])
    return tuple(
        Candidate(commit.revision, own) for commit, own in zip(commits, weights, strict=True)
    )
