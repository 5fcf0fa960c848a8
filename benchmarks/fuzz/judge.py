"""Says what is wrong with how a parser took an input, and makes inputs to try it with."""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Iterator, Sequence

from benchmarks.fuzz.parsers import Parser

_UNITS = (
    *(b" ", b"\t", b"\n", b"\r", b"\0", b"0", b"9", b"a", b"(", b"[", b"{", b"<", b'"', b"'"),
    *(b":", b";", b",", b".", b"-", b"#", b"@", b"=", b"\x1b", b"\x1b]", b"\x1b[0", b"\\", b"\xff"),
    *(b" a", b"a:", b"[0", b"1 ", b"\xc2\xb2", b"\xe2\x80\xa8"),
)
"""What texts are made of; repeated, they have patterns look for an end that does not come."""
_ODD = (
    *(b"-1", b"1e999", b"nan", b"\xc2\xb2", b"9" * 5000, b"null", b"\xed\xa0\x80", b"..", b"/"),
    *(b"%s", b"\x00", b"[" * 3000, b'{"a":' * 2000, b"\xef\xbb\xbf", b"true", b"[]", b"{}"),
)
"""What programs have been seen to stumble over."""


class TooLongError(BaseException):
    """More time has been taken than any input is worth; nothing below may catch it."""


def _end(*_: object) -> None:
    raise TooLongError


def fault(parser: Parser, data: bytes, seconds: float) -> str:
    """Why this is a crash: another exception than the parser's own, or no end; "" when it is none.

    Args:
        parser: That is fed.
        data: The input.
        seconds: Of processor time that it may take.
    """
    before = signal.signal(signal.SIGVTALRM, _end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        parser.eat(data)
    except parser.refuses:
        return ""
    except TooLongError:
        return f"no end after {seconds:g} s with {len(data):,} bytes"
    except Exception:  # noqa: BLE001 - that is what is looked for
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return ""


def changed(meals: Sequence[bytes], luck: random.Random) -> Iterator[bytes]:
    """Meals with something cut, doubled, exchanged or put in; without end."""
    while True:
        data = bytearray(luck.choice(meals))
        for _ in range(luck.choice((1, 1, 2, 4, 8))):
            start = luck.randrange(len(data) + 1)
            end = min(len(data), start + luck.choice((0, 1, 2, 8, 40)))
            other = luck.choice(meals)
            at = luck.randrange(len(other) + 1)
            data[start:end] = luck.choice(
                (
                    b"",
                    luck.choice(_ODD),
                    luck.choice(_UNITS) * luck.choice((1, 3, 100)),
                    bytes(data[start:end]) * 2,
                    other[at : at + luck.choice((1, 8, 80))],
                    luck.randbytes(luck.choice((1, 4))),
                )
            )
        yield bytes(data)


def stretched(meals: Sequence[bytes], size: int, luck: random.Random) -> Iterator[bytes]:
    """Meals in which one piece is repeated until they have about that size; without end."""
    while True:
        meal = luck.choice(meals)
        start = luck.randrange(len(meal) + 1)
        end = luck.choice((start, len(meal), luck.randrange(start, len(meal) + 1)))
        begin = luck.randrange(len(meal))
        unit = luck.choice((*luck.sample(_UNITS, 3), meal[begin : begin + luck.choice((2, 8, 80))]))
        yield meal[:start] + unit * (size // len(unit)) + meal[end:]
