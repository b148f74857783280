"""The same job as a FastStream application, in the way its documentation shows: a subscriber that is a publisher too.

FastStream moves messages and checks their types; which subscriptions an event satisfies, the handler has to find out.
It tests every condition, as the loop by hand does. It is not exactly once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from faststream.confluent import KafkaBroker
from pydantic import BaseModel

from fieldfare.bench.kafka.peers import boxes_of, matches
from fieldfare.bench.workload import Workload

_FIRST_SECONDS_MAX = 60.0  # until it has joined its group


class Event(BaseModel):
    """A message as the peer decodes it."""

    event_id: int
    a0: float
    a1: float
    a2: float
    a3: float


class Matched(Event):
    """What goes."""

    subscription_ids: list[int]


def measured(workload: Workload, address: str, source: str, target: str, seconds_max: float) -> float:
    """Events per second from the first message on, for some seconds or until all is read."""
    return asyncio.run(_measured(workload, address, source, target, seconds_max))


async def _measured(workload: Workload, address: str, source: str, target: str, seconds_max: float) -> float:
    broker = KafkaBroker(address, logger=logging.getLogger("faststream"), log_level=logging.DEBUG)
    boxes = boxes_of(workload)
    done = 0
    has_begun, is_over = asyncio.Event(), asyncio.Event()

    @broker.subscriber(source, group_id=f"{target}-readers", auto_offset_reset="earliest")
    @broker.publisher(target)
    async def handle(event: Event) -> Matched:
        nonlocal done
        done += 1
        has_begun.set()
        if done == len(workload.events):
            is_over.set()
        ids = matches(boxes, event.a0, event.a1, event.a2, event.a3)
        return Matched(**event.model_dump(), subscription_ids=ids)

    async with broker:
        await broker.start()
        async with asyncio.timeout(_FIRST_SECONDS_MAX):
            await has_begun.wait()
        began, before = time.perf_counter(), done
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await is_over.wait()
        return (done - before) / (time.perf_counter() - began)
