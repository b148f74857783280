"""A whole tree in one file: its brokers with their addresses, and the links between them, checked before any starts.

Every broker of a deployment can be given the same file, and finds its own place in it by its name. Of the two ends of a
link the broker with the greater name dials.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fieldfare.errors import TopologyError
from fieldfare.messages import Name
from fieldfare.messages.wording import in_words
from fieldfare.routing.tree.neighbours import Neighbour

_SHOWN_MAX = 10  # names in a message


class PlacedBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one broker of the tree is."""

    address: str  # where other brokers dial it
    listen: str | None = None  # where it listens for them, if that is another address
    http: str | None = None  # where it listens for clients
    url: str | None = None  # where clients reach it, if that is another address
    data: str | None = None  # the folder of its log
    may_be_bridged: bool = False  # when it stays away, its neighbours are linked with each other meanwhile


class Topology(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The brokers of a tree, by name, and its links."""

    brokers: dict[Name, PlacedBroker]
    links: tuple[tuple[Name, Name], ...] = ()
    bridge_after_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 10.0  # how long a broker may be away before that

    def linked_with(self, name: str) -> list[str]:
        """The neighbours of a broker, the least name first."""
        return sorted(other for link in self.links if name in link for other in link if other != name)

    def neighbours_of(self, name: str) -> tuple[Neighbour, ...]:
        """The same, as the broker itself has to know them: which of them it dials, and whom instead."""
        return tuple(
            Neighbour(other, self.brokers[other].address if other < name else "", self._bridges(name, other))
            for other in self.linked_with(name)
        )

    def _bridges(self, name: str, away: str) -> dict[str, str]:
        """Whom a broker dials while a neighbour is away: that one's other neighbours, but for those that dial it."""
        if not self.brokers[away].may_be_bridged:
            return {}
        return {other: self.brokers[other].address for other in self.linked_with(away) if other < name}

    def place_of(self, name: str, file: Path) -> PlacedBroker:
        """Where a broker is. A TopologyError if the file has none of that name."""
        if name not in self.brokers:
            raise TopologyError(f"{file}: there is no broker {name!r}; there are {_listed(sorted(self.brokers))}")
        return self.brokers[name]


def read_topology(file: Path) -> Topology:
    """The topology that a file describes. A TopologyError names everything that is wrong with it."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise TopologyError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # what tomllib raises, and decoding too
        raise TopologyError(f"{file}: not TOML: {error}") from error
    try:
        topology = msgspec.convert(document, Topology)
    except msgspec.ValidationError as error:
        raise TopologyError(f"{file}: {in_words(error)}") from error
    if problems := [f"{file}: {problem}" for problem in _problems(topology)]:
        raise TopologyError(*problems)
    return topology


def _problems(topology: Topology) -> Iterator[str]:
    yield from _address_problems(topology)
    yield from _name_problems(topology)
    links = [link for link in topology.links if link[0] != link[1] and set(link) <= set(topology.brokers)]
    forest = _Forest(sorted(topology.brokers))
    for one, other in dict.fromkeys(tuple(sorted(link)) for link in links):
        if (way := forest.way(one, other)) is not None:
            ring = " - ".join((*way, one))
            yield f"links: {ring} is a ring, and a tree has none: take out one of these links"
        else:
            forest.link(one, other)
    parts = forest.parts()
    if len(parts) > 1:
        yield (
            f"links: {_listed(parts[1])} cannot be reached from {parts[0][0]}: link every broker with the rest of the "
            "tree"
        )


def _address_problems(topology: Topology) -> Iterator[str]:
    if not topology.brokers:
        yield "brokers: there are none: each has a section such as [brokers.berlin]"
    at: dict[str, str] = {}
    for name, broker in topology.brokers.items():
        for place in ("address", "listen", "http"):
            text: str | None = getattr(broker, place)
            if text is not None and not _is_address(text):
                yield f"brokers.{name}.{place}: {text!r} is no address, which is host:port, such as 10.0.0.7:7381"
        if (first := at.setdefault(broker.address, name)) != name:
            yield f"brokers.{name}.address: {first} has the same: every broker has one of its own"


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 65_536


def _name_problems(topology: Topology) -> Iterator[str]:
    seen: set[tuple[str, ...]] = set()
    for link in topology.links:
        for name in link:
            if name not in topology.brokers:
                yield f"links: there is no broker {name!r}; there are {_listed(sorted(topology.brokers))}"
        if link[0] == link[1]:
            yield f"links: {link[0]} is linked with itself"
        elif tuple(sorted(link)) in seen:
            yield f"links: {link[0]} and {link[1]} are linked twice"
        seen.add(tuple(sorted(link)))


class _Forest:
    """Names that are linked one by one, without a ring."""

    def __init__(self, names: Sequence[str]) -> None:
        self._linked: dict[str, list[str]] = {name: [] for name in names}

    def link(self, one: str, other: str) -> None:
        self._linked[one].append(other)
        self._linked[other].append(one)

    def way(self, one: str, other: str) -> list[str] | None:
        """All names on the way from one to another, both included; None if there is no way."""
        before = self._reached(one)
        if other not in before:
            return None
        way = [other]
        while way[-1] != one:
            way.append(before[way[-1]])
        return way[::-1]

    def parts(self) -> list[list[str]]:
        """Names that reach each other."""
        parts: list[list[str]] = []
        left: dict[str, Any] = dict(self._linked)
        while left:
            parts.append(sorted(self._reached(next(iter(left)))))
            for name in parts[-1]:
                del left[name]
        return parts

    def _reached(self, start: str) -> dict[str, str]:
        """Every name that can be reached, with the one before it."""
        before, waiting = {start: start}, [start]
        while waiting:
            name = waiting.pop()
            for other in self._linked[name]:
                if other not in before:
                    before[other] = name
                    waiting.append(other)
        return before


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_MAX])
    return shown if len(names) <= _SHOWN_MAX else f"{shown} and {len(names) - _SHOWN_MAX} more"
