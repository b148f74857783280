"""Costs from measurements: whatever an edge costs, runs that cost so much give it back."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fieldfare.bench.calibration import ring
from fieldfare.bench.calibration.brokers import EdgeRuns, Paced, Saturated, edge_cost_of
from fieldfare.errors import CostsError
from fieldfare.planning.application import Application, Durability, Shape
from fieldfare.planning.costs import EdgeCost, load_costs, reference_costs, save_costs
from fieldfare.planning.live_ways import edge_station

COSTS = reference_costs()
MATCH = COSTS.match[Shape.RANGES]
_KEPT = ("kept_round", "kept_event", "kept_message", "flush")
_FITTED = ("round", "event", "write", "frame", "message", "delay", "byte", "change", *_KEPT)


def runs_of(cost: EdgeCost) -> EdgeRuns:
    """What would be measured of an edge that costs this, as the model has it."""

    def saturated(subscriptions: int, deliveries: float, size: int = 0, *, is_kept: bool = False) -> Saturated:
        blank = Saturated(subscriptions, deliveries, 0.0)
        seconds = cost.event_seconds + is_kept * cost.kept_event_seconds + blank.frames * cost.frame_seconds
        seconds += deliveries * (cost.message_seconds + is_kept * cost.kept_message_seconds)
        seconds += size * (1.0 + deliveries) * cost.byte_seconds + MATCH.seconds(subscriptions, deliveries)
        return Saturated(subscriptions, deliveries, seconds, 0.0, 1.0 + subscriptions * cost.change_seconds)

    def paced(events: float, *, is_kept: bool = False) -> Paced:
        deliveries = events * 10.0
        each = cost.write_seconds + cost.frame_seconds + cost.message_seconds
        seconds = cost.round_seconds + events * cost.event_seconds + deliveries * each
        p50 = cost.delay_seconds + cost.round_seconds + deliveries * each / 2 + cost.tail_seconds * math.log(2, 100)
        if is_kept:
            seconds += (
                cost.kept_round_seconds + events * cost.kept_event_seconds + deliveries * cost.kept_message_seconds
            )
            p50 += cost.kept_round_seconds + cost.flush_seconds
        return Paced(events, deliveries, seconds, p50, p50 + cost.tail_seconds)

    return EdgeRuns(
        few=saturated(10_000, 1.0),
        many=saturated(1_000, 100.0),
        grouped=saturated(100, 1.0),
        large=saturated(1_000, 10.0, 4_000),
        kept_few=saturated(10_000, 1.0, is_kept=True),
        kept_many=saturated(1_000, 100.0, is_kept=True),
        slow=paced(1.5),
        quick=paced(10.0),
        kept_slow=paced(1.5, is_kept=True),
    )


@settings(max_examples=50)
@given(st.lists(st.floats(0.3, 3.0), min_size=len(_FITTED), max_size=len(_FITTED)))
def test_known_costs_are_found_again(factors: list[float]) -> None:
    names = [f"{name}_seconds" for name in _FITTED]
    wanted = {name: factor * getattr(COSTS.edge, name) for name, factor in zip(names, factors, strict=True)}
    found = edge_cost_of(runs_of(replace(COSTS.edge, **wanted)), COSTS.edge, MATCH)
    for name, seconds in wanted.items():  # frames of two loads are not quite as many, so that not all is exact
        assert getattr(found, name) == pytest.approx(seconds, rel=0.05, abs=2e-7), name


def test_a_frame_is_for_a_subscription_and_a_write_for_a_connection() -> None:
    one = Application(
        name="one", subscriptions=1_000, events_per_second=1.0, latency_seconds_max=1.0, matches_per_event=10.0,
        subscribers=100, durability=Durability.NONE,
    )  # fmt: skip
    station = edge_station(one, COSTS, 1_000)
    assert float(station.delivering_seconds(1e6)) - 1e6 * station.costs["deliveries"] == pytest.approx(
        100 * COSTS.edge.write_seconds + 1_000 * COSTS.edge.frame_seconds
    )


def test_peers_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("_EVENTS", 20), ("_WARM_UP", 5), ("_LARGE_EVENTS", 5)):
        monkeypatch.setattr(ring, name, count)
    told: list[str] = []
    found = ring.peer_cost(COSTS.peers, told.append)
    assert told == ["three peers"]
    assert found.message_seconds > 0
    assert found.hop_seconds > 0
    assert found.piece_bytes == COSTS.peers.piece_bytes


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    save_costs(COSTS, tmp_path / "costs.json")
    assert load_costs(tmp_path / "costs.json") == COSTS


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ('"format": 2', '"format": 1', "another version"),
        ('"core_gain": 0.85', '"core_gain": -1', ">= 0"),
        ('"core_gain": 0.85', '"core_gain": NaN', "no costs"),
        ('"core_gain": 0.85', '"core_gain": 1e999', "no costs"),
        ('"core_gain": 0.85,', "", "core_gain"),
        ('"ranges": {', '"circles": {', "no costs"),
        ('"subscriptions": [', '"subscriptions": [5,', "needs a time"),
        ("{", "[", "no costs"),
    ],
)
def test_what_is_no_costs_is_refused(tmp_path: Path, written: str, instead: str, told: str) -> None:
    file = tmp_path / "costs.json"
    save_costs(COSTS, file)
    text = file.read_text()
    assert written in text
    file.write_text(text.replace(written, instead, 1))
    with pytest.raises(CostsError, match=told):
        load_costs(file)
