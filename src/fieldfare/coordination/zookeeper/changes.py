"""What a broker changes in ZooKeeper that is not its own: a topic's offer, a topic's owner. Each change happens once.

A change names the version that it replaces. An offer may so be tried again when nobody knows whether it was changed. An
assignment never is: it is checked in one transaction against the leader's own candidate, which goes with its session,
and after an interruption the leader looks again and decides anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from fieldfare.coordination.zookeeper.procedures import MemberOptions, Procedures, ZooKeeperPort
from fieldfare.coordination.zookeeper.steps import in_topic, read, write
from fieldfare.coordination.zookeeper.tree import PARTS, Tree, encode
from fieldfare.coordination.zookeeper.znodes import (
    CheckZnode,
    InterruptedRequestError,
    NoZnodeError,
    Procedure,
    RemoveZnode,
    Transaction,
    WriteZnode,
    ZnodeNotEmptyError,
    ZnodeVersionError,
)
from fieldfare.messages import AssignTopic, OfferAnswered, OfferTopic, TopicKey


class _Key(msgspec.Struct, frozen=True):
    pass


class WriteOffer(_Key, frozen=True):
    """A change of a topic's offer."""

    number: int


class WriteOwner(_Key, frozen=True):
    """The assignment of a topic to a routing broker."""

    topic: TopicKey


class RemoveTopic(_Key, frozen=True):
    """A topic that nobody uses any more."""

    topic: TopicKey


ChangeKey: TypeAlias = WriteOffer | WriteOwner | RemoveTopic


@dataclass(frozen=True, slots=True)
class ChangesPort:
    """Whom the changes turn to."""

    own_candidate: Callable[[], str | None]  # the path of this broker's candidate in this session
    offered: Callable[[TopicKey], None]  # the offer of a topic was changed, or it was not, by us
    look_again: Callable[[TopicKey], None]  # a topic is not as we believed
    owner_version: Callable[[TopicKey, int], int | None]  # of the owner's znode, if the epoch is the one that we saw


@dataclass(slots=True)
class _Offer:
    effect: OfferTopic
    is_in_doubt: bool = False  # it may have been written before the connection broke


class Changes:
    """The changes of one broker."""

    def __init__(self, world: ZooKeeperPort, tree: Tree, port: ChangesPort, options: MemberOptions) -> None:
        self.procedures: Procedures[ChangeKey] = Procedures(world, self._start, options.writes_max, options)
        self._world, self._tree, self._port, self._options = world, tree, port, options
        self._offers: dict[int, _Offer] = {}
        self._assignments: dict[TopicKey, AssignTopic] = {}

    def offer(self, effect: OfferTopic) -> None:
        """Change a topic's offer, and answer."""
        if len(self._offers) >= self._options.offers_max:
            self._world.tell(OfferAnswered(effect.number, "too many changes of topics wait for ZooKeeper"))
            return
        self._offers[effect.number] = _Offer(effect)
        self.procedures.request(WriteOffer(effect.number))

    def assign(self, effect: AssignTopic) -> None:
        """Assign a topic. The leader calls this, which has a connection."""
        self._assignments[effect.topic] = effect
        self.procedures.request(WriteOwner(effect.topic))

    def remove_topic(self, topic: TopicKey) -> None:
        """Remove a topic, if it has neither an offer nor endpoints, and nobody is owed its events."""
        self.procedures.request(RemoveTopic(topic))

    def suspend(self) -> None:
        """The connection is lost: nothing is assigned until it is back."""
        self.procedures.close()
        self._assignments.clear()

    # Procedures

    def _start(self, key: ChangeKey) -> Procedure[None]:
        match key:
            case WriteOffer(number):
                return self._write_offer(number)
            case WriteOwner(topic):
                return self._write_owner(topic)
            case RemoveTopic(topic):
                return self._remove_topic(topic)

    def _write_offer(self, number: int) -> Procedure[None]:
        offer = self._offers[number]
        try:
            failure = yield from self._change_offer(offer)
        except InterruptedRequestError:
            offer.is_in_doubt = True  # trying again is safe: the version lets it happen once
            raise
        del self._offers[number]
        self._port.offered(offer.effect.topic)
        self._world.tell(OfferAnswered(number, failure))

    def _change_offer(self, offer: _Offer) -> Procedure[str | None]:
        """Returns why it was not changed."""
        topic, wanted = offer.effect.topic, offer.effect.offer
        path, data = self._tree.part(topic, "offer"), encode(wanted)
        change = WriteZnode(path, data, wanted.version)
        try:
            yield from in_topic(self._tree, topic, lambda: write(path, data, wanted.version), change)
        except ZnodeVersionError:
            try:
                znode = yield from read(path)
            except NoZnodeError:
                return "the topic has no offer"
            if not (offer.is_in_doubt and znode.data == data and znode.version == wanted.version + 1):
                return f"the topic's offer has changed: it has version {znode.version - 1} now"
        return None

    def _write_owner(self, topic: TopicKey) -> Procedure[None]:
        """Not repeated, whatever happens: after an interruption only looking again shows what is true."""
        assignment = self._assignments.pop(topic, None)
        candidate = self._port.own_candidate()
        if assignment is None or candidate is None:
            return
        version = self._port.owner_version(topic, assignment.since_epoch)
        if version is None:
            return
        path = self._tree.part(topic, "owner")
        try:
            yield Transaction((CheckZnode(candidate), WriteZnode(path, assignment.owner.encode(), version)))
        except (NoZnodeError, ZnodeVersionError, InterruptedRequestError):
            self._port.look_again(topic)

    def _remove_topic(self, topic: TopicKey) -> Procedure[None]:
        """Nothing happens if it is used again meanwhile: an offer has a version, and the other parts children."""
        versions = {"offer": 0}
        parts = [RemoveZnode(self._tree.part(topic, part), versions.get(part, -1)) for part in PARTS]
        try:
            yield Transaction((*parts, RemoveZnode(self._tree.topic(topic))))
        except (NoZnodeError, ZnodeVersionError, ZnodeNotEmptyError):
            return
