"""What is kept of those who say too much."""

from __future__ import annotations

import io
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.transport.limited_output import HeadAndTail, OutputReader

_LEFT_OUT = re.compile(rb"\n\[netbisect: ([0-9]+) more bytes left out\]\n")


@given(st.lists(st.binary(max_size=40)), st.integers(0, 20).map(lambda half: 2 * half))
def test_the_beginning_and_the_end_are_kept(blocks: list[bytes], most: int) -> None:
    """All of it where there is room; or else as much of either, and how much there was between."""
    kept: list[bytes] = []
    ends = HeadAndTail(kept.append, most)
    for block in blocks:
        ends.take(block)
    ends.finish()
    whole, written = b"".join(blocks), b"".join(kept)

    if len(whole) <= most:
        assert written == whole
        return
    half = most // 2
    between = f"\n[netbisect: {len(whole) - most} more bytes left out]\n"
    assert written == whole[:half] + between.encode() + whole[len(whole) - half :]


def test_unwritten_output_is_kept_for_the_end() -> None:
    """As where a disk was full for a moment."""
    kept: list[bytes] = []
    full = True

    def write(block: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        kept.append(block)

    ends = HeadAndTail(write, 1000)
    with pytest.raises(OSError, match="No space"):
        ends.take(b"one ")
    ends.take(b"two")
    full = False
    ends.finish()

    assert b"".join(kept) == b"one two"


def test_endless_output_of_a_child_is_not_awaited() -> None:
    """It meets a broken pipe."""
    kept = io.BytesIO()
    with subprocess.Popen(
        ["sh", "-c", "yes & sleep 0.1"], stdout=subprocess.PIPE, bufsize=0
    ) as process:
        reader = OutputReader(process, kept, 1000)
        assert process.wait(60) == 0
        reader.finish()

    assert _LEFT_OUT.search(kept.getvalue())
