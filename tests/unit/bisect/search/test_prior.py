"""Prior weights of commits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.bisect.model.entities import Commit
from netbisect.bisect.search.prior import candidates, most_relevant, weight


def commit(*paths: str, lines: int = 10, revision: str = "r1") -> Commit:
    return Commit(revision, 1, "subject", "", "author", "author@example.org", 0.0, paths, lines)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("sys/netinet/ip_fastfwd.c", "sys/kern/kern_mutex.c"),
        ("sys/netpfil/pf/pf.c", "sys/fs/nullfs/null_vnops.c"),
        ("sys/vm/uma_core.c", "sys/netgraph/ng_l2tp.c"),
        ("sys/conf/kern.pre.mk", "sys/dev/sound/pcm/channel.c"),
        ("sys/dev/e1000/if_em.c", "sys/dev/ixgbe/if_ix.c"),
        ("sys/dev/sound/pcm/channel.c", "bin/ls/ls.c"),
        ("contrib/llvm-project/llvm/lib/IR/Core.cpp", "contrib/less/main.c"),
        ("share/mk/bsd.sys.mk", "share/man/man4/em.4"),
        ("sys/net/if.c", None),
        (None, "bin/ls/ls.c"),
    ],
)
def test_forwarding_path_weighs_more(more: str | None, less: str | None) -> None:
    """Unknown paths have average weight."""
    larger, smaller = (commit(path) if path else commit() for path in (more, less))
    assert weight(larger, ["igb"]) > weight(smaller, ["igb"])


@pytest.mark.parametrize(
    ("driver", "path"),
    [
        ("em", "sys/dev/e1000/if_em.c"),
        ("ix", "sys/dev/ixgbe/ix_txrx.c"),
        ("cxgbe", "sys/dev/cxgbe/t4_sge.c"),
        ("mlx5", "sys/dev/mlx5/mlx5_en/mlx5_en_tx.c"),
        ("vtnet", "sys/dev/virtio/network/if_vtnet.c"),
        ("axgbe", "sys/dev/axgbe/if_axgbe_pci.c"),
    ],
)
def test_driver_of_the_testbed_weighs_as_much_as_the_stack(driver: str, path: str) -> None:
    stack = commit("sys/net/iflib.c")

    assert weight(commit(path), [driver]) == weight(stack, [driver])
    assert weight(commit(path), ["ixl"]) < weight(stack, ["ixl"]) / 2


def test_large_diff_weighs_at_most_twice_as_much() -> None:
    small, large = (commit("sys/net/if.c", lines=lines) for lines in (1, 100_000))

    assert weight(small, []) < weight(large, []) <= 2 * weight(small, [])


def test_driver_sources_are_most_relevant() -> None:
    paths = ["share/man/man4/em.4", "sys/dev/e1000/a.c", "sys/fs/b.c", "sys/dev/e1000/b.c"]

    assert most_relevant(paths, ["igb"]) == ["sys/dev/e1000/a.c", "sys/dev/e1000/b.c"]
    assert most_relevant(paths[:1], ["igb"]) == paths[:1]
    assert most_relevant([], ["igb"]) == []


COMMITS = st.lists(
    st.builds(
        commit,
        st.sampled_from(["sys/net/if.c", "bin/ls/ls.c", "README", "sys/fs/x.c", "Makefile"]),
        lines=st.integers(0, 10**6),
    ),
    min_size=1,
)


@given(COMMITS)
def test_every_candidate_has_at_least_15_percent_of_the_mean_weight(commits: list[Commit]) -> None:
    found = candidates(commits, ["igb"])

    assert [candidate.revision for candidate in found] == [one.revision for one in commits]
    assert min(candidate.weight for candidate in found) >= 0.15
    assert sum(candidate.weight for candidate in found) == pytest.approx(len(commits))
