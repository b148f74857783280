"""From DDS to the edge: the samples of one topic's writers, published in the order in which they were taken.

One publication is under way at a time, and carries all that came meanwhile; while the edge does not answer, samples
wait, and when too many do, none are taken from DDS.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from fieldfare.errors import RefusedError
from fieldfare.qos import Offered
from fieldfare.runtime.dds.context import BridgeContext
from fieldfare.runtime.dds.discovery import IntakeKey, Taken
from fieldfare.runtime.dds.held import Held

_EVENTS_MAX, _BYTES_MAX = 500, 1024 * 1024  # in one publication
_RETRY_SECONDS = 1.0  # when the edge has no room for more events


class Inflow:
    """The samples of one DDS topic on their way to the edge."""

    def __init__(
        self, context: BridgeContext, dds_topic: str, topic: str, on_published_all: Callable[[], None]
    ) -> None:
        self._context, self._dds_topic, self._topic = context, dds_topic, topic
        self._on_published_all = on_published_all
        self.held: Held[Taken] = Held(context.options)
        self._waiting: deque[Taken] = deque()
        self._is_waiting = asyncio.Event()
        self.is_empty = asyncio.Event()  # the opposite
        self.is_empty.set()
        self._offered: asyncio.Future[Offered] = asyncio.get_running_loop().create_future()

    def declared(self, offered: Offered) -> None:
        """The topic is there, and offers this."""
        if self._offered.done():
            self._offered = asyncio.get_running_loop().create_future()
        self._offered.set_result(offered)

    def take(self, key: IntakeKey, samples: Sequence[Taken]) -> None:
        """Samples were taken from DDS: publish them, or hold them while another bridge does."""
        if self._context.is_carrying:
            self._wait(samples)
            return
        now = self._context.now()
        for sample in samples:
            self.held.add(sample.id.event_id, sample, len(sample.event), now)
        self._context.participant.done(key, samples)

    def carry(self) -> int:
        """Publish what was held, since this bridge carries from now on; returns how many samples."""
        held = self.held.take_all(self._context.now())
        for key, samples in _by_intake(held).items():
            self._context.participant.wait_again(key, samples)
        self._wait(held)
        return len(held)

    def _wait(self, samples: Sequence[Taken]) -> None:
        self._waiting.extend(samples)
        if self._waiting:
            self._is_waiting.set()
            self.is_empty.clear()

    async def run(self) -> None:
        """Publish what waits, until cancelled."""
        while True:
            await self._is_waiting.wait()
            offered = await self._offered
            samples = self._next(offered)
            await self._publish(samples, offered)
            for _ in samples:
                self._waiting.popleft()
            if not self._waiting:
                self._is_waiting.clear()
                self.is_empty.set()
                self._on_published_all()
            for key, done in _by_intake(samples).items():
                self._context.participant.done(key, done)

    def _next(self, offered: Offered) -> list[Taken]:
        """The first that wait and can be published together, all with one lifespan."""
        qos = self._waiting[0].writer.policies.published(offered)
        samples: list[Taken] = []
        size_bytes = 0
        for sample in self._waiting:
            size_bytes += len(sample.event)
            is_full = len(samples) == _EVENTS_MAX or size_bytes > _BYTES_MAX
            if samples and (is_full or sample.writer.policies.published(offered) != qos):
                break
            samples.append(sample)
        return samples

    async def _publish(self, samples: Sequence[Taken], offered: Offered) -> None:
        qos = samples[0].writer.policies.published(offered)
        events, ids = [sample.event for sample in samples], [sample.id.event_id for sample in samples]
        while True:
            try:
                answer = await self._context.client.publish_once(self._topic, events, ids, qos)
            except RefusedError as error:
                if error.code == "limit":
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                if len(samples) > 1:  # one of them may be at fault
                    for sample in samples:
                        await self._publish([sample], offered)
                    return
                self._context.refuse("samples", self._dds_topic, f"the edge refuses a sample: {error}")
                return
            self._context.counts["published"] += answer.count - answer.duplicates
            self._context.counts["repeated"] += answer.duplicates
            return


def _by_intake(samples: Sequence[Taken]) -> dict[IntakeKey, list[Taken]]:
    parts: dict[IntakeKey, list[Taken]] = defaultdict(list)
    for sample in samples:
        parts[sample.writer.intake_key].append(sample)
    return parts
