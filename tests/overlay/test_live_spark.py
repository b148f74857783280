"""Real processes and real Spark: what is published at one edge is matched by the pipeline of another one."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import check_java
from tests.runtime.processes import COMMAND, ServiceProcess, environment

import fieldfare
from fieldfare.client.subscription import Subscription
from fieldfare.qos import Requested

_PATIENCE_SECONDS = 240.0  # Spark starts slowly on a busy machine


class EdgeProcess(ServiceProcess):
    """`fieldfare broker --role edge`, which finds the others by gossip."""

    def __init__(self, data: Path, name: str, gossip: str, secret: Path, *arguments: str) -> None:
        super().__init__(data / name)
        common = ("--name", name, "--gossip", gossip, "--secret-file", str(secret), "--listen", "127.0.0.1:0")
        self._arguments = ["broker", "--role", "edge", *self._arguments[1:], *common, *arguments]


@contextmanager
def routing_broker(folder: Path, secret: Path) -> Iterator[str]:
    """A routing broker; gives the address of its gossip."""
    places = ("--listen", "127.0.0.1:0", "--gossip-listen", "127.0.0.1:0", "--data", str(folder / "routing"))
    with (folder / "routing.stderr").open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, "broker", "--role", "routing", *places, "--secret-file", str(secret)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"--gossip (\S+)", line)
        assert found, f"{line!r} {(folder / 'routing.stderr').read_text()}"
        yield found[1]
    finally:
        process.kill()
        process.communicate()


async def take(subscription: Subscription[Any], count: int) -> list[int]:
    taken = []
    async for event in subscription:
        taken.append(event.attributes["n"])
        if len(taken) == count:
            break
    return taken


async def scenario(home: str, there: str) -> list[list[int]]:
    async with fieldfare.connect(home) as at_home, fieldfare.connect(there) as elsewhere:
        await at_home.declare_topic("big", matching="spark")
        qos = Requested(reliability="reliable")
        far = elsewhere.subscribe("big", "n < 25", name="far", qos=qos)
        near = at_home.subscribe("big", "n >= 20", name="near", qos=qos)
        await far
        await near
        await elsewhere.publish("big", [{"n": number} for number in range(20)])
        await at_home.publish("big", [{"n": number} for number in range(20, 40)])
        return [sorted(each) for each in await asyncio.gather(take(far, 25), take(near, 20))]


def test_the_pipeline_of_one_edge_matches_for_another(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    check_java()
    secret = tmp_path / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    with (
        routing_broker(tmp_path, secret) as gossip,
        EdgeProcess(tmp_path, "home", gossip, secret, "--spark") as home,
        EdgeProcess(tmp_path, "there", gossip, secret) as there,
    ):
        got = asyncio.run(asyncio.wait_for(scenario(home.url, there.url), _PATIENCE_SECONDS))
        assert there.stop() == 0
        assert home.stop() == 0
    assert got == [list(range(25)), list(range(20, 40))], json.dumps(got)
