"""The primary attribute of a space is that which fewest events satisfy, and a change of it hides no event."""

from __future__ import annotations

from typing import Any

from tests.dmm.perfect_ring import PerfectRing
from tests.dmm.scenario import Run

from fieldfare.dmm.event_rates import EventRates
from fieldfare.dmm.messages import PlaceWork, Visit, decode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.spaces import Space


def test_a_space_goes_over_to_the_attribute_that_fewer_events_have() -> None:
    options = DmmOptions(refresh_seconds=4.0, entry_seconds=12.0)
    run = Run(1, 8, options=options)
    for number in range(6):
        run.subscribe(f"a0 BETWEEN {number} AND 200 AND a1 BETWEEN 10 AND {100 + number}")
    run.settle_subscriptions()
    assert primaries(run) == {"a0"}
    for number in range(60):
        run.publish({"a0": number, **({"a1": 50} if number % 4 == 0 else {})})
        run.ring.clock.run_for(0.5)
    assert primaries(run) == {"a1"}
    for number in range(20):
        run.publish({"a0": number, "a1": 60})
        run.ring.clock.run_for(1.0)
    run.settle_events()
    run.check()
    assert sum(map(len, run.expected.values())) > 100


def test_the_former_attribute_serves_until_the_new_one_is_in_force() -> None:
    """Links cannot be placed by the new attribute, for many times as long as they live without being refreshed."""
    run = Run(1, 8, options=DmmOptions(refresh_seconds=4.0, entry_seconds=12.0))
    assert isinstance(run.ring, PerfectRing)
    network, is_cut = run.ring.network, True
    send = network.send

    def send_all_but_links(source: str, target: str, packet: Any) -> None:
        match decode(packet[1]):
            case Visit(work=PlaceWork(), region=region) if is_cut and region.space.attributes == ("a1",):
                return
        send(source, target, packet)

    network.send = send_all_but_links  # type: ignore[method-assign,assignment]
    for number in range(6):
        run.subscribe(f"a0 BETWEEN {number} AND 200 AND a1 BETWEEN 10 AND {100 + number}")
    run.settle_subscriptions()
    for number in range(60):
        run.publish({"a0": number})
        run.ring.clock.run_for(0.5)
    for number in range(60):
        run.publish({"a0": number, "a1": 50})
        run.ring.clock.run_for(1.0)
    assert primaries(run) == {"a1"}
    run.settle_events()
    run.check()
    is_cut = False
    run.ring.clock.run_for(30.0)
    by_former = [region for peer in run.ring.peers.values() for region in peer.keeper.book.primaries()]
    assert not any(each.size for each in by_former if each.name.space == Space("t", ("a0",)))
    run.publish({"a0": 5, "a1": 50})
    run.settle_events()
    run.check()


def primaries(run: Run) -> set[str]:
    """By which attributes the leaves of a space are linked."""
    links = [link for peer in run.ring.peers.values() for link in peer.linking.links(Space("t", ("a0", "a1")))]
    return set(links)


def test_rates_are_those_of_the_last_window() -> None:
    rates, region = EventRates(10.0), Space("t", ("a",)).root
    assert rates.rate(region, 0.0) == 0.0
    for moment in range(10):
        rates.note(region, float(moment))
    assert rates.rate(region, 9.0) == 1.0
    assert rates.rate(region, 12.0) == 10 / 12.0
    assert rates.rate(region, 50.0) == 0.0
