"""A tree as one of its brokers sees it, for those who run it: who is there, the links, and who serves which topic."""

from __future__ import annotations

import msgspec

from fieldfare.messages import LogId
from fieldfare.routing.tree.tree_broker import TreeBroker


class SeenBroker(msgspec.Struct, frozen=True):
    """A broker. `over` is the neighbour that leads to it; empty: it is this one."""

    name: str
    log: LogId
    address: str
    url: str
    hops: int
    over: str
    load: float  # the share of its places for clients that are taken
    behind: int  # positions of its log that the broker furthest behind has not taken, about
    topic_count: int  # how many topics it serves


class SeenLink(msgspec.Struct, frozen=True):
    """An open link to a neighbour, and the bytes of streams that it has carried since it is open, about."""

    neighbour: str
    sent_bytes: int
    waiting_bytes: int  # of those: sent, and not yet dealt with there
    window_bytes: int  # so many may wait; what is beyond is read from a log later
    received_bytes: int


class SeenTopic(msgspec.Struct, frozen=True):
    """A topic, and by names the brokers that have clients of it."""

    topic: str
    brokers: tuple[str, ...]
    publishing: tuple[str, ...]  # where events may come from
    owed: tuple[str, ...]  # with durable subscriptions


class TreeView(msgspec.Struct, frozen=True):
    """All of it, as the broker `name` sees it."""

    name: str
    brokers: list[SeenBroker]  # this one first, then the nearest
    links: list[SeenLink]
    away: list[str]  # neighbours that are not linked, by name or address
    topics: list[SeenTopic]


def tree_view(broker: TreeBroker, tenant: str) -> TreeView:
    """What a broker sees, and of topics those of a tenant."""
    neighbours, presence = broker.neighbours, broker.presence
    served = [log for topic in broker.advertisements for log in broker.advertisements.of_topic(topic)]
    brokers = [
        SeenBroker(
            seen.member.name,
            seen.member.log,
            seen.member.address,
            seen.member.url,
            len(seen.path),
            neighbours.name_at(seen.link) if seen.link else "",
            seen.member.load,
            seen.member.behind,
            served.count(seen.member.log),
        )
        for seen in presence
    ]
    return TreeView(
        broker.name,
        sorted(brokers, key=lambda seen: (seen.hops, seen.name)),
        [
            SeenLink(
                opened.name,
                opened.sent_bytes,
                opened.sent_bytes - opened.drained_bytes,
                neighbours.window_bytes,
                opened.received_bytes,
            )
            for opened in sorted(neighbours.open_links(), key=lambda opened: opened.name)
        ],
        sorted(neighbours.away()),
        [_topic_view(broker, key) for key in sorted(broker.advertisements) if key[0] == tenant],
    )


def _topic_view(broker: TreeBroker, key: tuple[str, str]) -> SeenTopic:
    advertised = {
        broker.presence.name_of(log) or log: each for log, each in broker.advertisements.of_topic(key).items()
    }
    return SeenTopic(
        key[1],
        tuple(sorted(advertised)),
        tuple(sorted(name for name, each in advertised.items() if each.published.boxes)),
        tuple(sorted(name for name, each in advertised.items() if each.frame.is_owed)),
    )
