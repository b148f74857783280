"""A ring without Pastry: every peer always knows who is closest to a key. Messages still take time, and may be lost."""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.peer import DmmPeer
from fieldfare.dmm.spaces import TopicScheme
from fieldfare.messages import Effect, Input, SetTimer, TimerDue
from fieldfare.pastry.ports import (
    MESSAGE_BYTES_MAX,
    Assurance,
    Card,
    Contact,
    Key,
    Leaves,
    NeighboursChanged,
    RoutedMessage,
)
from fieldfare.simulation.clock import Clock, Timer
from fieldfare.simulation.network import LinkQuality, Network
from fieldfare.simulation.peers import PeerPrograms

RING = 2**128
LEAVES_EACH_SIDE = 8


def distance(one: int, other: int) -> int:
    """How far two ids are from each other on the ring."""
    return min((one - other) % RING, (other - one) % RING)


@dataclass
class Place:
    """One peer, the ring as it sees it, and its host."""

    world: PerfectRing
    me: Contact
    peer: DmmPeer
    is_joined: bool = False
    leaves: Leaves = field(default_factory=lambda: Leaves((), ()))
    timers: dict[Hashable, Timer] = field(default_factory=dict)
    told: list[Effect] = field(default_factory=list)

    def contact(self, card: Card) -> Contact:
        return self.world.contacts.get(card.name) or Contact(0, card)

    def route(self, key: Key, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:  # noqa: ARG002
        target = self.world.closest(key)
        assert len(message) <= MESSAGE_BYTES_MAX
        if target is not None:
            self.world.network.send(self.me.name, target.name, (key, message))

    def send(self, target: Contact, message: bytes, now: float, assurance: Assurance = Assurance.EACH_HOP) -> None:  # noqa: ARG002
        assert len(message) <= MESSAGE_BYTES_MAX
        self.world.network.send(self.me.name, target.name, (None, message))

    def next_hop(self, key: Key) -> Contact | None:
        target = self.world.closest(key)
        return None if target == self.me else target

    def closest(self, key: Key, count: int) -> list[Contact]:
        near = {contact.id: contact for contact in (self.me, *self.leaves.before, *self.leaves.after)}
        return sorted(near.values(), key=lambda contact: distance(contact.id, key))[:count]

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, SetTimer):
            if (timer := self.timers.pop(effect.key, None)) is not None:
                timer.cancel()
            self.timers[effect.key] = self.world.clock.at(effect.at, lambda: self._due(effect.key))
        else:
            self.told.append(effect)
            self.world.told(effect)

    def _due(self, key: Hashable) -> None:
        self.timers.pop(key, None)
        self.tell(TimerDue(key))

    def tell(self, message: Input) -> None:
        for effect in self.peer.handle(message, self.world.clock.now):
            self.perform(effect)

    def receive(self, source: str, packet: tuple[Key | None, bytes]) -> None:
        key, message = packet
        contact = self.world.contacts[source]
        if key is None:
            self.peer.receive(contact, message, self.world.clock.now)
        else:
            self.peer.deliver(RoutedMessage(key, message, contact, contact, 1), self.world.clock.now)

    def stop(self) -> None:
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()


class PerfectRing(PeerPrograms):
    """Peers on a ring, and what their programs asked for and were told."""

    def __init__(
        self,
        seed: int = 0,
        schemes: Mapping[str, TopicScheme] | None = None,
        link: LinkQuality = LinkQuality(),  # noqa: B008
    ) -> None:
        super().__init__(Clock())
        self.rng = random.Random(seed)
        self.network = Network(self.clock, self.rng, link)
        self.schemes = schemes
        self.places: dict[str, Place] = {}
        self.contacts: dict[str, Contact] = {}

    # The ring

    def closest(self, key: Key) -> Contact | None:
        ids = [place.me for place in self.places.values() if place.is_joined]
        return min(ids, key=lambda contact: (distance(contact.id, key), contact.id), default=None)

    def add(self, name: str, options: DmmOptions = DmmOptions(), node_id: int | None = None) -> Place:  # noqa: B008 - it is frozen
        contact = Contact(self.rng.randrange(RING) if node_id is None else node_id, Card(name, name, 1))
        self.contacts[name] = contact
        peer = self.peers[name] = DmmPeer(options, self.schemes)
        place = self.places[name] = Place(self, contact, peer)
        self.network.receive(name, place.receive)
        place.peer.started(place, self.clock.now)
        place.is_joined = True
        self._leaf_sets_change({contact.id})
        place.peer.joined(self.clock.now)
        return place

    def crash(self, *names: str, noticed_after_seconds: float = 0.0) -> None:
        for name in names:
            self.places[name].stop()
            self.network.crash(name)

        def notice() -> None:
            for name in names:
                del self.places[name], self.peers[name]
            self._leaf_sets_change(set())

        if noticed_after_seconds:
            self.clock.after(noticed_after_seconds, notice)
        else:
            notice()

    def _leaf_sets_change(self, newcomers: set[int]) -> None:
        ring = sorted((place for place in self.places.values()), key=lambda place: place.me.id)
        changes = []
        for number, place in enumerate(ring):
            count = min(LEAVES_EACH_SIDE, len(ring) - 1)
            after = tuple(ring[(number + step) % len(ring)].me for step in range(1, count + 1))
            before = tuple(ring[number - step].me for step in range(1, count + 1))
            old = {contact.id: contact for contact in (*place.leaves.before, *place.leaves.after)}
            new = {contact.id: contact for contact in (*before, *after)}
            place.leaves = Leaves(before, after)
            came = tuple(contact for key, contact in new.items() if key not in old)
            gone = tuple(contact for key, contact in old.items() if key not in new)
            if (came or gone) and place.me.id not in newcomers:
                changes.append((place, NeighboursChanged(place.leaves, came, gone)))
        for place, change in changes:
            place.peer.neighbours_changed(change, self.clock.now)

    def tell(self, peer: str, message: Input) -> None:
        self.places[peer].tell(message)
