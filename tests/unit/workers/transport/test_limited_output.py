"""Limits on the size of logged output."""

from __future__ import annotations

import io
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netbisect.workers.transport.limited_output import HeadAndTail, OutputReader


@given(st.lists(st.binary(max_size=40)), st.integers(0, 20).map(lambda half: 2 * half))
def test_beginning_and_end_are_kept(blocks: list[bytes], most: int) -> None:
    """Output beyond the limit is replaced in the middle by the number of omitted bytes."""
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


def test_output_of_a_failed_write_is_written_at_the_end() -> None:
    """A disk may be full for a moment."""
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


def test_reader_does_not_wait_for_endless_output_of_a_child() -> None:
    kept = io.BytesIO()
    with subprocess.Popen(
        ["sh", "-c", "yes & sleep 0.1"], stdout=subprocess.PIPE, bufsize=0
    ) as process:
        reader = OutputReader(process, kept, 1000)
        assert process.wait(60) == 0
        reader.finish()

    assert re.search(rb"\n\[netbisect: [0-9]+ more bytes left out\]\n", kept.getvalue())
