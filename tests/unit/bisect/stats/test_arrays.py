"""Arrays are computed in one thread."""

from __future__ import annotations

import sys

from programs import captured

_THREADS = """
import netbisect.bisect.stats.arrays
from threadpoolctl import threadpool_info
print(*{one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})
"""


def test_blas_has_one_thread() -> None:
    """By default it has one per processor."""
    done = captured([sys.executable, "-c", _THREADS])

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() in (["1"], [])  # threadpoolctl does not know every BLAS
