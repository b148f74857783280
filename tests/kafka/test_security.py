"""A real broker that asks for TLS and a login: the pipeline's source and output, and topics of an edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from tests.kafka.conftest import Broker
from tests.kafka.edge_runs import all_read, all_sent, events_of, in_loop, inflow, linked, outflow, publish, until
from tests.kafka.output_runs import assert_each_batch_is_there_once, opened, run_batch
from tests.kafka.security import PASSWORD, SASL_SSL, Authority
from tests.kafka.test_edge_links import numbered, numbers_in
from tests.kafka.test_reader import SCHEMA

from fieldfare.errors import KafkaUnavailableError
from fieldfare.kafka import clients, watching
from fieldfare.kafka.address import KafkaTopic, read_settings
from fieldfare.kafka.watching import TopicWatch
from fieldfare.pipeline.kafka.ranges import Range
from fieldfare.pipeline.kafka.reader import RangeReader


@pytest.fixture(scope="module", autouse=True)
def scram_user(broker: Broker) -> None:
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    user = UserScramCredentialUpsertion("ann", mechanism, PASSWORD.encode())
    for future in broker.admin.alter_user_scram_credentials([user]).values():
        future.result(30)


@pytest.fixture(params=["PLAIN", "SCRAM-SHA-256"])
def settings(request: pytest.FixtureRequest, authority: Authority, tmp_path: Path) -> dict[str, str]:
    """As a user has them in a file."""
    file = tmp_path / "kafka.properties"
    lines = [f"{name} = {value}" for name, value in authority.client_settings(request.param).items()]
    file.write_text("# for ann\n" + "\n".join(lines))
    return read_settings(file)


def secured(broker: Broker, topic: KafkaTopic, settings: dict[str, str]) -> KafkaTopic:
    return KafkaTopic(broker.server.address_of(SASL_SSL), topic.name, settings)


def test_the_pipelines_source_and_output(broker: Broker, settings: dict[str, str], tmp_path: Path) -> None:
    source, target = broker.topic(), broker.topic()
    broker.send(source, numbered(0, 50))
    reader = RangeReader(secured(broker, source, settings), "pipeline", SCHEMA)
    batches = list(reader.read([Range(0, 0, 50, 0, 0)]))
    assert [number for batch in batches for number in batch.column("n").to_pylist()] == list(range(50))
    output = opened(secured(broker, target, settings), tmp_path)
    for batch_id in range(2):
        run_batch(output, batch_id, "run")
    messages = [message.value() or b"" for message in broker.read(target.name)]
    letters = [message.value() or b"" for message in broker.read(f"{target.name}-dead-letters")]
    assert_each_batch_is_there_once(messages, letters, 2)


@in_loop
async def test_topics_of_an_edge(broker: Broker, settings: dict[str, str], tmp_path: Path) -> None:
    source, target = broker.topic(), broker.topic()
    broker.send(source, numbered(1_000, 20))
    feed, drain = inflow(secured(broker, source, settings)), outflow(secured(broker, target, settings))
    async with linked(tmp_path / "in", feed) as (edge, bridge):
        await until(lambda: all_read(bridge), bridge)
        assert [event["n"] for event in await events_of(edge, "news")] == list(range(1_000, 1_020))
    async with linked(tmp_path / "out", drain) as (edge, bridge):
        await publish(edge, 20)
        await until(lambda: all_sent(edge, bridge), bridge)
    assert numbers_in(broker, target) == list(range(20))


@pytest.mark.parametrize(
    ("change", "words"),
    [({"sasl.password": "canary-that-is-wrong"}, "uthentication"), ({"ssl.ca.location": None}, "certificate")],
)
def test_who_is_not_let_in_is_told_why(
    broker: Broker, authority: Authority, change: dict[str, str | None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "ANSWER_SECONDS", 3.0)
    monkeypatch.setattr(clients, "_reasons", {})
    given = authority.client_settings("PLAIN") | change
    settings = {name: value for name, value in given.items() if value is not None}
    with pytest.raises(KafkaUnavailableError, match=words) as error:
        TopicWatch(secured(broker, broker.topic(), settings)).partitions()
    assert "canary" not in str(error.value)
