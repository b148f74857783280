"""The output of the pipeline as Kafka topics, in which each batch appears once, whole, or not at all.

    alerts                  the messages of batches
    alerts-dead-letters     what could not be matched, or sent
    alerts-commits          a marker for each batch

A replayed batch may have another version of the subscriptions and another split into tasks, so nothing that a single
task commits could be right. Tasks only stage. One producer of the driver sends all of a batch, and its marker, in one
transaction, so the marker is there exactly if the batch is. Whatever goes wrong, the way back is the same: a new
producer of the same name ends the open transaction one way or the other, and then the marker tells which way it was.

A run claims the output by a marker of its own. A driver that finds another run's claim, or is fenced, ends.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fieldfare.durable import NewFile, make_folder
from fieldfare.errors import KafkaTopicError, KafkaUnavailableError
from fieldfare.kafka.clients import admin, fenced, kafka_errors
from fieldfare.kafka.markers import MARKERS_SUFFIX, last_marker, markers_topic
from fieldfare.kafka.sending import COMMIT_SECONDS, make_missing, send_message, transactional_producer
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.kafka.messages import MessageOptions, staged_messages
from fieldfare.pipeline.kafka.sink import KafkaSink
from fieldfare.pipeline.reports import BadEvent
from fieldfare.pipeline.writer import WriteOptions, output_errors
from fieldfare.store.outputs import WrittenFile

NONE_YET = -1
DEAD_LETTERS_SUFFIX = "-dead-letters"
_BEGUN_FILE = "kafka_output.json"


class BatchMarker(msgspec.Struct, frozen=True):
    """What is committed."""

    batch_id: int  # NONE_YET: the run has begun, and nothing is committed
    run: str  # of the driver that wrote it
    committed_at: datetime
    events: int = 0
    matches: int = 0
    dead_letters: int = 0
    note: dict[str, Any] = {}


class _Begun(msgspec.Struct, frozen=True):
    """What the checkpoint remembers of its output."""

    topic: str
    topic_id: str
    markers_id: str
    explode: bool


class KafkaOutput:
    """The driver's side of an output. `owner` is an id that lives as long as the checkpoint, which `state` is in."""

    def __init__(self, sink: KafkaSink, owner: str, state: Path, *, explode: bool = False) -> None:
        self._sink = sink
        self._owner = owner
        self._run = uuid.uuid4().hex
        self._state = state
        self._explode = explode
        self._markers = sink.topic.beside(MARKERS_SUFFIX)
        self._dead_letters = sink.topic.beside(DEAD_LETTERS_SUFFIX)
        self._producer: Producer | None = None
        self._marker: BatchMarker | None = None  # the last of this owner's
        self._staging = state / "kafka_staging"

    def prepare(self) -> None:
        """Take the topics over from earlier runs; an error if they are not this checkpoint's."""
        shutil.rmtree(self._staging, ignore_errors=True)
        make_folder(self._staging)
        self._make_topics()
        begun = self._begun()
        self._producer, self._marker = (
            self._new_producer(),
            last_marker(self._markers, self._admin, self._owner, BatchMarker),
        )
        if begun is not None and self._marker is None:
            raise KafkaTopicError(
                f"{self._markers}: the markers of this checkpoint's commits are gone, so nobody knows what is in "
                f"{self._sink.topic.name}: use a new checkpoint and a new topic"
            )
        last = NONE_YET if self._marker is None else self._marker.batch_id
        self._send([], [], BatchMarker(last, self._run, datetime.now(UTC)))
        if begun is None:
            self._remember()

    def task_options(self, write: WriteOptions) -> MessageOptions:
        """How tasks stage messages."""
        return MessageOptions(write.explode, write.only_matched, self._sink.key, self._sink.message_bytes_max)

    def is_committed(self, batch_id: int) -> bool:
        """Whether a batch is there. An error if what is there cannot be of this checkpoint's past."""
        if self._producer is None:
            self._recover()
        last = NONE_YET if self._marker is None else self._marker.batch_id
        if last > batch_id:
            raise KafkaTopicError(
                f"{self._markers}: batch {last} is committed there, but the checkpoint is at batch {batch_id}: it is "
                "an older copy, or another driver writes here; use a new checkpoint and a new topic"
            )
        if NONE_YET < last < batch_id - 1:
            raise KafkaTopicError(
                f"{self._markers}: the last commit there is batch {last}, but the checkpoint is at batch {batch_id}: "
                "what is between went elsewhere or is lost; use a new topic"
            )
        return last == batch_id

    def stage(self, batch_id: int) -> str:
        """A new folder for the tasks of a batch to write into."""
        stage = self._staging / f"{batch_id}-{uuid.uuid4().hex}"
        with output_errors(self._staging):
            stage.mkdir()
        return str(stage)

    def commit(
        self,
        batch_id: int,
        files: Sequence[WrittenFile],
        quarantine: Sequence[BadEvent] = (),
        note: Mapping[str, Any] | None = None,
    ) -> None:
        """Send all of a batch and its marker, in one transaction."""
        marker = BatchMarker(
            batch_id=batch_id,
            run=self._run,
            committed_at=datetime.now(UTC),
            events=sum(file.rows for file in files),
            matches=sum(file.matches for file in files),
            dead_letters=len(quarantine),
            note=dict(note or {}),
        )
        try:
            self._send(files, quarantine, marker)
        finally:
            for stage in self._staging.glob(f"{batch_id}-*"):
                shutil.rmtree(stage, ignore_errors=True)  # a task may linger; the next run removes what is left

    def read_commit(self, batch_id: int) -> None:
        """A topic cannot be read back batch by batch."""

    def close(self) -> None:
        """Let go of the producer."""
        self._producer = None

    @cached_property
    def _admin(self) -> AdminClient:
        return admin(self._sink.topic)

    def _send(self, files: Sequence[WrittenFile], quarantine: Sequence[BadEvent], marker: BatchMarker) -> None:
        """One transaction. After an error nobody knows how it ended, and the producer is given up."""
        client, self._producer = self._producer, None
        if client is None:
            raise KafkaUnavailableError(f"{self._sink.topic}: there is no connection; the batch is tried again")
        with kafka_errors(self._sink.topic), output_errors(self._staging):
            client.begin_transaction()
            for file in files:
                for key, value in staged_messages(file.path):
                    send_message(client, self._sink.topic.name, value, key)
            for fault in quarantine:
                send_message(client, self._dead_letters.name, msgspec.json.encode(fault))
            send_message(client, self._markers.name, msgspec.json.encode(marker), self._owner.encode())
            client.commit_transaction(COMMIT_SECONDS)
        self._producer, self._marker = client, marker

    def _recover(self) -> None:
        """Find out how the last transaction ended, unless another driver has taken over: then this one must end."""
        self._require_claim(stable=True)  # so as not to fence a driver whose claim can be seen
        client = self._new_producer()
        self._require_claim(stable=False)
        self._producer = client

    def _require_claim(self, *, stable: bool) -> None:
        self._marker = last_marker(self._markers, self._admin, self._owner, BatchMarker, stable=stable)
        if self._marker is None or self._marker.run != self._run:
            raise fenced(self._sink.topic)

    def _new_producer(self) -> Producer:
        return transactional_producer(self._sink.topic, f"fieldfare-{self._owner}", self._sink.message_bytes_max)

    def _make_topics(self) -> None:
        """The topics beside the output, if they are not there. The output itself is the user's to make."""
        TopicWatch(self._sink.topic).partitions()
        dead_letters = NewTopic(self._dead_letters.name, num_partitions=1)
        make_missing(self._sink.topic, self._admin, [markers_topic(self._markers), dead_letters])

    def _begun(self) -> _Begun | None:
        """What an earlier run remembers; an error if the topics are others by now."""
        path = self._state / _BEGUN_FILE
        if not path.exists():
            return None
        begun, now = msgspec.json.decode(path.read_bytes(), type=_Begun), self._now()
        if begun == now:
            return begun
        if begun.topic != now.topic:
            return None  # the output was changed on purpose
        if begun.explode != now.explode:
            kind = "pair" if begun.explode else "event"
            raise KafkaTopicError(
                f"{self._sink.topic} has one message per {kind}: go on like that, or use another topic"
            )
        raise KafkaTopicError(
            f"{self._sink.topic}: the topic, or {self._markers.name}, was deleted and made anew since: what was "
            "committed is gone; use a new checkpoint and a new topic"
        )

    def _now(self) -> _Begun:
        output, _ = TopicWatch(self._sink.topic).partitions()
        markers, _ = TopicWatch(self._markers).partitions()
        return _Begun(self._sink.topic.name, output, markers, self._explode)

    def _remember(self) -> None:
        with NewFile(self._state / _BEGUN_FILE) as file:
            file.write(msgspec.json.encode(self._now()))
