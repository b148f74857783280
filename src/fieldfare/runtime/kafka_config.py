"""What a topic of the settings says of Kafka: `[topics.NAME.kafka]`, or `[[topics.NAME.kafka]]` for several links."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.errors import FieldfareError, InputError
from fieldfare.kafka.address import KafkaTopic, read_settings
from fieldfare.kafka.decoding import MessageFormat, check_format
from fieldfare.kafka.schema_registry import SchemaRegistry
from fieldfare.kafka.starting import EARLIEST, parsed
from fieldfare.language import compile as compile_condition
from fieldfare.messages import ConditionText, Name

if TYPE_CHECKING:
    from fieldfare.runtime.kafka.options import InflowOptions, OutflowOptions

_SOURCE_NAME_MAX = 100  # the ids of events, and the names of partitions, are made of it
_GROUP = "fieldfare-edge"


class KafkaIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="direction", tag="in"):
    """The topic is fed from Kafka."""

    topic: str  # kafka://host:9092/topic
    starting: str = EARLIEST  # or latest, a time, offsets: where the first start begins
    group: Name = _GROUP  # where Kafka's tools see how far the edge is; no other edge may use it
    format: MessageFormat = "json"
    settings: str | None = None  # a file of librdkafka's settings, and of the schema registry's
    quarantine: Name | None = None  # the topic of messages that are no events; none: NAME-quarantine


class KafkaOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="direction", tag="out"):
    """The topic feeds Kafka."""

    topic: str
    where: ConditionText = "TRUE"  # which events
    key: Annotated[str, Meta(min_length=1)] | None = None  # the attribute that is the key of messages
    starting: Literal["earliest", "latest"] = "latest"  # earliest: with the events that are alive
    settings: str | None = None
    transactional_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


KafkaLink: TypeAlias = KafkaIn | KafkaOut
KafkaLinks: TypeAlias = KafkaLink | tuple[KafkaLink, ...]


def with_paths(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A topic's table, in which the files that its links name are relative to a folder."""
    links = table.get("kafka")

    def placed(link: Any) -> Any:
        if isinstance(link, dict) and isinstance(link.get("settings"), str):
            return {**link, "settings": str(folder / link["settings"])}
        return link

    return (
        {**table, "kafka": list(map(placed, links)) if isinstance(links, list) else placed(links)}
        if links
        else {**table}
    )


def kafka_options(
    tenant: str, topic: str, links: KafkaLinks, problems: list[str], *, is_kept: bool = True
) -> Iterator[InflowOptions | OutflowOptions]:
    """The valid links of one topic. What is wrong with the others is added to the problems."""
    from fieldfare.runtime.kafka.options import InflowOptions, OutflowOptions

    for link in links if isinstance(links, tuple) else (links,):
        try:
            registry, settings = SchemaRegistry.taken_from(read_settings(Path(link.settings)) if link.settings else {})
            kafka = KafkaTopic.parse(link.topic, settings)
            if isinstance(link, KafkaOut):
                compile_condition(link.where)
                name = _subscription(topic, kafka.name)
                yield OutflowOptions(
                    tenant,
                    topic,
                    kafka,
                    name,
                    link.where,
                    link.key,
                    link.starting == EARLIEST,
                    link.transactional_id or f"fieldfare-{tenant}-{name}",
                )
                continue
            check_format(link.format, registry)
            parsed(link.starting)
            if len(kafka.name) > _SOURCE_NAME_MAX:
                raise InputError(f"{kafka}: a topic that is read has a name of at most {_SOURCE_NAME_MAX} characters")
            if not is_kept:
                raise InputError("events of a topic that keeps none are lost in a crash, and with them the offsets")
            quarantine = link.quarantine or f"{topic}-quarantine"
            yield InflowOptions(tenant, topic, kafka, link.starting, link.group, link.format, registry, quarantine)
        except FieldfareError as error:
            problems.append(f"topics.{topic}.kafka: {error}")


def has_client() -> bool:
    """Whether the extra is installed."""
    return importlib.util.find_spec("confluent_kafka") is not None


def _subscription(topic: str, kafka: str) -> str:
    """The name of the durable subscription of an outflow."""
    name = f"kafka.{topic}.{kafka}"
    if len(name) <= 128:
        return name
    return f"kafka.{topic[:40]}.{hashlib.sha256(name.encode()).hexdigest()[:32]}"
