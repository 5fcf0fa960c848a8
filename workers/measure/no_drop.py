"""The no-drop rate: the highest rate at which the router loses no packet.

RFC 2544, section 26.1, by binary search, but with short steps around the forwarding rate.
"""

from __future__ import annotations

from collections.abc import Callable

from netbisect.bisect.model import sample_validity
from netbisect.workers.config.scenario import LOSS
from netbisect.workers.measure import pktgen
from netbisect.workers.measure.commands import MeasureError

STEP_SECONDS = 10.0
_LOWEST, _HIGHEST = 0.5, 1.1
"""Bounds of the search, as shares of the forwarding rate."""


def search(
    outputs: pktgen.Outputs,
    steps: int,
    send: Callable[[int], pktgen.Outputs],
    loss: float = LOSS,
) -> float:
    """The no-drop rate in packets per second.

    Args:
        outputs: At a rate that the router does not forward.
        steps: Rates to try; each halves the interval.
        send: Sends at a rate of all generators together.
        loss: Share of lost packets that counts as none.

    Raises:
        MeasureError: it cannot be found; one sentence.
    """
    pps, generators, problems = pktgen.evaluate(outputs)
    if problems:
        raise MeasureError(f"no-drop rate: {problems[0]}")
    offered = sum(generators.values())
    if sample_validity.saturated(pps, offered):
        raise MeasureError(
            f"no-drop rate: the router forwards all of {offered:,.0f} pps; "
            "expected a generator that offers more"
        )
    low, high = lowest, highest = _LOWEST * pps, min(_HIGHEST * pps, offered)
    for _ in range(steps):
        rate = round((low + high) / 2)
        if _loses(send(rate), rate, loss):
            high = rate
        else:
            low = rate
    if low == lowest:
        raise MeasureError(
            f"no-drop rate: packets are lost at every rate from {lowest:,.0f} to {highest:,.0f} pps"
        )
    return low


def _loses(outputs: pktgen.Outputs, rate: int, loss: float) -> bool:
    """Whether more than this share of the packets is lost at this rate.

    Raises:
        MeasureError: a generator did not offer its share of the rate.
    """
    try:
        sent = sum(map(pktgen.total, outputs.sent.values()))
        received = sum(map(pktgen.total, outputs.received.values()))
        offered = {who: pktgen.offered_rate(output) for who, output in outputs.sent.items()}
    except pktgen.PktGenOutputError as error:
        raise MeasureError(f"no-drop rate: at {rate:,} pps: {error}") from error
    share = rate / len(offered)
    for who, pps in offered.items():
        if pps < sample_validity.OFFERED_SHARE * share:
            raise MeasureError(f"no-drop rate: {who} offered {pps:,.0f} of {share:,.0f} pps")
    return sent - received > loss * sent
