"""The section `[placement]` of the settings: how publishers are placed, where `broker.placement` says that they are."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from fieldfare.placement.options import (
    Count,
    DampingOptions,
    GrapeOptions,
    Percent,
    PopOptions,
    Priority,
    Share,
    ZeroOrMore,
)
from fieldfare.qos import Seconds
from fieldfare.routing.tree.publisher_placement import Algorithm, PlacementOptions

T = TypeVar("T", bound=msgspec.Struct)
_POP, _GRAPE, _DAMPING = PopOptions(), GrapeOptions(), DampingOptions()


class PlacementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All options of POP, GRAPE and damping. Each is explained in `fieldfare.placement.options`."""

    traces_max: Count = _POP.traces_max
    traces_min: Count = _POP.traces_min
    window_seconds: Seconds = _POP.window_seconds
    newest_weight: Share = _POP.newest_weight
    gather_seconds: ZeroOrMore = _POP.gather_seconds
    session_publications: Count = _GRAPE.session_publications
    priority: Priority = _GRAPE.priority
    weight_percent: Percent = _GRAPE.weight_percent
    calm_factor_max: Count = _GRAPE.calm_factor_max
    timeout_seconds: Seconds = _GRAPE.timeout_seconds
    gain_share_min: Share = _DAMPING.gain_share_min
    errors_min: ZeroOrMore = _DAMPING.errors_min
    payback_seconds: Seconds = _DAMPING.payback_seconds
    return_seconds: ZeroOrMore = _DAMPING.return_seconds
    arrivals_max: Count = _DAMPING.arrivals_max
    arrivals_seconds: ZeroOrMore = _DAMPING.arrivals_seconds
    busy_share_max: Share = _DAMPING.busy_share_max

    def options(self, algorithm: Algorithm | None) -> PlacementOptions:
        """For the brokers of a tree."""
        given = msgspec.structs.asdict(self)
        return PlacementOptions(
            algorithm=algorithm,
            pop=_part_of(given, PopOptions),
            grape=_part_of(given, GrapeOptions),
            damping=_part_of(given, DampingOptions),
        )


def _part_of(given: dict[str, Any], kind: type[T]) -> T:
    return msgspec.convert({name: given[name] for name in kind.__struct_fields__ if name in given}, kind)
