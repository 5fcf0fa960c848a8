"""Parses and formats amounts of disk space."""

from __future__ import annotations

import re

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?) ?([kMGT]i?)?B\Z")
_FACTORS = {
    **{prefix: 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{f"{prefix}i": 1024**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
}


def parse_size(text: str) -> int:
    """Bytes: `20 GB` is 20e9, `20 GiB` is 20 * 2**30.

    Raises:
        ValueError: not an amount, or zero.
    """
    match = _AMOUNT.match(text)
    amount = int(float(match[1]) * _FACTORS.get(match[2] or "", 1)) if match else 0
    if amount <= 0:
        raise ValueError(f"{text!r}: expected an amount of space, such as '20 GB' or '500 MiB'")
    return amount


def format_size(amount: int) -> str:
    """The amount in powers of 1000: `1.5 GB`."""
    for prefix in ("T", "G", "M", "k"):
        if amount >= _FACTORS[prefix]:
            return f"{round(amount / _FACTORS[prefix], 1):g} {prefix}B"
    return f"{amount} B"
