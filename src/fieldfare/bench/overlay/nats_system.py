"""NATS: a hub, and leaf nodes that dial it. A leaf asks the hub for the subjects that its clients subscribe to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fieldfare.bench.broker.connections import connect_by_wire
from fieldfare.bench.broker.servers import HOST, Program, found, free_port, started
from fieldfare.bench.broker.wires import NatsWire
from fieldfare.bench.overlay.systems import Deployment, System

_HUB = 'listen: "{host}:{port}"\nleafnodes {{ listen: "{host}:{hub_port}" }}\n'
_LEAF = 'listen: "{host}:{port}"\nleafnodes {{ remotes: [{{ url: "nats-leaf://{host}:{hub_port}" }}] }}\n'


@contextmanager
def _start(edge_count: int, folder: Path) -> Iterator[Deployment]:
    executable, hub_port = found("nats-server"), free_port()

    def program(name: str, settings: str, port: int, listening_port: int) -> Program:
        path = folder / f"{name}.conf"
        path.write_text(settings.format(host=HOST, port=port, hub_port=hub_port))
        return Program([executable, "--config", str(path)], listening_port, folder / f"{name}.log")

    with started([program("hub", _HUB, free_port(), hub_port)]) as (hub,):
        ports = [free_port() for _ in range(edge_count)]
        with started([program(f"leaf-{port}", _LEAF, port, port) for port in ports]) as leaves:
            yield Deployment(hub, tuple(leaves))


NATS = System(
    "nats",
    filters=False,
    start=_start,
    connect=partial(connect_by_wire, NatsWire),
    note="core NATS, leaf nodes; clients filter",
)
