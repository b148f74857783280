"""Scripted brokers on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from tests.coordination.scripted import Do, ScriptedNode

from fieldfare.messages import Effect
from fieldfare.runtime.host import Host
from fieldfare.runtime.zookeeper import ZooKeeper, ZooKeeperOptions

WAIT_SECONDS = 60.0


class LiveScene:
    """Hosts by the names of their brokers. A context manager: afterwards all are stopped."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self.options = options
        self.nodes: dict[str, ScriptedNode] = {}
        self.hosts: dict[str, Host] = {}
        self.capabilities: dict[str, ZooKeeper] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.gather(*(self.stop(name) for name in list(self.hosts)))

    async def start(self, node: ScriptedNode, options: ZooKeeperOptions | None = None) -> None:
        name = node.member.name
        capability = ZooKeeper(options or self.options)
        self.nodes[name], self.capabilities[name], self.hosts[name] = node, capability, Host(node, capability)
        await self.hosts[name].start()

    async def stop(self, name: str) -> None:
        host = self.hosts.pop(name)
        del self.capabilities[name]
        await host.stop()

    def do(self, name: str, *effects: Effect) -> None:
        for effect in effects:
            self.hosts[name].tell(Do(effect))

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait until something is so."""
        for _ in range(int(WAIT_SECONDS / 0.01)):
            if is_so():
                return
            await asyncio.sleep(0.01)
        told = {name: node.told for name, node in self.nodes.items()}
        waits = {name: capability.waits() for name, capability in self.capabilities.items()}
        raise AssertionError(f"this did not happen in {WAIT_SECONDS} s; told: {told}; waits: {waits}")

    def session(self, name: str) -> tuple[int, bytes]:
        found: tuple[int, bytes] = self.capabilities[name]._client.client_id
        return found

    async def expire(self, name: str) -> None:
        """End the session of a broker from another connection, so that the broker does not know."""
        await asyncio.to_thread(_end_session, self.options.hosts.partition("/")[0], self.session(name))


def _end_session(hosts: str, session: tuple[int, bytes]) -> None:
    client = KazooClient(hosts, client_id=session)
    client.start()
    client.stop()
    client.close()


def ephemerals(options: ZooKeeperOptions) -> dict[str, int]:
    """The sessions of all ephemeral znodes below a root, by path."""
    client: Any = options.client()
    client.start()
    found: dict[str, int] = {}

    def walk(path: str) -> None:
        stat = client.exists(path)
        if stat is not None and stat.ephemeralOwner:
            found[path] = stat.ephemeralOwner
        for child in client.get_children(path):
            walk(f"{path}/{child}")

    walk(options.tree.root)
    client.stop()
    client.close()
    return found
