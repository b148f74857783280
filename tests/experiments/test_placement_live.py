"""Publishers that GRAPE moves between real processes end where they end in the simulator, and no event is missed."""

from __future__ import annotations

from fieldfare.experiments.placement.laboratory import LOAD
from fieldfare.experiments.placement.live import compare, workload_of
from fieldfare.experiments.placement.settings import LiveScale


def test_real_brokers_place_publishers_as_simulated_ones_do() -> None:
    scale = LiveScale(seconds=10.0)
    found = compare(scale, LOAD)
    assert found.is_complete, f"{len(found.live.deliveries)} of {found.live.expected}, {found.live.repeated} repeated"
    assert found.live.places == found.simulated_places
    assert found.live.places != workload_of(scale).places
    assert found.live_load.message_rate < 0.5 * found.before.message_rate
