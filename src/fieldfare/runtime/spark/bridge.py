"""The bridge of a service to all its pipelines: takes an edge's effects, and answers with inputs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from fieldfare.messages import HandedOver, HandEvents, HandSubscription, Input
from fieldfare.runtime.pipeline_status import PipelineStatus
from fieldfare.runtime.spark.collector import Collector
from fieldfare.runtime.spark.options import SparkOptions, SparkTopic
from fieldfare.runtime.spark.pipeline_subscriptions import PipelineSubscriptions
from fieldfare.runtime.spark.topic_bridge import BridgeContext, TopicBridge
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
        self._bridges: dict[tuple[str, str], TopicBridge] = {}

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
        self._context = BridgeContext(self._options, self._subscriptions, self._threads, on_input, stored_batch)
        self._collector: Collector[HandSubscription] = Collector(
            self._change_subscriptions,
            on_input,
            seconds=_COLLECT_SECONDS,
            together_max=_SUBSCRIPTIONS_TOGETHER_MAX,
            waiting_max=_SUBSCRIPTIONS_WAITING_MAX,
        )
        self._collecting = asyncio.create_task(self._collector.run())
        for topic in known:
            self._bridge(topic.tenant, topic.topic)

    def perform(self, effect: HandEvents | HandSubscription) -> None:
        """Take events, or a change of a subscription; it is answered by one HandedOver."""
        bridge = self._bridge(effect.tenant, effect.topic)
        if isinstance(effect, HandEvents):
            bridge.perform(effect)
        else:
            self._collector.add(effect)

    def why_not_ready(self) -> str | None:
        """Why events of some topic are not matched now; None if all are."""
        return next((reason for bridge in self._bridges.values() if (reason := bridge.why_not_ready)), None)

    def statuses(self, tenant: str) -> list[PipelineStatus]:
        """How far a tenant's pipelines are behind."""
        return [bridge.status() for (owner, _), bridge in self._bridges.items() if owner == tenant]

    async def stop(self) -> None:
        """Finish what was asked for, and end the pipelines after their batches."""
        self._collector.finish()
        await asyncio.wait([self._collecting])
        await asyncio.gather(*(bridge.close() for bridge in self._bridges.values()))
        self._threads.shutdown()
        self._store.close()

    def _bridge(self, tenant: str, topic: str) -> TopicBridge:
        bridge = self._bridges.get((tenant, topic))
        if bridge is None:
            bridge = self._bridges[tenant, topic] = TopicBridge(tenant, topic, self._context)
        return bridge

    async def _change_subscriptions(self, effects: Sequence[HandSubscription]) -> Sequence[HandedOver]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._subscriptions.change, effects)
