"""What peers cost: three of them in this process, on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from fieldfare.planning.costs import PeerCost

_PEERS, _EVENTS, _WARM_UP = 3, 300, 50
_MESSAGES = 4.0  # for an event: to the leaf and back, and to two subscribers


def peer_cost(reference: PeerCost, progress: Callable[[str], None]) -> PeerCost:
    """CPU of a message, and how long a hop takes."""
    progress("three peers")
    return asyncio.run(_measured(reference))


async def _measured(reference: PeerCost) -> PeerCost:
    from fieldfare.runtime.peers.peer import peer

    async with peer() as first, peer(join=first.address) as second, peer(join=first.address) as third:
        for each in (second, third):
            await each.subscribe("calibration", "x >= 0", lambda _: None)
        for number in range(_WARM_UP):
            await first.publish("calibration", {"x": number})
        waits, cpu = [], time.process_time()
        for number in range(_EVENTS):
            began = time.perf_counter()
            await first.publish("calibration", {"x": number})
            waits.append(time.perf_counter() - began)
        cpu = (time.process_time() - cpu) / _EVENTS
    p50, p99 = np.quantile(waits, (0.5, 0.99)).tolist()
    hops = _MESSAGES  # one after the other: to the leaf, back, to the subscriber, and its acknowledgement
    return replace(
        reference,
        message_seconds=cpu / _MESSAGES,
        hop_seconds=max(1e-5, p50 / hops),
        tail_seconds=max(0.0, p99 - p50),
        round_seconds=min(reference.round_seconds, cpu / _MESSAGES / 2),
    )
