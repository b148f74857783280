"""A tree of real processes, by a topology file or by neighbours, and what its brokers say of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import msgspec
from tests.overlay_live.deployment import EdgeProcess, Where

from fieldfare.routing.tree.view import TreeView
from fieldfare.runtime.child_server import free_ports

_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.05


class TreeProcess(EdgeProcess):
    """`fieldfare broker --role tree`. It keeps its ports over its lives."""

    _ready = r"Fieldfare is ready at (https?://\S+:\d+) --neighbours \S+"

    def __init__(self, name: str, folder: Path, variables: Mapping[str, str], *more: str) -> None:
        super().__init__(name, folder, Where(), variables)
        self._more = more

    @property
    def _arguments(self) -> tuple[str, ...]:
        return ("--role", "tree", "--port", str(self._port), *self._more)

    def view(self) -> TreeView:
        """What it says of the tree."""
        return msgspec.json.decode(httpx.get(f"{self.url}/v1/tree", timeout=30).content, type=TreeView)


class LiveTree:
    """The brokers of a test, by name. `links` are pairs of names; of each, the second dials the first."""

    def __init__(self, folder: Path, names: Sequence[str], links: Sequence[tuple[str, str]]) -> None:
        self.folder, self.names, self.links = folder, names, links
        ports = free_ports(len(names))
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
        secret = folder / "secret"
        secret.write_text("a secret of tests, which is long enough")
        secret.chmod(0o600)
        self._variables = {"FIELDFARE_BROKER_SECRET_FILE": str(secret)}
        self.edges: dict[str, EdgeProcess] = {}
        self.brokers: dict[str, TreeProcess] = {}

    def _add(self, name: str, *more: str) -> None:
        self.edges[name] = self.brokers[name] = TreeProcess(name, self.folder / name, self._variables, *more)

    def use_neighbours(self) -> None:
        """Tell each broker whom it dials."""
        for name in self.names:
            dialled = [self.addresses[one] for one, other in self.links if other == name]
            neighbours = ("--neighbours", ",".join(dialled)) if dialled else ()
            self._add(name, *neighbours)
            self._variables_of(name)["FIELDFARE_BROKER_LISTEN"] = self.addresses[name]

    def use_topology_file(self, bridged: str, bridge_after_seconds: float) -> None:
        """Give all brokers one file."""
        file = self.folder / "tree.toml"
        lines = [f"links = {[list(link) for link in self.links]}", f"bridge_after_seconds = {bridge_after_seconds}"]
        for name, address in self.addresses.items():
            lines += [f"[brokers.{name}]", f'address = "{address}"']
            lines += ["may_be_bridged = true"] if name == bridged else []
        file.write_text("\n".join(lines))
        for name in self.names:
            self._add(name, "--topology", str(file))
            del self._variables_of(name)["FIELDFARE_BROKER_LISTEN"]

    def _variables_of(self, name: str) -> dict[str, str]:
        return self.brokers[name].variables

    async def start(self) -> None:
        """Start those that are not up, and wait until each knows all."""
        await asyncio.gather(
            *(each.start() for each in self.brokers.values() if not each.has_started or not each.is_up)
        )
        for name in self.names:
            await self.until(name, lambda view: {each.name for each in view.brokers} == set(self.names))

    async def until(self, name: str, is_so: Callable[[TreeView], bool]) -> TreeView:
        """What a broker says of the tree, as soon as something is so."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            view = await asyncio.to_thread(self.brokers[name].view)
            if is_so(view):
                return view
            assert time.monotonic() < end, f"it did not become so: {view}"
            await asyncio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Kill all."""
        for broker in self.brokers.values():
            broker.close()


@contextlib.contextmanager
def growing(tree: LiveTree) -> Iterator[LiveTree]:
    """Inside it runs, afterwards it is gone."""
    try:
        asyncio.run(tree.start())
        yield tree
    finally:
        tree.close()


def neighbours(view: TreeView) -> set[str]:
    """To whom a broker is linked."""
    return {link.neighbour for link in view.links}
