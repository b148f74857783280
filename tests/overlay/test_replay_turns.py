"""Subscriptions that begin with what is alive, where reading that takes long: clients ask again, and many at once."""

from __future__ import annotations

from dataclasses import replace

from tests.overlay.test_two_networks import TOPIC, TwoNetworks, numbers

from fieldfare.client.options import SessionOptions
from fieldfare.qos import Requested
from fieldfare.routing.edge import Edge
from fieldfare.routing.exporting import ExportOptions
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.replaying import ReplayOptions
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.history import Reception

FROM_THE_BEGINNING = Requested(durability="transient")
EVENTS = 60
READING_SECONDS = EVENTS * 0.1  # at least: an event at a time


class SlowNetworks(TwoNetworks):
    """One event is on its way at a time, and reading it from the log takes 0.1 s."""

    def __init__(self, replays: ReplayOptions = ReplayOptions()) -> None:  # noqa: B008 - it is frozen
        def change(options: OverlayOptions) -> OverlayOptions:
            return replace(options, exports=ExportOptions(window_bytes=1, piece_events_max=1), replays=replays)

        super().__init__(change=change)
        edge, publisher = self.here
        edge.read_seconds = 0.1
        for number in range(EVENTS):
            publisher.publish("news", {"n": number})
        self.world.run_for(2.0)

    def client(self, name: str, answer_timeout_seconds: float = 1000.0) -> SimulatedClient:
        made = self.world.client(name, self.there[0])
        made.crash()
        made.options = SessionOptions(answer_timeout_seconds=answer_timeout_seconds)
        made.start()
        self.world.run_for(1.0)
        return made

    def subscribe(self, client: SimulatedClient, name: str | None = None) -> Reception:
        return client.subscribe("news", "n >= 0", qos=FROM_THE_BEGINNING, name=name)

    @property
    def being_read(self) -> list[str]:
        """For whom the origin reads its log."""
        origin = self.deployment.nodes["here"]
        assert isinstance(origin, Edge)
        assert origin.parts.overlay is not None
        exports = origin.parts.overlay.exports.get(TOPIC)
        return [] if exports is None else [receiver for receiver in exports.takers if "#" in receiver]

    def run_reading(self, seconds: float, at_once_max: int) -> None:
        """Let time pass, and see that no more are read for at once."""
        for _ in range(int(seconds * 4)):
            self.world.run_for(0.25)
            assert len(self.being_read) <= at_once_max


def test_a_client_that_asks_again_and_again_goes_on_with_what_was_begun() -> None:
    networks = SlowNetworks()
    impatient = networks.client("impatient", answer_timeout_seconds=READING_SECONDS / 4)
    reception = networks.subscribe(impatient)
    networks.run_reading(10 * READING_SECONDS, at_once_max=1)
    assert numbers(reception) == list(range(EVENTS))
    networks.here[1].publish("news", {"n": EVENTS})
    networks.world.run_for(5.0)
    assert numbers(reception) == list(range(EVENTS + 1))
    assert networks.being_read == []
    networks.world.check()


def test_so_does_one_that_is_durable() -> None:
    networks = SlowNetworks()
    reception = networks.subscribe(networks.client("impatient", READING_SECONDS / 4), name="mine")
    networks.run_reading(10 * READING_SECONDS, at_once_max=1)
    assert numbers(reception) == list(range(EVENTS))
    networks.world.check()


def test_nothing_is_read_for_a_client_that_does_not_come_back() -> None:
    networks = SlowNetworks()
    client = networks.client("gone")
    networks.subscribe(client)
    networks.world.run_for(1.0)
    assert len(networks.being_read) == 1
    client.crash()
    networks.world.run_for(40.0)
    assert networks.being_read == []


def test_what_is_read_to_its_end_waits_for_its_client() -> None:
    networks = SlowNetworks()
    client = networks.client("away")
    networks.subscribe(client)
    networks.world.run_for(1.0)
    client.crash()  # its process is gone, and the next one subscribes anew
    networks.world.run_for(2 * READING_SECONDS)
    assert len(networks.being_read) == 1
    client.start()
    networks.world.run_for(2.0)  # much less than it takes to read
    again = networks.world.history.receptions[-1]
    assert numbers(again) == list(range(EVENTS))


def test_another_condition_is_read_for_from_its_beginning() -> None:
    networks = SlowNetworks()
    client = networks.client("first")
    networks.subscribe(client)
    networks.world.run_for(1.0)
    client.crash()
    networks.world.run_for(1.0)
    other = networks.client("second").subscribe("news", "n >= 10", qos=FROM_THE_BEGINNING)
    networks.world.run_for(10 * READING_SECONDS)
    assert numbers(other) == list(range(10, EVENTS))


def test_they_take_turns_in_the_order_in_which_they_came_and_too_many_are_refused() -> None:
    networks = SlowNetworks(ReplayOptions(reading_max=2, waiting_max=2))
    receptions = [networks.subscribe(networks.client(f"client{number}")) for number in range(5)]
    edge = networks.deployment.nodes["there"]
    assert isinstance(edge, Edge)
    assert edge.parts.overlay is not None
    assert len(edge.parts.overlay.replays) == 4
    networks.run_reading(12 * READING_SECONDS, at_once_max=2)
    assert all(numbers(reception) == list(range(EVENTS)) for reception in receptions)
    confirmed = [reception.confirmed_at or 0.0 for reception in receptions]
    assert max(confirmed[:2]) < min(confirmed[2:4])
    networks.world.check()
