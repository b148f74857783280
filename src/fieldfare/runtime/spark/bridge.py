"""The bridge as a service has it: effects in, messages out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fieldfare.messages import HandedOver, HandEvents, HandSubscription, Input
from fieldfare.runtime.spark.collector import Collector
from fieldfare.runtime.spark.lane import Lane, Surroundings
from fieldfare.runtime.spark.options import SparkOptions, SparkTopic
from fieldfare.runtime.spark.subscriptions import PipelineSubscriptions
from fieldfare.store.subscription_store import SubscriptionStore, open_store

_THREADS = 8
_COLLECT_SECONDS = 0.02
_SUBSCRIPTIONS_TOGETHER_MAX = 5_000
_SUBSCRIPTIONS_WAITING_MAX = 100_000


class SparkBridge:
    """Performs what an edge asks of the pipeline, and tells it what the pipeline found.

    `perform` is for the time between `start` and `stop`, in the event loop of `start`.
    """

    def __init__(self, options: SparkOptions) -> None:
        self._options = options
        self._threads = ThreadPoolExecutor(_THREADS, "fieldfare-spark")
        self._lanes: dict[tuple[str, str], Lane] = {}

    async def start(
        self,
        on_input: Callable[[Input], None],
        stored_batch: Callable[[str, str], int],
        topics: Iterable[SparkTopic] = (),
    ) -> None:
        """Begin. `stored_batch` tells of a tenant's topic which batch is the last in the edge's log; -1: none."""
        loop = asyncio.get_running_loop()
        known = list(topics)
        self._options.folder.mkdir(parents=True, exist_ok=True)
        self._store: SubscriptionStore = await loop.run_in_executor(
            self._threads, open_store, self._options.store_address
        )
        self._subscriptions = PipelineSubscriptions(self._store)
        await loop.run_in_executor(self._threads, self._subscriptions.begin, known)
        self._around = Surroundings(self._options, self._subscriptions, self._threads, on_input, stored_batch)
        self._collector: Collector[HandSubscription] = Collector(
            self._change_subscriptions,
            on_input,
            seconds=_COLLECT_SECONDS,
            together_max=_SUBSCRIPTIONS_TOGETHER_MAX,
            waiting_max=_SUBSCRIPTIONS_WAITING_MAX,
        )
        self._collecting = asyncio.create_task(self._collector.run())
        for topic in known:
            self._lane(topic.tenant, topic.topic)

    def perform(self, effect: HandEvents | HandSubscription) -> None:
        """Take events, or a change of a subscription; it is answered by one HandedOver."""
        lane = self._lane(effect.tenant, effect.topic)
        if isinstance(effect, HandEvents):
            lane.perform(effect)
        else:
            self._collector.add(effect)

    def why_not_ready(self) -> str | None:
        """Why events of some topic are not matched now; None if all are."""
        return next((reason for lane in self._lanes.values() if (reason := lane.why_not_ready)), None)

    async def stop(self) -> None:
        """Finish what was asked for, and end the pipelines after their batches."""
        self._collector.finish()
        await asyncio.wait([self._collecting])
        await asyncio.gather(*(lane.close() for lane in self._lanes.values()))
        self._threads.shutdown()
        self._store.close()

    def _lane(self, tenant: str, topic: str) -> Lane:
        lane = self._lanes.get((tenant, topic))
        if lane is None:
            lane = self._lanes[tenant, topic] = Lane(tenant, topic, self._around)
        return lane

    async def _change_subscriptions(self, effects: Sequence[HandSubscription]) -> Sequence[HandedOver]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._subscriptions.change, effects)
