"""What a topic has: its id and partitions, and for each the offsets that can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        self._known: list[int] = []  # the partitions, as they were when they were last asked for

    def partitions(self) -> tuple[str, list[int]]:
        """The topic's id, and its partitions. A topic that was deleted and made anew has another id."""
        return self._described()()

    def _described(self) -> Callable[[], tuple[str, list[int]]]:
        """Ask for the topic's id and partitions; what is returned waits for the answer."""
        names = TopicCollection([self._topic.name])
        with kafka_errors(self._topic, self._admin):
            asked = self._admin.describe_topics(names, request_timeout=ANSWER_SECONDS)

        def answer() -> tuple[str, list[int]]:
            with kafka_errors(self._topic, self._admin):
                found = asked[self._topic.name].result()
            return str(found.topic_id), sorted(partition.id for partition in found.partitions)

        return answer

    def bounds(self, topic_id: str | None = None) -> dict[int, Bounds]:
        """What can be read of each partition. With an id, an error if the topic is another one by now."""
        described = self._described()
        ends = self._ends(self._known) if self._known else []  # one question after the other would take thrice as long
        found, partitions = described()
        if topic_id is not None and found != topic_id:
            raise KafkaTopicError(
                f"{self._topic}: the topic was deleted and made anew, so the checkpoint's offsets mean nothing in it: "
                "start with a new checkpoint"
            )
        if partitions != self._known:
            self._known, ends = partitions, self._ends(partitions)
        lows, highs = (answer() for answer in ends)
        return {partition: Bounds(lows[partition], highs[partition]) for partition in partitions}

    def _ends(self, partitions: list[int]) -> list[Callable[[], Offsets]]:
        """Ask for the first and the last stable offsets; what is returned waits for the answers."""
        return [self._asked(partitions, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]

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
        return self._asked(partitions, spec)()

    def _asked(self, partitions: list[int], spec: OffsetSpec) -> Callable[[], Offsets]:
        """Ask for one offset of each partition; what is returned waits for the answer."""
        with kafka_errors(self._topic, self._admin):
            asked = self._admin.list_offsets(
                {TopicPartition(self._topic.name, partition): spec for partition in partitions},
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=ANSWER_SECONDS,
            )

        def answer() -> Offsets:
            with kafka_errors(self._topic, self._admin):
                places = sorted(asked.items(), key=_partition)
                return {place.partition: future.result().offset for place, future in places}

        return answer


def _partition(item: tuple[TopicPartition, object]) -> int:
    return int(item[0].partition)
