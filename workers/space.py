"""Amounts of disk space, as people write them."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B\Z")
_FACTORS = {
    **{prefix: 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
}


def bytes_of(text: str) -> int:
    """How many bytes that is: `20 GB` is 20 thousand million, `20 GiB` is 20 times 2 to the 30.

    Raises:
        ValueError: it is no amount, or it is nothing; the message says what would be right.
    """
    match = _AMOUNT.match(text)
    amount = int(float(match[1]) * _FACTORS.get(match[2] or "", 1)) if match else 0
    if amount <= 0:
        raise ValueError(f"{text!r}: expected an amount of space, such as '20 GB' or '500 MiB'")
    return amount


def words_of(amount: int) -> str:
    """The same for people, in powers of 1000: `1.5 GB`."""
    for prefix in ("T", "G", "M", "k"):
        if amount >= _FACTORS[prefix]:
            return f"{round(amount / _FACTORS[prefix], 1):g} {prefix}B"
    return f"{amount} B"
