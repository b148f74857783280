"""Topics of an edge while Kafka is killed, and while its disk is full: what was accepted comes through, once."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.kafka.conftest import Broker, running_server
from tests.kafka.edge_runs import all_sent, in_loop, inflow, linked, outflow, publish, until, until_state
from tests.kafka.test_edge_links import numbered, numbers_in

from fieldfare.runtime.kafka.status import CarrierState


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, which can be full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=96m", "fieldfare-test", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        if os.environ.get("CI") == "true":
            pytest.fail("CI runs as root, and may mount a small tmpfs")
        pytest.skip("mounting a small tmpfs needs root and the permission to mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - whichever is there


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)
    return filler


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
