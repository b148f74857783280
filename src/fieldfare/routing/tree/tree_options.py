"""How a broker takes part in a tree, and its edge with it."""

from __future__ import annotations

from dataclasses import dataclass

from fieldfare.messages import Member
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.tree.neighbours import Neighbour
from fieldfare.routing.tree.publisher_placement import NO_PLACEMENT, PlacementOptions


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How a broker takes part in the tree."""

    neighbours: tuple[Neighbour, ...] = ()
    boxes_max: int = 256  # of what is wanted of a neighbour; beyond it, boxes are merged
    window_bytes: int = 8 * 1024 * 1024  # of streams on their way to a neighbour; what is beyond it is read later
    tidy_seconds: float = 0.25
    shrink_seconds: float = 5.0  # how long more than is needed is wanted of a neighbour
    bridge_seconds: float = 10.0  # how long a neighbour may be away before it is bridged over
    measure_seconds: float = 1.0  # how often delays to neighbours are measured, where publishers are placed
    placement: PlacementOptions = NO_PLACEMENT


def tree_overlay(member: Member) -> OverlayOptions:
    """The options of an edge that is to be a broker of a tree."""
    return OverlayOptions(member, second_paths_max=0, tells_advertisements=True)
