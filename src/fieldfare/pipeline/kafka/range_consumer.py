"""A worker's consumer of one topic, kept for the next batches with all that has arrived.

To assign partitions anew waits for the fetch that is under way, and throws away what came with earlier ones. So the
consumer goes on where the last ranges ended, if the next ones begin there, or a little later: then another worker had
the batch between, and what that one has read is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from fieldfare.kafka.offsets import Offsets

_LEFT_OUT_MAX = 10_000  # offsets; to fetch anew is cheaper than to leave out more
_HELD_MAX = 20_000  # messages


class Arrived(NamedTuple):
    """What has come of some ranges."""

    messages: list[Message]
    reached: Offsets  # of partitions: what is before these offsets has come, or does not exist
    faults: list[Message]
    is_any: bool  # whether a message came, of these ranges or not


class RangeConsumer:
    """Reads ranges of offsets. Messages beyond their ends are held for the ranges that follow."""

    def __init__(self, client: Consumer, topic: str) -> None:
        self.client = client
        self.is_fresh = True  # nothing that it has comes from before these ranges
        self._topic = topic
        self._next: Offsets = {}  # of the assigned partitions: what is from here on is held, or will come
        self._held: list[Message] = []
        self._arrived: list[Message] = []  # held before these ranges began
        self._ended: Offsets = {}  # where partitions ended when that was told last: it is not told twice
        self._first: Offsets = {}
        self._ends: Mapping[int, int] = {}

    def begin(self, first: Offsets, ends: Mapping[int, int]) -> None:
        """Read these ranges, and of no other partitions."""
        self.is_fresh = not self._goes_on_to(first)
        if self.is_fresh:
            self._held, self._ended = [], {}
            self.client.assign([TopicPartition(self._topic, *place) for place in first.items()])
        self._next = {}  # until the ranges are read nobody knows
        self._arrived, self._held = self._held, []
        self._first, self._ends = dict(first), ends

    def consume(self, count: int, timeout_seconds: float) -> Arrived:
        """Wait for messages, but not for long."""
        arrived = self._arrived or self.client.consume(count, timeout=timeout_seconds)
        self._arrived = []
        others = [event for event in arrived if event.error() is not None]
        messages = [message for message in arrived if message.error() is None] if others else arrived
        offsets, is_any = _reached(messages, len(self._first)), bool(messages)
        ends, first = self._ends, self._first
        if any(offset > ends[partition] for partition, offset in offsets.items()):
            self._held += [message for message in messages if message.offset() >= ends[message.partition()]]
            messages = [message for message in messages if message.offset() < ends[message.partition()]]
        if not self.is_fresh:
            messages = [message for message in messages if message.offset() >= first[message.partition()]]
        faults = [event for event in others if not self._takes_end(event)]
        for partition, end in self._ended.items():
            offsets[partition] = max(end, offsets.get(partition, 0))
        return Arrived(messages, offsets, faults, is_any)

    def _takes_end(self, event: Message) -> bool:
        """Take note of a partition's end, if an event tells of one: all messages before it have come."""
        error, partition = event.error(), event.partition()
        if error is None or partition is None or error.code() != KafkaError._PARTITION_EOF:
            return False
        self._ended[partition] = max(event.offset() or 0, self._ended.get(partition, 0))
        return True

    def finish(self) -> None:
        """The ranges are read to their ends."""
        if len(self._held) <= _HELD_MAX:
            self._next = {partition: self._ends[partition] for partition in self._first}
        else:
            self.give_up()

    def give_up(self) -> None:
        """Begin anew the next time."""
        self.client.unassign()
        self._next, self._held = {}, []

    def _goes_on_to(self, first: Offsets) -> bool:
        return first.keys() == self._next.keys() and all(
            0 <= offset - self._next[partition] <= _LEFT_OUT_MAX for partition, offset in first.items()
        )


def _reached(messages: Sequence[Message], assigned: int) -> Offsets:
    """The offset after the last message of each of the assigned partitions. Most often the last few messages tell."""
    found: Offsets = {}
    for message in reversed(messages):
        partition = message.partition()
        if partition not in found:
            found[partition] = message.offset() + 1
            if len(found) == assigned:
                break
    return found
