"""Topics of an edge while Kafka is killed, and while its disk is full: what was accepted comes through, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kafka.conftest import Broker, fill, running_server
from tests.kafka.edge_runs import all_sent, in_loop, inflow, linked, outflow, publish, until, until_state
from tests.kafka.test_edge_links import numbered, numbers_in

from fieldfare.runtime.kafka.status import CarrierState


@in_loop
async def test_kafka_is_killed_and_its_disk_is_full(
    small_disk: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with running_server(tmp_path_factory, folder=small_disk) as server:
        broker = Broker(server)
        source, target = broker.topic(2), broker.topic()
        async with linked(tmp_path / "edge", outflow(target), inflow(source)) as (edge, bridge):
            broker.send(source, numbered(0, 100))
            await until(lambda: len(numbers_in(broker, target)) == 100, bridge)
            await asyncio.to_thread(server.kill)
            await publish(edge, 40, first=1_000)  # the edge takes events meanwhile
            for status in bridge.statuses():
                await until_state(status, CarrierState.WAITING)
                assert "does not answer" in status.reason
            await asyncio.to_thread(server.start)
            broker.send(source, numbered(100, 100), partition=1)
            await until(lambda: len(numbers_in(broker, target)) == 240, bridge)
            filler = fill(small_disk)
            await publish(edge, 2_000, first=10_000)  # more than fits what Kafka has open
            await until_state(bridge.statuses()[0], CarrierState.WAITING)
            filler.unlink()
            await asyncio.to_thread(server.kill)  # Kafka stops by itself when its only disk is full
            await asyncio.to_thread(server.start)
            broker.send(source, numbered(200, 10))
            await until(lambda: all_sent(edge, bridge) and len(numbers_in(broker, target)) >= 2_250, bridge)
        found = numbers_in(broker, target)
        assert sorted(found) == [*range(210), *range(1_000, 1_040), *range(10_000, 12_000)]
        assert [number for number in found if number >= 10_000] == list(range(10_000, 12_000))
