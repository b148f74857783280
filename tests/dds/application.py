"""A DDS application in a process of its own: `python -m tests.dds.application DOMAIN`.

It is told what to do by lines of JSON, and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import InstanceState
from cyclonedds.domain import DomainParticipant
from cyclonedds.internal import InvalidSample
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from tests.dds.dds_types import SAMPLES, TYPES

from fieldfare.runtime.dds.policies import policies_of


class Application:
    """One participant and what it has made, by the names that it was told."""

    def __init__(self, domain: int) -> None:
        self._participant = DomainParticipant(domain)
        self._made: dict[str, Any] = {}
        self._taken: dict[str, list[Any]] = {}
        self._publications = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        self._seen: dict[str, Any] = {}

    def make(self, kind: str, name: str, topic: str, type: str, **policies: Any) -> None:  # noqa: A002
        made = Topic(self._participant, topic, TYPES[type])
        endpoint = DataWriter if kind == "writer" else DataReader
        self._made[name] = endpoint(self._participant, made, qos=_qos(**policies))
        self._taken[name] = []

    def end(self, name: str) -> None:
        self._made.pop(name).__del__()

    def write_table(self, name: str, type: str) -> None:  # noqa: A002
        for sample in SAMPLES[type]:
            self._made[name].write(sample)

    def write(self, name: str, type: str, values: list[list[Any]], dispose: bool = False) -> None:  # noqa: A002
        for each in values:
            (self._made[name].dispose if dispose else self._made[name].write)(TYPES[type](*each))

    def count_up(self, name: str, count: int, every_seconds: float, first: int = 0) -> None:
        """Write that many numbers from the first on, in the background."""

        def work() -> None:
            for number in range(first, first + count):
                self._made[name].write(TYPES["Count"](number, ""))
                time.sleep(every_seconds)

        threading.Thread(target=work).start()

    def take(self, name: str) -> list[Any]:
        """All samples since the beginning: as text, with the time of writing and whether the instance is gone."""
        while samples := self._made[name].take(1000):
            for sample in samples:
                info = sample.sample_info
                is_gone = info.instance_state == InstanceState.NotAliveDisposed
                shown = sample.key_sample if isinstance(sample, InvalidSample) else sample
                self._taken[name].append([repr(shown), info.source_timestamp, is_gone])
        return self._taken[name]

    def numbers(self, name: str) -> list[int]:
        """The numbers of all counts since the beginning."""
        return [int(text.partition("number=")[2].partition(",")[0]) for text, _, _ in self.take(name)]

    def matched(self, name: str) -> int:
        made = self._made[name]
        if isinstance(made, DataWriter):
            return int(made.get_publication_matched_status().current_count)
        return int(made.get_subscription_matched_status().current_count)

    def offered(self, topic: str) -> list[Any]:
        """What the writers of a topic in this domain offer."""
        for sample in self._publications.take(1000):
            self._seen.pop(sample.key.hex, None)
            if sample.sample_info.instance_state == InstanceState.Alive:
                self._seen[sample.key.hex] = sample
        found = [policies_of(sample.qos) for sample in self._seen.values() if sample.topic_name == topic]
        return [{name: getattr(each, name) for name in each.__struct_fields__} for each in found]


def _qos(
    *,
    reliable: bool = True,
    transient: bool = False,
    depth: int | None = None,
    late_depth: int | None = None,
    lifespan: float | None = None,
    deadline: float | None = None,
    partition: str | None = None,
) -> Qos:
    policies: list[Any] = [
        Policy.Reliability.Reliable(duration(seconds=10)) if reliable else Policy.Reliability.BestEffort,
        Policy.Durability.TransientLocal if transient else Policy.Durability.Volatile,
        Policy.History.KeepAll if depth is None else Policy.History.KeepLast(depth),
    ]
    if late_depth is not None:
        policies.append(Policy.DurabilityService(0, Policy.History.KeepLast(late_depth), -1, -1, -1))
    if lifespan is not None:
        policies.append(Policy.Lifespan(duration(seconds=lifespan)))
    if deadline is not None:
        policies.append(Policy.Deadline(duration(seconds=deadline)))
    if partition is not None:
        policies.append(Policy.Partition([partition]))
    return Qos(*policies)


def main() -> None:
    application = Application(int(sys.argv[1]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(application, command.pop("do"))(**command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
