"""The Spark pipelines of a service, if it has any: the bridge to them, started and stopped with the service."""

from __future__ import annotations

from pathlib import Path

from fieldfare.messages import BatchStored, HandedOver, HandEvents, HandSubscription, UsePipeline
from fieldfare.runtime.config import Settings
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.pipeline_status import PipelineStatus
from fieldfare.runtime.spark import SparkBridge, SparkOptions, SparkTopic


class Pipelines(Capability):
    """What an edge asks of Spark goes through here."""

    def __init__(self, settings: Settings) -> None:
        self._bridge = SparkBridge(_options(settings))
        self._topics: list[SparkTopic] = []
        self._stored_batches: dict[tuple[str, str], int] = {}
        self._is_open = False

    def install(self, host: Host) -> None:
        """Perform what has to do with the pipeline."""
        self._host = host
        host.kernel.provide(UsePipeline, self._use)
        host.kernel.provide(BatchStored, self._batch_stored)
        host.kernel.provide(HandEvents, self._hand)
        host.kernel.provide(HandSubscription, self._hand)

    async def open(self) -> None:
        """Begin, after the node has started and said which topics it has."""
        await self._bridge.start(self._host.tell, self._stored_batch, self._topics)
        self._is_open = True

    async def close(self) -> None:
        """Take nothing more, and finish what was taken."""
        if self._is_open:
            self._is_open = False
            await self._bridge.stop()

    def why_not_ready(self) -> str | None:
        """Why events of some topic are not matched now; None if all are."""
        return self._bridge.why_not_ready()

    def statuses(self, tenant: str) -> list[PipelineStatus]:
        """How far a tenant's pipelines are behind."""
        return self._bridge.statuses(tenant)

    def _use(self, effect: UsePipeline) -> None:
        self._topics.append(SparkTopic(effect.tenant, effect.topic, effect.conditions))
        self._stored_batches[effect.tenant, effect.topic] = effect.batch

    def _batch_stored(self, effect: BatchStored) -> None:
        self._stored_batches[effect.tenant, effect.topic] = effect.batch

    def _stored_batch(self, tenant: str, topic: str) -> int:
        return self._stored_batches.get((tenant, topic), -1)

    def _hand(self, effect: HandEvents | HandSubscription) -> None:
        """Pass it on, while there is somebody to take it."""
        if self._is_open:
            self._bridge.perform(effect)
        else:
            self._host.tell(HandedOver(effect.number, "the service is starting or stopping: try again soon"))


def _options(settings: Settings) -> SparkOptions:
    spark = settings.spark
    return SparkOptions(
        folder=Path(settings.server.data) / "spark",
        store=spark.store,
        runs_pipelines=spark.runs_pipelines,
        master=spark.master,
        interval_seconds=spark.interval_seconds,
        schemas={(topic.tenant, name): topic.schema for name, topic in settings.topics.items() if topic.schema},
    )
