"""The Spark pipelines of a service, if it has any: the bridge to them, started and stopped with the service."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from fieldfare.errors import MissingDependencyError
from fieldfare.messages import HandedOver, HandEvents, HandSubscription
from fieldfare.routing.edge import Edge
from fieldfare.runtime.config import Settings
from fieldfare.runtime.host import Host
from fieldfare.runtime.spark import SparkBridge, SparkOptions, SparkTopic


class Pipelines:
    """What an edge asks of Spark goes through here."""

    def __init__(self, settings: Settings, edge: Edge, host: Host) -> None:
        self._edge = edge
        self._host = host
        self._bridge = SparkBridge(_options(settings)) if settings.spark.enabled else None
        self._is_stopping = False

    async def start(self) -> None:
        """Begin, after the edge has recovered."""
        if self._bridge is not None:
            if importlib.util.find_spec("pyspark") is None:
                raise MissingDependencyError("the Spark pipeline needs PySpark: pip install 'fieldfare[spark]'")
            await self._bridge.start(self._host.tell, self._stored_batch, self._topics())
            self._host.pipeline = self

    def perform(self, effect: HandEvents | HandSubscription) -> None:
        """Pass it on, while there is somebody to take it."""
        if self._bridge is None or self._is_stopping:
            self._host.tell(HandedOver(effect.number, "the service is stopping: try again soon"))
        else:
            self._bridge.perform(effect)

    def why_not_ready(self) -> str | None:
        """Why events of some topic are not matched now; None if all are."""
        return None if self._bridge is None else self._bridge.why_not_ready()

    async def stop(self) -> None:
        """Take nothing more, and finish what was taken."""
        if self._host.pipeline is self and self._bridge is not None:
            self._is_stopping = True
            await self._bridge.stop()

    def _stored_batch(self, tenant: str, topic: str) -> int:
        known = self._edge.topics.get((tenant, topic))
        return -1 if known is None else known.stored_batch

    def _topics(self) -> list[SparkTopic]:
        return [
            SparkTopic(
                topic.tenant,
                topic.name,
                {outbox.subscription.id: outbox.subscription.condition for outbox in topic.outboxes.values()},
            )
            for topic in self._edge.topics.values()
            if topic.matching == "spark"
        ]


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
