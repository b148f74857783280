"""The neighbourhood: the nodes with the shortest round trips, wherever their ids lie.

A node that joins near them is given these first, so that its own tables begin with near nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from fieldfare.pastry.ports import Contact, NodeId


class Neighbourhood:
    """The nearest nodes of one node by measured round trip."""

    __slots__ = ("_nodes", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._nodes: dict[NodeId, tuple[float, Contact]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Contact]:
        return (contact for _, contact in self._nodes.values())

    def __contains__(self, node: NodeId) -> bool:
        return node in self._nodes

    def offer(self, contact: Contact, seconds: float) -> None:
        """A node has this round trip."""
        nodes = self._nodes
        if contact.id in nodes or len(nodes) < self._size_max:
            nodes[contact.id] = seconds, contact
            return
        farthest = max(nodes, key=lambda node: nodes[node][0])
        if seconds < nodes[farthest][0]:
            del nodes[farthest]
            nodes[contact.id] = seconds, contact

    def remove(self, node: NodeId) -> None:
        """A node is gone."""
        self._nodes.pop(node, None)
