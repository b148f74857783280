"""The nodes that an application could run on, which need not be equal."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fieldfare.errors import NodesError

GIBIBYTE = 1024**3
NODES_MAX = 10_000


class NodeSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A machine. Its speed is that of one of its cores, where the machine that costs were measured on has 1."""

    name: str = "node"
    memory_gib: Annotated[float, Meta(gt=0, le=1_000_000)] = 8.0
    cores: Annotated[int, Meta(ge=1, le=4096)] = 4
    speed: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    network_mbps: Annotated[float, Meta(gt=0, le=10_000_000)] = 1000.0  # of its link, in each direction

    @property
    def memory_bytes(self) -> float:
        """Memory for all of it."""
        return self.memory_gib * GIBIBYTE

    @property
    def network_bytes_per_second(self) -> float:
        """What its link carries."""
        return self.network_mbps * 1e6 / 8


class Nodes(msgspec.Struct, frozen=True):
    """Nodes that are there; `may_grow` says that as many more like the last may be taken as the load needs."""

    sizes: tuple[NodeSize, ...] = (NodeSize(),)
    may_grow: bool = True

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) > NODES_MAX:
            raise NodesError(f"there must be 1 to {NODES_MAX:,} nodes, not {len(self.sizes)}")

    @staticmethod
    def equal(count: int, **size: Any) -> Nodes:
        """So many nodes of one size, and no more."""
        if not 1 <= count <= NODES_MAX:
            raise NodesError(f"there must be 1 to {NODES_MAX:,} nodes, not {count}")
        return Nodes(tuple(NodeSize(name=f"node-{number + 1}", **size) for number in range(count)), may_grow=False)

    def in_order(self, most: int) -> Iterator[NodeSize]:
        """The nodes, the fastest first. Where more may be added, copies of the last follow, up to `most` in all."""
        yield from sorted(self.sizes, key=lambda size: -size.speed * size.cores)
        if self.may_grow:
            for number in range(len(self.sizes), most):
                yield msgspec.structs.replace(self.sizes[-1], name=f"{self.sizes[-1].name}-{number + 1}")


def load_nodes(file: Path) -> Nodes:
    """The nodes that a TOML file lists: `[[nodes]]` with name, memory_gib, cores, speed and network_mbps."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        sizes = msgspec.convert(table, _File).nodes
    except OSError as error:
        raise NodesError(f"{file} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise NodesError(f"{file} is no list of nodes: {error}") from error
    if len({size.name for size in sizes}) < len(sizes):
        raise NodesError(f"{file}: every node needs a name of its own")
    return Nodes(sizes, may_grow=False)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    nodes: tuple[NodeSize, ...]
