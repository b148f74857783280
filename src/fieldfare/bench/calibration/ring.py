"""What peers cost: three of them in this process, on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from fieldfare.planning.costs import PeerCost

if TYPE_CHECKING:
    from fieldfare.runtime.peers.peer import Peer

_EVENTS, _WARM_UP, _RUNS = 400, 50, 4
_LARGE_EVENTS, _LARGE_BYTES = 60, 8_000
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
        await _published(first, _WARM_UP, "")
        runs = [await _published(first, _EVENTS // _RUNS, "") for _ in range(_RUNS)]
        _, large_cpu = await _published(first, _LARGE_EVENTS, "x" * _LARGE_BYTES)
    cpu = min(cpu for _, cpu in runs)  # others on the machine can only add to it
    waits = [wait for some, _ in runs for wait in some]
    p50, p99 = np.quantile(waits, (0.5, 0.99)).tolist()
    further = _LARGE_BYTES // reference.piece_bytes * 3  # pieces: to the leaf, and to two subscribers
    hops = _MESSAGES  # one after the other: to the leaf, back, to the subscriber, and its acknowledgement
    message, round_seconds = cpu / _MESSAGES, min(reference.round_seconds, cpu / _MESSAGES / 2)
    return replace(
        reference,
        message_seconds=message,
        piece_seconds=max(1e-6, (large_cpu - cpu) / further),
        hop_seconds=max(1e-5, p50 / hops - message / 2),
        tail_seconds=max(0.0, p99 - p50),
        round_seconds=round_seconds,
    )


async def _published(publisher: Peer, events: int, padding: str) -> tuple[list[float], float]:
    """Seconds until each was taken by all, and processor time for each."""
    waits, cpu = [], time.process_time()
    for number in range(events):
        began = time.perf_counter()
        await publisher.publish("calibration", {"x": number, "padding": padding})
        waits.append(time.perf_counter() - began)
    return waits, (time.process_time() - cpu) / events
