"""Real brokers in a WAN in a box: ZooKeeper and a routing broker in a cloud, two networks with an edge and clients.

    with LiveBrokers() as brokers:
        brokers.set_ways({("here", "cloud"): WayQuality(0.04), ...})
        latencies = asyncio.run(brokers.send([Flow.to("news", "here", "there")], 100, REQUESTED))

It needs root, as the WAN does. Clients are in this process, and their sockets in places of their own.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

import fieldfare
from fieldfare.client import aio
from fieldfare.client.subscription import Subscription
from fieldfare.errors import ServiceError
from fieldfare.experiments.certificates import Authority
from fieldfare.experiments.pubsubcoord.networks import CLOUD, Flow
from fieldfare.experiments.pubsubcoord.settings import LAN, OFFERED, PERIOD_SECONDS, VALUES, sample
from fieldfare.experiments.wan import Wan, WayCounts, WayQuality
from fieldfare.qos import Requested
from fieldfare.runtime.tokens import EVERYBODY, TokenFile
from fieldfare.runtime.zookeeper_server import ServerOptions, ZooKeeperServer

NETWORKS = ("here", "there")
_READY_SECONDS = 120.0
_CONFIRM_SECONDS = 60.0
_SETTLE_SECONDS = 0.5
_LAST_SECONDS = 15.0  # for the last samples to arrive
_ROUTES = r"Fieldfare routes at \S+.*\n"
_SERVES = r"Fieldfare is ready at (\S+)\n"
_SOURCES = Path(fieldfare.__file__).parents[1]


class LiveBrokers:
    """A context manager: inside it all runs, afterwards nothing of it is left."""

    def __init__(self) -> None:
        self.wan = Wan([CLOUD, *NETWORKS, *map(clients_of, NETWORKS)])
        self._stack = ExitStack()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._urls: dict[str, str] = {}
        self._tokens: dict[str, str] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(self.wan)
            for network in NETWORKS:
                self.wan.set_ways(network, clients_of(network), WayQuality(LAN.latency_seconds))
            server = ZooKeeperServer(self._folder / "zookeeper", ServerOptions(listen_host="0.0.0.0"))  # noqa: S104 - in a box
            with self.wan[CLOUD].entered():
                stack.enter_context(server)
            self._zookeeper = f"{self.wan[CLOUD].address}:{server.port}"
            self._authority = Authority(self._folder / "authority")
            self._start("routing", CLOUD, _ROUTES)
            for network in NETWORKS:
                self._urls[network] = self._start("edge", network, _SERVES)[1]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self, role: str, place: str, ready: str) -> re.Match[str]:
        """Start a broker in a place, and wait until it says that it is ready."""
        data, address, name = self._folder / place, self.wan[place].address, f"{role}-{place}"
        files = self._authority.files_for(name)
        variables = {
            "LISTEN": f"{address}:0",
            "ZOOKEEPER": self._zookeeper,
            "TLS_CA": str(files.authority),
            "TLS_CERTIFICATE": str(files.certificate),
            "TLS_KEY": str(files.key),
        }
        arguments = ["broker", "--role", role, "--name", name, "--data", str(data), "--host", address, "--port", "0"]
        if role == "edge":
            _, self._tokens[place] = TokenFile(data).create(EVERYBODY.tenant, EVERYBODY.rights, time.time())
            arguments.append("--insecure")
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FIELDFARE_")}
        with (self._folder / f"{name}.log").open("wb") as log:
            process = self.wan[place].start(
                [sys.executable, "-m", "fieldfare", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={
                    **kept,
                    "PYTHONPATH": str(_SOURCES),
                    **{f"FIELDFARE_BROKER_{key}": value for key, value in variables.items()},
                },
            )
        watchdog = threading.Timer(_READY_SECONDS, process.kill)  # then readline returns
        watchdog.start()
        said = process.stdout.readline() if process.stdout is not None else ""
        watchdog.cancel()
        found = re.fullmatch(ready, said)
        if found is None:
            raise ServiceError(f"{name} is not ready: {said!r} {(self._folder / f'{name}.log').read_text()[-2000:]}")
        self._processes[name] = process
        return found

    # What is known of them

    def set_ways(self, ways: Mapping[tuple[str, str], WayQuality]) -> None:
        """Change what the ways between places are like, in both directions."""
        for (one, other), quality in ways.items():
            self.wan.set_ways(one, other, quality)

    def bytes_between(self, before: Mapping[tuple[str, str], WayCounts] | None = None) -> int:
        """What brokers have sent to each other, with the headers of TCP and IP; since an earlier count."""
        counts = self.wan.counts()
        places = (CLOUD, *NETWORKS)
        pairs = [(one, other) for one in places for other in places if one != other]
        return sum(counts[pair].bytes - (before[pair].bytes if before is not None else 0) for pair in pairs)

    def cpu_seconds(self) -> dict[str, float]:
        """The CPU time of each broker's process since its start, by name."""
        return {name: _cpu_seconds(process.pid) for name, process in self._processes.items()}

    # Clients

    async def send(
        self, flows: Sequence[Flow], samples: int, requested: Requested, period_seconds: float = PERIOD_SECONDS
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Send samples of each flow; the latencies in seconds, by topic."""
        async with AsyncExitStack() as stack:
            publishers: dict[str, aio.Client] = {}
            subscribers: dict[str, aio.Client] = {}
            for network in NETWORKS:
                with self.wan[clients_of(network)].entered():  # where the sockets are made
                    for clients in (publishers, subscribers):
                        client = aio.connect(self._urls[network], token=self._tokens[network])
                        clients[network] = await stack.enter_async_context(client)
            for flow in flows:
                await publishers[flow.origin].declare_topic(flow.topic, OFFERED)
            subscriptions = [
                (flow.topic, subscribers[network].subscribe(flow.topic, condition, qos=requested))
                for flow in flows
                for network, condition in flow.receivers.items()
            ]
            async with asyncio.timeout(_CONFIRM_SECONDS):
                for _, subscription in subscriptions:
                    await subscription
            await asyncio.sleep(_SETTLE_SECONDS)
            latencies: dict[str, list[float]] = {flow.topic: [] for flow in flows}
            receiving = [
                asyncio.create_task(_receive(subscription, latencies[topic], samples))
                for topic, subscription in subscriptions
            ]
            await asyncio.gather(*(_publish(publishers[flow.origin], flow, samples, period_seconds) for flow in flows))
            _, late = await asyncio.wait(receiving, timeout=_LAST_SECONDS)
            for task in late:
                task.cancel()
        return {topic: np.array(found) for topic, found in latencies.items()}


async def _publish(client: aio.Client, flow: Flow, samples: int, period_seconds: float) -> None:
    begin = time.monotonic()
    accepted = []
    for number in range(samples):
        await asyncio.sleep(max(0.0, begin + number * period_seconds - time.monotonic()))
        event = msgspec.Raw(sample(time.time(), number % VALUES))
        accepted.append(await client.publish_soon(flow.topic, event))
    await asyncio.gather(*accepted)


async def _receive(subscription: Subscription[dict[str, Any]], latencies: list[float], samples: int) -> None:
    async for event in subscription:
        latencies.append(time.time() - event.attributes["t"])
        if len(latencies) == samples:
            return


def clients_of(network: str) -> str:
    """Where the clients of a network are."""
    return f"clients-{network}"


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
