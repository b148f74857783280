"""A coordination that is always right and never waits, for tests of what is not about coordination."""

from __future__ import annotations

from fieldfare.messages import (
    Announce,
    AssignTopic,
    CountEndpoints,
    EdgeRetired,
    Input,
    Member,
    MemberGone,
    MemberSeen,
    OfferAnswered,
    OfferTopic,
    TopicKey,
    TopicOffer,
    TopicSeen,
)
from fieldfare.simulation.host import SimulatedHost


class Directory:
    """Knows all brokers; topics belong to the first routing broker, or to whom `give` says."""

    def __init__(self) -> None:
        self._hosts: dict[str, SimulatedHost] = {}
        self.members: dict[str, Member] = {}
        self._owners: dict[TopicKey, tuple[str, int]] = {}
        self._offers: dict[TopicKey, TopicOffer] = {}
        self._users: dict[TopicKey, set[str]] = {}
        self._owed: dict[TopicKey, set[str]] = {}
        self.counted: dict[tuple[str, str], CountEndpoints] = {}  # by edge and topic: what was told last
        self.not_told: set[str] = set()  # who does not hear what topics offer
        self.records_owed = True  # False: who is owed events is not recorded

    def serve(self, host: SimulatedHost) -> None:
        self._hosts[host.name] = host
        host.perform_with(Announce, lambda effect: self._announce(host, effect.member))
        host.perform_with(CountEndpoints, lambda effect: self._count(host, effect))
        host.perform_with(AssignTopic, lambda _: None)
        host.perform_with(OfferTopic, lambda effect: self._offer(host, effect))

    def _tell(self, name: str, message: Input) -> None:
        host = self._hosts[name]
        host.clock.after(0.0, lambda: host.tell(message))

    def _announce(self, host: SimulatedHost, member: Member) -> None:
        self.members[member.name] = member
        for name in self._hosts:
            self._tell(name, MemberSeen(member))
        for known in self.members.values():
            self._tell(host.name, MemberSeen(known))
        for topic in self._owners:
            if host.name in self._users.get(topic, ()):
                self._tell_topic(host.name, topic)

    def _count(self, host: SimulatedHost, counted: CountEndpoints) -> None:
        topic = counted.topic
        self.counted[host.name, topic[1]] = counted
        owed = self._owed.setdefault(topic, set())
        if self.records_owed and (host.name in owed) != counted.is_owed:
            owed.symmetric_difference_update({host.name})
            for name in self._users.get(topic, ()):
                self._tell_topic(name, topic)
        self._users.setdefault(topic, set()).add(host.name)
        if topic not in self._owners:
            routing = [member.name for member in self.members.values() if member.role == "routing"]
            if routing:
                self._owners[topic] = (min(routing), 1)
        self._tell_topic(host.name, topic)

    def _offer(self, host: SimulatedHost, effect: OfferTopic) -> None:
        known = self._offers.get(effect.topic)
        if effect.offer.version != (known.version if known else -1) + 1:
            self._tell(host.name, OfferAnswered(effect.number, "somebody else has changed it: look, and try again"))
            return
        self._offers[effect.topic] = effect.offer
        self._tell(host.name, OfferAnswered(effect.number))
        for name in self._users.get(effect.topic, ()):
            self._tell_topic(name, effect.topic)

    def _tell_topic(self, name: str, topic: TopicKey) -> None:
        owner, epoch = self._owners.get(topic, ("", -1))
        owed = tuple(sorted(self._owed.get(topic, ())))
        offer = None if name in self.not_told else self._offers.get(topic)
        self._tell(name, TopicSeen(topic, owner, epoch, offer, owed))

    def remove(self, name: str) -> None:
        """A broker is gone for good: nobody waits for it any more."""
        for host in self._hosts:
            self._tell(host, MemberGone(name))
            self._tell(host, EdgeRetired(name))
        for topic, owed in self._owed.items():
            owed.discard(name)
            for user in self._users.get(topic, ()):
                self._tell_topic(user, topic)

    def give(self, topic: TopicKey, owner: str) -> None:
        """Another routing broker owns a topic now."""
        self._owners[topic] = (owner, self._owners.get(topic, ("", 0))[1] + 1)
        for name in self._users.get(topic, ()):
            self._tell_topic(name, topic)
