"""Which brokers serve a topic, and what may be published at each. An advertisement travels to all brokers of the tree.

It is passed on to every neighbour but the one that it came from. It is known beyond a link when the neighbour says so,
which it does when all its other neighbours have; what is wanted of it comes back before that. So whoever waits for its
advertisement to be known may publish then, and nobody who wants its events misses one. As long as an advertisement, or
what was added to it, is not known beyond a link, no events of its broker are passed on there: what is wanted of them is
not known. Receivers beyond it get them from the origin's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from fieldfare.messages import (
    Advertisement,
    AdvertisementEnded,
    AdvertisementKnown,
    LogId,
    TopicKey,
    TopicOffer,
)
from fieldfare.overlay.covering import Covering
from fieldfare.routing.tree.presence import SendTo

LOCAL = ""  # the side of this broker's own edge, beside the links to neighbours


@dataclass(slots=True, eq=False)
class Advertised:
    """A broker that serves a topic. Its events come from one side."""

    frame: Advertisement
    side: str
    published: Covering
    number: int = 0  # with which its side told it last
    unknown_to: dict[str, int] = field(default_factory=dict)  # links beyond which it may not be known yet: numbers told
    closed_to: set[str] = field(default_factory=set)  # those of them over which no events are passed on until it is


@dataclass(frozen=True, slots=True)
class AdvertisementPorts:
    """What advertisements need of their broker."""

    send: SendTo
    links: Callable[[], Iterable[str]]  # to neighbours, those that are open
    grown: Callable[[TopicKey, Advertised], None]  # more may come from a side: want it before this is known
    shrunk: Callable[[TopicKey, str], None]  # less may come from a side
    met: Callable[[TopicKey, Advertised], None]  # a broker serves a topic, or says something new of it
    lost: Callable[[TopicKey, Advertised], None]  # a broker no longer serves a topic, or is out of reach
    opened: Callable[[TopicKey, LogId, str], None]  # events of an origin may be passed on over a link from now on
    known: Callable[[TopicKey], None]  # this broker's own advertisement of a topic is known to all


class TreeAdvertisements:
    """The advertisements of all topics, as one broker knows them."""

    def __init__(self, ports: AdvertisementPorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._ports = ports
        self._topics: dict[TopicKey, dict[LogId, Advertised]] = {}
        self._told_count = 0

    def of_topic(self, topic: TopicKey) -> dict[LogId, Advertised]:
        """Who serves a topic, by log."""
        return self._topics.get(topic, {})

    def from_side(self, topic: TopicKey, side: str) -> list[Covering]:
        """What may be published beyond a side."""
        return [each.published for each in self.of_topic(topic).values() if each.side == side]

    def offer_of(self, topic: TopicKey) -> TopicOffer | None:
        """The latest offer of a topic that anybody told of."""
        offers = [each.frame.offer for each in self.of_topic(topic).values() if each.frame.offer is not None]
        return max(offers, key=lambda offer: offer.version, default=None)

    def may_pass(self, topic: TopicKey, origin: LogId, side: str) -> bool:
        """Whether events of an origin may be passed on to a side."""
        advertised = self.of_topic(topic).get(origin)
        return advertised is not None and side not in advertised.closed_to

    def __iter__(self) -> Iterator[TopicKey]:
        return iter(self._topics)

    # This broker's own

    def advertise(self, topic: TopicKey, published: Covering, offer: TopicOffer | None, *, is_owed: bool) -> None:
        """Tell that this broker serves a topic."""
        own = self.of_topic(topic).get(self.log_id)
        encoded = published.encode()
        if own is not None:
            told = own.frame
            if (told.published, told.offer, told.is_owed) == (encoded, offer, is_owed):
                if not own.unknown_to:
                    self._ports.known(topic)
                return
        version = 1 if own is None else own.frame.version + 1
        frame = Advertisement(topic, self.log_id, version, encoded, offer, is_owed)
        self._keep(Advertised(frame, LOCAL, published))

    # What neighbours say

    def opened(self, link: str) -> None:
        """A neighbour is there: tell it of all that is on this side."""
        for topic in self._topics.values():
            for advertised in topic.values():
                if advertised.side != link:
                    self._tell(link, advertised)

    def _tell(self, link: str, advertised: Advertised) -> None:
        """Tell a neighbour that does not know of it, or does no longer."""
        advertised.closed_to.add(link)
        self._send(link, advertised)

    def _send(self, link: str, advertised: Advertised) -> None:
        self._told_count += 1
        advertised.unknown_to[link] = self._told_count
        self._ports.send(link, msgspec.structs.replace(advertised.frame, number=self._told_count))

    def received(self, link: str, frame: Advertisement) -> None:
        """A neighbour tells of a broker on its side."""
        if frame.origin == self.log_id:
            return
        number, frame = frame.number, msgspec.structs.replace(frame, number=0)
        known = self.of_topic(frame.topic).get(frame.origin)
        if known is not None and known.side == link and known.frame == frame:
            known.number = number
            self._check(known)
        elif known is not None and known.side != link and known.frame.version >= frame.version:
            # It came by another way before: there is a cycle, or one of both ways is about to end.
            self._ports.send(link, AdvertisementKnown(frame.topic, frame.origin, frame.version, number))
        else:
            self._keep(Advertised(frame, link, Covering.decode(frame.published), number))

    def _keep(self, advertised: Advertised) -> None:
        frame, side, published = advertised.frame, advertised.side, advertised.published
        before = self.of_topic(frame.topic).get(frame.origin)
        if before is not None and before.side == side and all(map(before.published.covers, published.boxes)):
            advertised.closed_to = before.closed_to
        else:
            advertised.closed_to = set(self._ports.links()) - {side}
        self._topics.setdefault(frame.topic, {})[frame.origin] = advertised
        if before is not None and before.side != side:
            self._ports.shrunk(frame.topic, before.side)
        self._ports.grown(frame.topic, advertised)
        if before is not None and before.published != published:
            self._ports.shrunk(frame.topic, side)
        self._ports.met(frame.topic, advertised)
        for link in self._ports.links():
            if link != side:
                self._send(link, advertised)
        self._check(advertised)

    def known(self, link: str, frame: AdvertisementKnown) -> None:
        """All brokers beyond a link know it."""
        advertised = self.of_topic(frame.topic).get(frame.origin)
        if advertised is not None and advertised.unknown_to.get(link) == frame.number:
            del advertised.unknown_to[link]
            if link in advertised.closed_to:
                advertised.closed_to.discard(link)
                self._ports.opened(frame.topic, frame.origin, link)
            self._check(advertised)

    def _check(self, advertised: Advertised) -> None:
        frame = advertised.frame
        if advertised.unknown_to:
            return
        if advertised.side == LOCAL:
            self._ports.known(frame.topic)
        else:
            known = AdvertisementKnown(frame.topic, frame.origin, frame.version, advertised.number)
            self._ports.send(advertised.side, known)

    def ended(self, link: str, frame: AdvertisementEnded) -> None:
        """A neighbour no longer reaches a broker that served a topic. If this one does, by another way, it says so."""
        advertised = self.of_topic(frame.topic).get(frame.origin)
        if advertised is not None and advertised.side == link:
            self._remove(advertised)
        elif advertised is not None:
            self._tell(link, advertised)

    def closed(self, link: str) -> None:
        """A link is gone, and with it all that was advertised over it."""
        for topic in list(self._topics.values()):
            for advertised in list(topic.values()):
                if advertised.side == link:
                    self._remove(advertised)
                elif link in advertised.unknown_to:
                    del advertised.unknown_to[link]
                    advertised.closed_to.discard(link)
                    self._check(advertised)

    def _remove(self, advertised: Advertised) -> None:
        topic, origin = advertised.frame.topic, advertised.frame.origin
        del self._topics[topic][origin]
        if not self._topics[topic]:
            del self._topics[topic]
        self._ports.shrunk(topic, advertised.side)
        self._ports.lost(topic, advertised)
        for link in self._ports.links():
            if link != advertised.side:
                self._ports.send(link, AdvertisementEnded(topic, origin))
