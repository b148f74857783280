"""Batches in Kafka topics, through every kind of end that a driver can have; read by a client that knows nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from tests.kafka.conftest import Broker, running_server
from tests.kafka.output_runs import PHASES, assert_each_batch_is_there_once, opened, owner_of, run_batch, staged

from fieldfare.bench.kafka.server import KafkaServer
from fieldfare.errors import EventError, FencedError, KafkaTopicError, KafkaUnavailableError, OutputError
from fieldfare.kafka.address import KafkaTopic
from fieldfare.kafka.clients import kafka_errors
from fieldfare.kafka.sending import send_message
from fieldfare.pipeline.kafka.messages import MessageOptions, MessageWriter, staged_messages
from fieldfare.pipeline.kafka.output import KafkaOutput
from fieldfare.pipeline.kafka.sink import KafkaSink

PROGRAM = Path(__file__).with_name("output_runs.py")
BATCHES = 3


def assert_whole(broker: Broker, topic: KafkaTopic, batches: int) -> None:
    messages = [message.value() for message in broker.read(topic.name)]
    letters = [message.value() for message in broker.read(f"{topic.name}-dead-letters")]
    assert_each_batch_is_there_once(messages, letters, batches)


def test_a_driver_that_is_killed_in_a_commit_leaves_a_batch_whole_or_not_at_all(broker: Broker, tmp_path: Path) -> None:
    topics = [broker.topic(2) for _ in PHASES]
    names = [topic.name for topic in topics]
    command = [sys.executable, str(PROGRAM), topics[0].brokers, str(tmp_path), str(BATCHES), *names]
    said = subprocess.run(command, check=True, timeout=240, capture_output=True, text=True).stdout
    killed, finished = ([int(number) for number in line.split()] for line in said.splitlines())
    assert killed == [signal.SIGKILL] * len(PHASES)
    assert finished == [0] * len(PHASES)
    for topic in topics:
        assert_whole(broker, topic, BATCHES)


def test_a_second_driver_fences_the_first_which_ends(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(2)
    first = opened(topic, tmp_path)
    run_batch(first, 0, "first")
    second = opened(topic, tmp_path)
    assert second.is_committed(0)
    assert not first.is_committed(1)  # it does not know yet
    with pytest.raises(FencedError):
        run_batch(first, 1, "first")
    run_batch(second, 1, "second")
    with pytest.raises(FencedError):  # nor does it come back, and the second one is not disturbed by its trying
        first.is_committed(1)
    run_batch(second, 2, "second")
    assert_whole(broker, topic, 3)


def test_a_driver_that_is_fenced_while_it_sends_ends(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    first = opened(topic, tmp_path)
    client: Any = first._producer
    run_batch(opened(topic, tmp_path), 0, "second")
    client.begin_transaction()
    client.produce(topic.name, b"of the first")
    with pytest.raises(KafkaException, match="fenced"):
        client.flush(30)  # from here on the client knows that it is fenced, and takes no message
    with pytest.raises(FencedError), kafka_errors(topic):
        send_message(client, topic.name, b"another one")
    assert_whole(broker, topic, 1)


def test_a_zombie_with_a_transaction_under_way_loses_it(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    zombie = opened(topic, tmp_path)
    client: Any = zombie._producer
    client.begin_transaction()
    client.produce(topic.name, b"half of a batch")
    client.flush(30)
    second = opened(topic, tmp_path)
    run_batch(second, 0, "second")
    with pytest.raises(Exception, match="fenced"):
        client.commit_transaction(30)
    assert_whole(broker, topic, 1)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A broker that may be killed."""
    with running_server(tmp_path_factory) as server:
        yield server


class Committing:
    """A thread that commits one batch after the other, and goes on where the broker is away."""

    def __init__(self, output: KafkaOutput) -> None:
        self._output = output
        self.done = self.failed = 0
        self.errors: list[Exception] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                run_batch(self._output, self.done, f"attempt at {time.monotonic()}")
                self.done += 1
            except KafkaUnavailableError:
                self.failed += 1
                time.sleep(0.1)
            except Exception as error:  # noqa: BLE001 - the test fails by it
                self.errors.append(error)
                return

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait, unless it has ended by an error."""
        while self._thread.is_alive() and not is_so():
            time.sleep(0.01)

    def wait_for_more(self) -> None:
        reached = self.done + 5
        self.wait_until(lambda: self.done >= reached)


def test_a_broker_that_is_killed_and_started_again_costs_time_only(own_server: KafkaServer, tmp_path: Path) -> None:
    broker = Broker(own_server)
    topic = broker.topic(2)
    with Committing(opened(topic, tmp_path)) as batches:
        for _ in range(2):
            batches.wait_for_more()
            own_server.kill()
            own_server.start()
        batches.wait_for_more()
    assert not batches.errors
    assert_whole(broker, topic, batches.done)


def test_a_commit_whose_answer_was_lost_is_found(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    output = opened(topic, tmp_path)
    run_batch(output, 0, "a")
    output._producer = None  # as after an error, when nobody knows how the transaction ended
    assert output.is_committed(0)
    client: Any = output._producer
    client.begin_transaction()
    client.produce(topic.name, b"never committed")
    client.flush(30)
    output._producer = None
    assert not output.is_committed(1)
    run_batch(output, 1, "b")
    assert_whole(broker, topic, 2)


def test_a_checkpoint_that_is_not_where_the_markers_are_is_refused(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    output = opened(topic, tmp_path)
    for batch_id in range(3):
        run_batch(output, batch_id, "a")
    again = opened(topic, tmp_path)
    assert again.is_committed(2)
    assert not again.is_committed(3)
    with pytest.raises(KafkaTopicError, match="older copy"):
        again.is_committed(1)
    with pytest.raises(KafkaTopicError, match="what is between"):
        again.is_committed(5)


def test_many_markers_of_others_do_not_hide_ones_own(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    run_batch(opened(topic, tmp_path), 0, "a")
    marker = broker.read(f"{topic.name}-commits")[-1]
    broker.send(topic.beside("-commits"), [marker.value()] * 500, key=b"another")
    assert opened(topic, tmp_path).is_committed(0)


def test_topics_that_were_made_anew_are_refused(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    run_batch(opened(topic, tmp_path), 0, "a")
    broker.delete(topic.beside("-commits"))
    with pytest.raises(KafkaTopicError, match="made anew"):
        opened(topic, tmp_path)
    broker.delete(topic)
    with pytest.raises(KafkaTopicError, match="no such topic"):
        opened(topic, tmp_path)


def test_an_output_goes_on_as_it_began(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    opened(topic, tmp_path)
    with pytest.raises(KafkaTopicError, match="one message per event"):
        KafkaOutput(KafkaSink(topic), owner_of(topic), tmp_path, explode=True).prepare()


def test_a_marker_topic_of_somebody_else_is_refused(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.topic(name=f"{topic.name}-commits")
    broker.send(topic.beside("-commits"), [b"not a marker"], key=owner_of(topic).encode())
    with pytest.raises(KafkaTopicError, match="no marker"):
        opened(topic, tmp_path)


def test_a_file_that_is_gone_aborts_the_batch(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    output = opened(topic, tmp_path)
    files = staged(output, 0, "a")
    Path(files[-1].path).unlink()
    with pytest.raises(OutputError, match="not committed"):
        output.commit(0, files)
    run_batch(output, 0, "b")
    assert_whole(broker, topic, 1)


def test_nothing_is_left_in_the_staging_folder(broker: Broker, tmp_path: Path) -> None:
    output = opened(broker.topic(), tmp_path)
    staged(output, 0, "a")  # by a task that lingers
    run_batch(output, 0, "a")
    assert not list((tmp_path / "kafka_staging").iterdir())


def written(options: MessageOptions, folder: Path, events: pa.RecordBatch, ids: pa.Array) -> list[tuple[Any, Any]]:
    with MessageWriter(folder, options) as writer:
        writer.write(events, ids)
        file = writer.close()
        faults = writer.faults
    assert file is not None
    assert not faults
    return [(key, json.loads(value)) for key, value in staged_messages(file.path)]


EVENTS = pa.record_batch({"road": ["A1", "A2", None], "speed": [10, 20, 30]})
IDS = pa.array([["ann", "bob"], [], ["ann"]], pa.list_(pa.string()))


def test_a_message_is_an_event_with_its_subscriptions(tmp_path: Path) -> None:
    assert written(MessageOptions(key="road"), tmp_path, EVENTS, IDS) == [
        (b"A1", {"road": "A1", "speed": 10, "subscription_ids": ["ann", "bob"]}),
        (b"A2", {"road": "A2", "speed": 20, "subscription_ids": []}),
        (None, {"road": None, "speed": 30, "subscription_ids": ["ann"]}),
    ]
    assert len(written(MessageOptions(only_matched=True, key="speed"), tmp_path, EVENTS, IDS)) == 2


def test_or_a_pair_keyed_by_its_subscription(tmp_path: Path) -> None:
    assert written(MessageOptions(explode=True), tmp_path, EVENTS, IDS) == [
        (b"ann", {"road": "A1", "speed": 10, "subscription_id": "ann"}),
        (b"bob", {"road": "A1", "speed": 10, "subscription_id": "bob"}),
        (b"ann", {"road": None, "speed": 30, "subscription_id": "ann"}),
    ]


def test_long_lists_come_in_numbered_pieces_each_within_the_limit(tmp_path: Path) -> None:
    ids = list(range(100_000, 101_000))
    options = MessageOptions(message_bytes_max=1_000, key="speed")
    events = pa.record_batch({"speed": [1, 2]})
    pieces = written(options, tmp_path, events, pa.array([ids, [7]], pa.list_(pa.int64())))
    *long, short = [message for _, message in pieces]
    assert short == {"speed": 2, "subscription_ids": [7]}
    assert [message["piece"] for message in long] == list(range(1, len(long) + 1))
    assert {message["pieces"] for message in long} == {len(long)}
    assert [each for message in long for each in message["subscription_ids"]] == ids
    assert {key for key, _ in pieces[:-1]} == {b"1"}
    sizes = [len(json.dumps(message, separators=(",", ":"))) for message in long]
    assert max(sizes) <= 1_000
    assert min(sizes[:-1]) > 900  # and no more of them than are needed


def test_an_event_that_no_message_can_hold_is_a_dead_letter(tmp_path: Path) -> None:
    events = pa.record_batch({"text": ["x" * 2_000, "short"]})
    with MessageWriter(tmp_path, MessageOptions(message_bytes_max=1_000)) as writer:
        writer.write(events, pa.array([[1, 2], [3]], pa.list_(pa.int64())))
        file = writer.close()
    assert file is not None
    assert (file.rows, file.matches) == (1, 1)
    (fault,) = writer.faults
    assert "too large" in fault.reason
    assert fault.raw.startswith('{"text":"xxx')


def test_the_largest_messages_are_taken_by_the_broker(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    output = opened(topic, tmp_path)
    frame = len('{"text":"","subscription_ids":[]}')
    with MessageWriter(output.stage(0), MessageOptions()) as writer:
        writer.write(pa.record_batch({"text": ["x" * (1_000_000 - frame)]}), pa.array([[]], pa.list_(pa.int64())))
        file = writer.close()
    assert file is not None
    output.commit(0, [file])
    assert [len(message.value() or b"") for message in broker.read(topic.name)] == [1_000_000]


@pytest.mark.parametrize(("name", "key"), [("subscription_ids", None), ("piece", None), ("speed", "road")])
def test_columns_that_messages_cannot_have_are_refused(tmp_path: Path, name: str, key: str | None) -> None:
    with MessageWriter(tmp_path, MessageOptions(key=key)) as writer, pytest.raises(EventError):
        writer.write(pa.record_batch({name: [1]}), pa.array([[1]], pa.list_(pa.int64())))


def test_kafkas_readers_that_do_not_ask_for_committed_messages_may_see_more(broker: Broker) -> None:
    """It is why consumers need isolation.level=read_committed: librdkafka's default, but not Java's."""
    topic = broker.topic()
    client = Producer({**broker.settings, "transactional.id": "x"})
    client.init_transactions(30)
    client.begin_transaction()
    client.produce(topic.name, b"aborted")
    client.flush(30)
    client.abort_transaction(30)
    assert broker.read(topic.name) == []
