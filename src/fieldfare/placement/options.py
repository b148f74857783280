"""Thresholds, windows and weights of placement. Defaults are the paper's (sections III and IV) where it has one."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.qos import Seconds

Priority: TypeAlias = Literal["load", "delay"]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
Percent: TypeAlias = Annotated[float, Meta(ge=0.0, le=100.0)]
ZeroOrMore: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e9)]


class PopOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How POP traces and when it decides."""

    traces_max: Count = 50  # N: publications of a publisher that are traced in one window, at most
    window_seconds: Seconds = 60.0  # W
    newest_weight: Share = 0.01  # of the newest trace in a running average, at least; paper: 0.25, so the last 7 decide
    traces_min: Count = 100  # P_threshold: finished traces before a decision; 50 on the paper's PlanetLab
    calm_factor_max: Count = 8  # each time a publisher stays, half as many are traced, down to this part; paper: 1
    gather_seconds: ZeroOrMore = 10.0  # counts wait for so long, to be sent together with others; paper: 0
    timeout_seconds: Seconds = 30.0  # a trace or a decision without an answer is given up; the paper has none


PAPERS_POP = PopOptions(newest_weight=0.25, calm_factor_max=1, gather_seconds=0.0)  # without what we changed


class GrapeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How GRAPE traces, and what it makes small."""

    session_publications: Count = 100  # G_threshold: traced in a session; 50 on the paper's PlanetLab
    calm_factor_max: Count = 8  # each time a publisher stays, its next session is twice as long, up to this; paper: 1
    priority: Priority = "load"  # the metric that is made small first; the paper names no default
    weight_percent: Percent = 100.0  # how much of that metric's range is given up: at 100, only the best is kept
    timeout_seconds: Seconds = 30.0  # a session whose reports or delays do not come is given up; the paper has none
    idle_seconds: Seconds = 3600.0  # an inner broker forgets a session of which it has heard nothing for so long

    @property
    def needs_delays(self) -> bool:
        """Whether the publisher measures the way to each candidate. Where load alone decides, it need not."""
        return not (self.priority == "load" and self.weight_percent == 100.0)


class DampingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a better broker is not good enough. The paper leaves damping open: these defaults are ours."""

    gain_share_min: Share = 0.01  # of what an event costs now, that a relocation must promise to save
    errors_min: ZeroOrMore = 2.0  # standard errors by which the saving that a session shows must exceed nothing
    payback_seconds: Seconds = 300.0  # within which the savings must exceed what the relocation itself costs
    return_seconds: ZeroOrMore = 600.0  # a publisher does not come back to a broker that it left more recently
    arrivals_max: Count = 2  # publishers that a broker takes in within `arrivals_seconds`
    arrivals_seconds: ZeroOrMore = 60.0  # long enough for measured delays to show the last arrivals
    busy_share_max: Share = 0.9  # of its time: a broker that is busier takes in no publisher
    relocation_messages_per_hop: ZeroOrMore = 4.0  # cost: an update and its completion, and subscriptions that follow
    pause_seconds_per_hop: ZeroOrMore = 0.15  # cost: publications wait meanwhile. Paper: 10 hops in 1.5 s


UNDAMPED = DampingOptions(
    gain_share_min=0.0,
    errors_min=0.0,
    payback_seconds=10 * 366 * 86_400.0,
    return_seconds=0.0,
    arrivals_max=1_000_000,
    arrivals_seconds=0.0,
    busy_share_max=1.0,
    relocation_messages_per_hop=0.0,
    pause_seconds_per_hop=0.0,
)  # as in the paper: whatever is better, however little, is done at once
