"""What is carried between topics of an edge and of Kafka, and what a carrier must know of the edge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.decoding import MessageFormat
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.routing.edge import Edge
from fieldfare.routing.publishers import Publishers


@dataclass(frozen=True, slots=True)
class InflowOptions:
    """From Kafka to a topic of the edge. `group` is the consumer group that shows offsets, of one edge only."""

    tenant: str
    topic: str
    source: KafkaTopic
    starting: str
    group: str
    format: MessageFormat
    registry: SchemaRegistry | None
    quarantine: str  # the topic of the edge that has the messages which are no events


@dataclass(frozen=True, slots=True)
class OutflowOptions:
    """From a topic of the edge to Kafka: the events that satisfy a condition."""

    tenant: str
    topic: str
    target: KafkaTopic
    subscription: str
    condition: str
    key: str | None
    begins_with_alive: bool
    transactional_id: str  # whoever begins with the same one fences this edge


@dataclass(frozen=True, slots=True)
class EdgeView:
    """What is asked of the edge, whose state it is."""

    name: str
    log_id: Callable[[], str]
    last_position: Callable[[], int]
    last_number: Callable[[str, str, str], int]  # of a publisher in a tenant's topic; -1: none
    readers: Callable[[str, str], list[str]]  # the publishers of a tenant's topic that read other logs

    @staticmethod
    def of(edge: Edge) -> EdgeView:
        """What is asked of an edge of this process."""

        def publishers(tenant: str, topic: str) -> Publishers:
            return edge.parts.topics.get_or_make(tenant, topic).publishers

        return EdgeView(
            edge.name,
            lambda: edge.log_id,
            lambda: edge.parts.positions.last,
            lambda tenant, topic, publisher: publishers(tenant, topic).last(publisher),
            lambda tenant, topic: publishers(tenant, topic).readers,
        )
