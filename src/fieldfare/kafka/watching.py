"""What a topic has: its id and partitions, and for each the offsets that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from fieldfare.errors import InputError, KafkaTopicError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import ANSWER_SECONDS, admin, kafka_errors
from fieldfare.kafka.offsets import Bounds, Offsets
from fieldfare.kafka.starting import EARLIEST, LATEST, Beginning, parsed


class TopicWatch:
    """Asks the brokers about one topic."""

    def __init__(self, topic: KafkaTopic) -> None:
        self._topic = topic
        self._admin = admin(topic)

    def partitions(self) -> tuple[str, list[int]]:
        """The topic's id, and its partitions. A topic that was deleted and made anew has another id."""
        with kafka_errors(self._topic):
            names = TopicCollection([self._topic.name])
            asked = self._admin.describe_topics(names, request_timeout=ANSWER_SECONDS)
            found = asked[self._topic.name].result()
        return str(found.topic_id), sorted(partition.id for partition in found.partitions)

    def bounds(self, topic_id: str | None = None) -> dict[int, Bounds]:
        """What can be read of each partition. With an id, an error if the topic is another one by now."""
        found, partitions = self.partitions()
        if topic_id is not None and found != topic_id:
            raise KafkaTopicError(
                f"{self._topic}: the topic was deleted and made anew, so the checkpoint's offsets mean nothing in it: "
                "start with a new checkpoint"
            )
        lows = self._offsets(partitions, OffsetSpec.earliest())
        highs = self._offsets(partitions, OffsetSpec.latest())
        return {partition: Bounds(lows[partition], highs[partition]) for partition in partitions}

    def beginning(self, starting: str) -> Beginning:
        """Resolve a starting point."""
        topic_id, partitions = self.partitions()
        return Beginning(self._topic.name, topic_id, self._resolved(parsed(starting), partitions))

    def _resolved(self, starting: str | datetime | Offsets, partitions: list[int]) -> Offsets:
        if isinstance(starting, Mapping):
            if set(starting) != set(partitions):
                raise InputError(f"{self._topic} has the partitions {partitions}: name an offset for each of them")
            return dict(sorted(starting.items()))
        if starting == EARLIEST:
            return self._offsets(partitions, OffsetSpec.earliest())
        highs = self._offsets(partitions, OffsetSpec.latest())
        if starting == LATEST or isinstance(starting, str):
            return highs
        found = self._offsets(partitions, OffsetSpec.for_timestamp(int(starting.timestamp() * 1000)))
        return {partition: found[partition] if found[partition] >= 0 else highs[partition] for partition in partitions}

    def _offsets(self, partitions: list[int], spec: OffsetSpec) -> Offsets:
        """One offset for each partition, by one request to each broker."""
        with kafka_errors(self._topic):
            asked = self._admin.list_offsets(
                {TopicPartition(self._topic.name, partition): spec for partition in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=ANSWER_SECONDS,
            )
            return {place.partition: future.result().offset for place, future in sorted(asked.items(), key=_partition)}


def _partition(item: tuple[TopicPartition, object]) -> int:
    return int(item[0].partition)
