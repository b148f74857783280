"""Who is in the tree: every broker announces itself, and what neighbours say is passed on to the others, with the path.

In a tree there is one way to each broker. A broker that is heard of by two ways shows a ring; the shorter way is used
meanwhile, so at both ends of every link of the ring some broker is heard of twice. If that lasts, the link whose ends
have the greatest names is closed by these. It lasts shortly where a link takes the place of one that is being given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from fieldfare.messages import Absent, LogId, Member, Present, Version

SendTo = Callable[[str, object], None]

_RING_SECONDS = 1.0  # how long a ring may last


@dataclass(frozen=True, slots=True)
class PresentBroker:
    """A broker, and the way to it. `path` leads from it to the neighbour."""

    member: Member
    version: Version
    link: str  # empty: it is this broker
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _LinkTooMany:
    link: str
    ring: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PresencePorts:
    """What presence needs of its broker."""

    send: SendTo
    links: Callable[[], Iterable[str]]  # those that are open
    seen: Callable[[Member], None]
    gone: Callable[[Member], None]
    close: Callable[[str, tuple[str, ...]], None]  # closes a link that makes a ring of these brokers


class Presence:
    """The brokers that one broker, `name`, knows of."""

    def __init__(self, name: str, ports: PresencePorts) -> None:
        self._name, self._ports = name, ports
        self._brokers: dict[str, PresentBroker] = {}  # with the ways that are used
        self._by_log: dict[LogId, PresentBroker] = {}
        self._ways: dict[str, dict[str, PresentBroker]] = {}  # by broker and link: all that neighbours say
        self._ring_since: float | None = None

    def __iter__(self) -> Iterator[PresentBroker]:
        return iter(self._brokers.values())

    def get(self, name: str) -> PresentBroker | None:
        """A broker by its name, if it is there."""
        return self._brokers.get(name)

    def link_to(self, log: LogId) -> str | None:
        """The link that leads to an edge; None: it is not there."""
        found = self._by_log.get(log)
        return None if found is None else found.link

    def name_of(self, log: LogId) -> str | None:
        """The name of the broker that has a log."""
        found = self._by_log.get(log)
        return None if found is None else found.member.name

    # What is said

    def announce(self, member: Member, now: float) -> None:
        """Tell what this broker is."""
        known = self._brokers.get(self._name)
        version = max(0 if known is None else known.version + 1, int(now * 1000))
        self._keep(PresentBroker(member, version, ""))
        for link in self._ports.links():
            self._ports.send(link, Present(member, version, (self._name,)))

    def opened(self, link: str) -> None:
        """A neighbour is there: tell it of all that is on this side."""
        for known in list(self._brokers.values()):
            if known.link != link:
                self._ports.send(link, Present(known.member, known.version, (*known.path, self._name)))

    def received(self, link: str, frame: Present) -> None:
        """A neighbour tells of a broker on its side."""
        name = frame.member.name
        if self._name in frame.path:  # the neighbour reaches it over this broker
            self._forget_way(name, link)
        else:
            way = PresentBroker(frame.member, frame.version, link, frame.path)
            self._ways.setdefault(name, {})[link] = way
            self._choose(name)

    def absent(self, link: str, frame: Absent) -> None:
        """A neighbour can no longer reach a broker."""
        self._forget_way(frame.name, link)

    def closed(self, link: str) -> None:
        """A link is gone, and with it all ways over it."""
        for name in [name for name, ways in self._ways.items() if link in ways]:
            self._forget_way(name, link)

    def _forget_way(self, name: str, link: str) -> None:
        ways = self._ways.get(name, {})
        if ways.pop(link, None) is not None:
            if not ways:
                del self._ways[name]
            self._choose(name)

    def _choose(self, name: str) -> None:
        """Use the best way to a broker, and tell the neighbours if that is another one than before."""
        known, ways = self._brokers.get(name), self._ways.get(name, {})
        best = min(ways.values(), key=_rank, default=None)
        if best is None:
            if known is not None:
                self._remove(known)
        elif best != known:
            self._keep(best)
            if known is None or known.member != best.member:
                self._ports.seen(best.member)
            for link in self._ports.links():
                if link != best.link:
                    self._ports.send(link, Present(best.member, best.version, (*best.path, self._name)))
                elif known is not None and known.link != link:  # it was told of the way that was used before
                    self._ports.send(link, Absent(name))

    def _keep(self, broker: PresentBroker) -> None:
        name, log = broker.member.name, broker.member.log
        known = self._brokers.get(name)
        if known is not None and known.member.log != log:
            self._by_log.pop(known.member.log, None)
        self._brokers[name] = broker
        if log:
            self._by_log[log] = broker

    def _remove(self, broker: PresentBroker) -> None:
        del self._brokers[broker.member.name]
        self._by_log.pop(broker.member.log, None)
        self._ports.gone(broker.member)
        for other in self._ports.links():
            if other != broker.link:
                self._ports.send(other, Absent(broker.member.name))

    # Rings

    def tidy(self, now: float) -> None:
        """Close a link that is one too many, if it is one of this broker's and has been for a while."""
        found = self._link_too_many()
        if found is None:
            self._ring_since = None
        elif self._ring_since is None:
            self._ring_since = now
        elif now - self._ring_since >= _RING_SECONDS:
            self._ring_since = None
            self._ports.close(found.link, found.ring)

    def _link_too_many(self) -> _LinkTooMany | None:
        for ways in self._ways.values():
            for one, other in combinations(ways.values(), 2):
                odd = set(self._hops(one)) ^ set(self._hops(other))  # what both share is no part of the ring
                for way, rest in ((one, other), (other, one)):
                    if self._hops(way)[-1] == max(odd):
                        return _LinkTooMany(way.link, _ring((*way.path, self._name), (*rest.path, self._name)))
        return None

    def _hops(self, way: PresentBroker) -> list[tuple[str, str]]:
        """The links of a way, by the names at their ends; the last is that of this broker."""
        return [(min(hop), max(hop)) for hop in pairwise((*way.path, self._name))]


def _ring(way: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """The ring that two ways from one broker to another make. What they have in common at the beginning is left out."""
    while way[1:] and way[1:2] == other[1:2]:
        way, other = way[1:], other[1:]
    return (*way, *reversed(other[:-1]))


def _rank(way: PresentBroker) -> tuple[int, int, tuple[str, ...], str]:
    """The least is the best."""
    return -way.version, len(way.path), way.path, way.link
