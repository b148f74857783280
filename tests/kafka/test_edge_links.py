"""Topics of an edge that are fed from Kafka and feed it: each message once, in its order, whatever is in the topic."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.kafka.conftest import Broker
from tests.kafka.edge_runs import (
    EVENTS,
    IN_PHASES,
    OUT_PHASES,
    all_read,
    all_sent,
    events_of,
    in_loop,
    inflow,
    linked,
    outflow,
    publish,
    until,
    until_state,
)

from fieldfare.kafka.address import KafkaTopic
from fieldfare.runtime.kafka.status import CarrierState


def numbered(first: int, count: int) -> list[bytes]:
    return [b'{"n": %d}' % number for number in range(first, first + count)]


def numbers_in(broker: Broker, topic: KafkaTopic) -> list[int]:
    return [json.loads(message.value() or b"")["n"] for message in broker.read(topic.name)]


def mixed(broker: Broker) -> KafkaTopic:
    """A topic with all that can be in one: EVENTS events and two messages that are none."""
    topic = broker.topic(2)
    broker.transaction(topic, numbered(0, 50))
    broker.transaction(topic, numbered(90_000, 10), commit=False)
    broker.send(topic, [*numbered(50, 50), None, b"junk"])
    for number in range(100, 103):
        broker.transaction(topic, numbered(number, 1))
    broker.send(topic, numbered(103, 7))
    broker.send(topic, [*numbered(110, 40), b'{"n": 1e999}', *numbered(150, EVENTS - 150)], partition=1)
    return topic


@in_loop
async def test_what_is_in_a_topic_is_in_the_edge_once(broker: Broker, tmp_path: Path) -> None:
    topic = mixed(broker)
    async with linked(tmp_path, inflow(topic)) as (edge, bridge):
        await until(lambda: all_read(bridge), bridge)
        found = [event["n"] for event in await events_of(edge, "news")]
        bad = await events_of(edge, "news-quarantine")
        assert sorted(found) == list(range(EVENTS))
        assert [number for number in found if number < 110] == list(range(110))
        assert [number for number in found if number >= 110] == list(range(110, EVENTS))
        assert {each["place"].removeprefix(topic.name) for each in bad} == {"/0:113", "/1:40"}
        assert bridge.statuses()[0].quarantined == 2
    broker.grow(topic, 3)
    broker.send(topic, numbered(EVENTS, 10), partition=2)
    async with linked(tmp_path, inflow(topic, starting="latest")) as (edge, bridge):  # it goes on, and does not begin
        await until(lambda: all_read(bridge), bridge)
        assert sorted(event["n"] for event in await events_of(edge, "news")) == list(range(EVENTS + 10))


@in_loop
async def test_from_kafka_through_an_edge_to_kafka(broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic(), broker.topic(2)
    broker.send(source, numbered(0, EVENTS))
    async with linked(tmp_path, outflow(target, "n >= 10", key="n"), inflow(source)) as (edge, bridge):
        await until(lambda: len(broker.read(target.name)) >= EVENTS - 10, bridge)
        assert edge.edge.parts.topics
    messages = broker.read(target.name)
    assert sorted(json.loads(message.value() or b"")["n"] for message in messages) == list(range(10, EVENTS))
    assert all(message.key() == str(json.loads(message.value() or b"")["n"]).encode() for message in messages)
    for partition in (0, 1):
        numbers = [json.loads(each.value() or b"")["n"] for each in messages if each.partition() == partition]
        assert numbers == sorted(numbers)


@in_loop
async def test_retention_that_was_faster_is_told(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, numbered(0, 10))
    async with linked(tmp_path, inflow(topic)) as (edge, bridge):
        await until(lambda: all_read(bridge), bridge)
    broker.send(topic, numbered(10, 10))
    broker.remove_before(topic, 0, 15)
    async with linked(tmp_path, inflow(topic)) as (edge, bridge):
        await until(lambda: bridge.statuses()[0].lost == 5 and all_read(bridge), bridge)
        assert [event["n"] for event in await events_of(edge, "news")] == [*range(10), *range(15, 20)]
        assert [each["reason"] for each in await events_of(edge, "news-quarantine")] == [
            "retention removed 5 offsets before they were read"
        ]


@in_loop
async def test_a_topic_that_is_missing_is_waited_for_and_one_made_anew_is_not_read(
    broker: Broker, tmp_path: Path
) -> None:
    missing = KafkaTopic(broker.server.address, "missing-at-first")
    async with linked(tmp_path, inflow(missing), outflow(missing.beside("-out"))) as (_, bridge):
        for status in bridge.statuses():
            await until_state(status, CarrierState.WAITING)
            assert "there is no such topic" in status.reason
        topic, _ = broker.topic(name=missing.name), broker.topic(name=f"{missing.name}-out")
        broker.send(topic, numbered(0, 5))
        await until(lambda: all_read(bridge), bridge)
    broker.delete(topic)
    async with linked(tmp_path, inflow(missing)) as (_, bridge):
        await until_state(bridge.statuses()[0], CarrierState.WAITING)
        while missing.name in broker.admin.list_topics(timeout=30).topics:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.05)
        broker.topic(name=missing.name)
        await until_state(bridge.statuses()[0], CarrierState.STOPPED)
        assert "made anew" in (bridge.failure or "")


@in_loop
async def test_a_second_edge_takes_over_and_the_first_never_tries_again(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    async with linked(tmp_path / "a", outflow(topic)) as (first, zombie):
        await publish(first, 40)
        await until(lambda: all_sent(first, zombie), zombie)
        async with linked(tmp_path / "b", outflow(topic)) as (second, bridge):
            await publish(second, 40, first=1_000)
            await until(lambda: all_sent(second, bridge), bridge)
            await publish(first, 40, first=500)
            await until_state(zombie.statuses()[0], CarrierState.STOPPED)
            assert "taken this output over" in (zombie.failure or "")
            await publish(second, 40, first=1_040)
            await until(lambda: all_sent(second, bridge), bridge)
    assert numbers_in(broker, topic) == [*range(40), *range(1_000, 1_080)]


@in_loop
async def test_two_edges_do_not_read_one_topic_in_one_group(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, numbered(0, 5))
    async with linked(tmp_path / "a", inflow(topic)) as (_, bridge):
        await until(lambda: all_read(bridge), bridge)
        async with linked(tmp_path / "b", inflow(topic)) as (_, other):
            await until_state(other.statuses()[0], CarrierState.STOPPED)
            assert "another edge reads it" in (other.failure or "")
        async with linked(tmp_path / "c", inflow(topic, group="c")) as (_, another):
            await until(lambda: all_read(another), another)


@in_loop
async def test_what_is_too_large_for_kafka_is_a_dead_letter(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic(max_message_bytes="2000")
    async with linked(tmp_path, outflow(topic)) as (edge, bridge):
        await publish(edge, 20)
        await edge.publish("news", {"n": 20, "text": "x" * 5_000})
        await publish(edge, 20, first=21)
        await until(lambda: all_sent(edge, bridge), bridge)
        letters = await edge.dead_letters("kafka.news")
        assert [letter["event"]["event"]["n"] for letter in letters] == [20]
        assert numbers_in(broker, topic) == [*range(20), *range(21, 41)]


def test_each_message_is_there_once_though_the_edge_is_killed_in_every_phase(broker: Broker, tmp_path: Path) -> None:
    sources = [mixed(broker)] * len(IN_PHASES)
    targets = [broker.topic() for _ in OUT_PHASES]
    names = [topic.name for topic in (*sources, *targets)]
    command = [sys.executable, "-m", "tests.kafka.edge_runs", broker.server.address, str(tmp_path), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout.splitlines() == ["-9 " * 8 + "-9", "0 " * 8 + "0"], done.stdout + done.stderr[-3000:]
    for topic, phase in zip(sources, IN_PHASES, strict=True):
        told = json.loads((tmp_path / f"in-{phase}" / "told.json").read_text())
        assert Counter(event["n"] for event in told["news"]) == Counter(range(EVENTS)), phase
        places = sorted(each["place"] for each in told["news-quarantine"])
        assert places == [f"{topic.name}/0:113", f"{topic.name}/1:40"], phase
    for topic, phase in zip(targets, OUT_PHASES, strict=True):
        assert numbers_in(broker, topic) == list(range(EVENTS)), phase
