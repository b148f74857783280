"""Ours: a routing broker, and edges that find it and each other by gossip. Edges filter by content."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fieldfare.bench.broker.connections import connect_by_wire
from fieldfare.bench.broker.fieldfare_wire import FieldfareWire
from fieldfare.bench.broker.servers import HOST, Program, free_port, started
from fieldfare.bench.overlay.systems import Deployment, System

# As many as the publisher has under way: best effort drops what waits for a subscriber beyond that. The peers' limits
# are in bytes, and higher.
_ENVIRONMENT = {"FIELDFARE_LIMITS_WAITING_MAX": "10000"}


@contextmanager
def _start(edge_count: int, folder: Path) -> Iterator[Deployment]:
    secret = folder / "secret"
    secret.write_text(secrets.token_urlsafe())
    hub_port = free_port()
    at_hub = f"{HOST}:{hub_port}"  # TCP for links, UDP for gossip

    def program(name: str, port: int, *more: str) -> Program:
        common = ["--name", name, "--data", str(folder / name), "--secret-file", str(secret)]
        command = [sys.executable, "-m", "fieldfare", "broker", *common, *more]
        return Program(command, port, folder / f"{name}.log", _ENVIRONMENT)

    routing = program("routing", hub_port, "--role", "routing", "--listen", at_hub, "--gossip-listen", at_hub)
    with started([routing]) as (hub,):
        edges = [
            program(f"edge-{number}", 0, "--role", "edge", "--port", "0", "--gossip", at_hub)
            for number in range(edge_count)
        ]
        with started(edges) as running:
            yield Deployment(hub, tuple(running))


BEST_EFFORT = System(
    "fieldfare",
    filters=True,
    start=_start,
    connect=partial(connect_by_wire, partial(FieldfareWire, is_durable=False)),
    note="best effort",
)
DURABLE = System(
    "fieldfare-durable",
    filters=True,
    start=_start,
    connect=partial(connect_by_wire, partial(FieldfareWire, is_durable=True)),
    note="on disk at both edges before it is delivered",
)
