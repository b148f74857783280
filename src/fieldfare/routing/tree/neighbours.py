"""The links of a broker to its neighbours in the tree: dialled, dialled again when they break, and windows of streams.

Either end of a link may dial, or both: then the link that the broker with the lesser name dialled stays. A neighbour
that can be reached in the tree by another way is not dialled, so that no ring comes of it. One that stays away can be
bridged over, where the topology says so: each of its other neighbours dials the one with the least name that it
reaches, which makes no ring. When the neighbour is back, a broker gives up its bridge before it uses the link.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fieldfare.messages import Close, Dial, Drained, Echo, Send, Stream, Warn
from fieldfare.routing.ports import Emit, Timers

_REDIAL_SECONDS = 0.1
_REDIAL_SECONDS_MAX = 5.0
_LOOK_SECONDS = 1.0  # until it is looked again whether a neighbour is still reached by another way
_ATTEMPTS_UNTOLD = 3  # as neighbours that are started at the same time may need
_ATTEMPTS_AFTER_RING = 4  # so many failures make the same pause
_DRAINED_BYTES = 64 * 1024  # a neighbour is told at once of so much
_NEWEST_WEIGHT = 0.25  # of the newest measurement, in the time that a frame takes
_EVENT_BYTES = 64  # what an event takes beside its text, about


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A broker to which this one is linked."""

    name: str  # empty: whoever is at the address
    address: str  # empty: it dials this broker
    bridges: Mapping[str, str] = field(default_factory=dict)  # names and addresses to dial instead, least name first


@dataclass(frozen=True, slots=True)
class RedialNeighbour:
    """Timer key: dial an address again."""

    address: str


@dataclass(frozen=True, slots=True)
class BridgeDue:
    """Timer key: a neighbour has been away for long enough."""

    name: str


@dataclass(slots=True)
class _Dialled:
    """An address that is to be dialled as long as it is wanted."""

    address: str
    link: str
    name: str = ""  # who is there, once that is known
    attempts: int = 0
    bridge_over: str = ""  # the neighbour that is away


@dataclass(slots=True)
class OpenLink:
    """A link to a neighbour. Bytes count what streams took since it is open."""

    link: str
    name: str
    sent_bytes: int = 0
    drained_bytes: int = 0
    received_bytes: int = 0
    told_bytes: int = 0
    hop_seconds: float | None = None  # that a frame takes to the neighbour, lately; None: not measured yet


@dataclass(frozen=True, slots=True)
class NeighbourPorts:
    """What the links to neighbours need of their broker."""

    emit: Emit
    timers: Timers
    is_present: Callable[[str], bool]  # whether a broker is reached in the tree, over whichever link


class Neighbours:
    """The links of the broker `name`. `bridge_seconds`: how long a neighbour may be away before it is bridged over."""

    def __init__(
        self,
        name: str,
        neighbours: tuple[Neighbour, ...],
        window_bytes: int,
        bridge_seconds: float,
        rng: random.Random,
        ports: NeighbourPorts,
    ) -> None:
        self._name = name
        self._neighbours = {each.name or each.address: each for each in neighbours}
        self.window_bytes, self._bridge_seconds = window_bytes, bridge_seconds
        self._rng, self._emit, self._timers, self._is_present = rng, ports.emit, ports.timers, ports.is_present
        self._dialled: dict[str, _Dialled] = {}  # by address
        self._open: dict[str, OpenLink] = {}
        self._by_name: dict[str, str] = {}
        self.dialled_count = 0  # so far
        self._untried = {each.address for each in neighbours if each.address}

    def __contains__(self, link: str) -> bool:
        return link in self._open

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._open))

    def name_at(self, link: str) -> str:
        """Who is at the other end."""
        return self._open[link].name

    def link_to(self, name: str) -> str | None:
        """The link to a neighbour, if it is open."""
        return self._by_name.get(name)

    def open_links(self) -> list[OpenLink]:
        """All links that are open."""
        return list(self._open.values())

    def away(self) -> list[str]:
        """Neighbours that are not linked with this broker, by name, or by address where no name is known."""
        found = {each.address: each.name for each in self._dialled.values()}
        names = {key: each.name or found.get(each.address) or key for key, each in self._neighbours.items()}
        return [name for name in names.values() if name not in self._by_name]

    @property
    def is_settling(self) -> bool:
        """Whether a neighbour is being dialled for the first time: it may soon be there."""
        return bool(self._untried)

    @property
    def is_bridging(self) -> bool:
        """Whether a neighbour that is away is bridged over, or that is being tried."""
        return any(dialled.bridge_over for dialled in self._dialled.values())

    # Dialling

    def start(self, now: float) -> None:
        """Dial all neighbours that are to be dialled."""
        for key, neighbour in self._neighbours.items():
            if neighbour.address:
                self._dial(_Dialled(neighbour.address, "", neighbour.name))
            if neighbour.bridges:
                self._timers.set(BridgeDue(key), now + self._bridge_seconds)

    def _dial(self, dialled: _Dialled) -> None:
        self.dialled_count += 1
        dialled.link = f"tree:{dialled.address}.{self.dialled_count}"
        self._dialled[dialled.address] = dialled
        self._emit(Dial(dialled.link, dialled.address))

    def redial(self, address: str, now: float) -> None:
        """The pause after a failure is over. Who is reached by another way is dialled only if that is a bridge."""
        dialled = self._dialled.get(address)
        if dialled is None or dialled.link in self._open:
            return
        if dialled.bridge_over in self._by_name:
            del self._dialled[address]
            return
        is_bridged = any(each.bridge_over == dialled.name for each in self._dialled.values())
        if dialled.name and self._is_present(dialled.name) and not is_bridged:
            self._timers.set(RedialNeighbour(address), now + _LOOK_SECONDS)
        else:
            self._dial(dialled)

    def is_dialled(self, link: str) -> bool:
        """Whether this broker is dialling that link."""
        return any(dialled.link == link for dialled in self._dialled.values())

    def unreachable(self, link: str, reason: str) -> None:
        """A link could not be opened. If that goes on, whoever runs this broker is told once."""
        attempts = next((each.attempts for each in self._dialled.values() if each.link == link), 0)
        if attempts == _ATTEMPTS_UNTOLD:
            self._emit(Warn(f"A neighbour cannot be reached, and is dialled again and again: {reason}"))

    # Links

    def opened(self, link: str, name: str) -> str | None:
        """A link is open. Why it is not wanted; None: it is."""
        dialled = next((each for each in self._dialled.values() if each.link == link), None)
        if dialled is not None:
            self._untried.discard(dialled.address)
            if dialled.bridge_over in self._by_name:
                del self._dialled[dialled.address]
                return "it is no longer needed"
            if dialled.name not in ("", name):
                return f"{dialled.name} was expected at {dialled.address}, and not {name}"
            dialled.name, dialled.attempts = name, 0
        elif _is_own(link):
            return "it is no longer needed"
        older = self._by_name.get(name)
        if older is not None and _is_own(link) != _is_own(older) and _is_own(link) != (self._name < name):
            return f"there is another link to {self._name}"
        self._open[link] = OpenLink(link, name)
        self._by_name[name] = link
        return None

    def former(self, link: str) -> list[str]:
        """Links that an open one takes the place of: an older one to the same broker, and bridges over it."""
        name = self._open[link].name
        older = [each.link for each in self._open.values() if each.name == name and each.link != link]
        bridges = [dialled for dialled in self._dialled.values() if dialled.bridge_over == name]
        for bridge in bridges:
            if bridge.link not in self._open:  # it is being dialled, or will be
                del self._dialled[bridge.address]
        return [*older, *(bridge.link for bridge in bridges if bridge.link in self._open)]

    def give_up(self, link: str, reason: str) -> None:
        """Close a link, and do not dial it again if it was a bridge."""
        for address, dialled in list(self._dialled.items()):
            if dialled.link == link and dialled.bridge_over:
                del self._dialled[address]
        self._emit(Close(link, reason))

    def failed(self, link: str, now: float) -> None:
        """A link could not be opened, or has broken."""
        known = self._open.pop(link, None)
        if known is not None and self._by_name.get(known.name) == link:
            del self._by_name[known.name]
            if known.name in self._neighbours and self._neighbours[known.name].bridges:
                self._timers.set(BridgeDue(known.name), now + self._bridge_seconds)
        dialled = next((each for each in self._dialled.values() if each.link == link), None)
        if dialled is None:
            return
        self._untried.discard(dialled.address)
        pause = min(_REDIAL_SECONDS_MAX, _REDIAL_SECONDS * 2**dialled.attempts) * (0.5 + self._rng.random())
        dialled.attempts = min(dialled.attempts + 1, 10)
        if dialled.bridge_over and known is None:
            self._next_bridge(dialled, now)
        else:
            self._timers.set(RedialNeighbour(dialled.address), now + pause)

    def wait_longer(self, link: str) -> None:
        """A link that is about to be closed made a ring: dial it late, when it is known who is reached without it."""
        for dialled in self._dialled.values():
            if dialled.link == link:
                dialled.attempts = _ATTEMPTS_AFTER_RING

    # Bridges

    def bridge_due(self, name: str, now: float) -> None:
        """A neighbour has been away for so long: go around it, if it still is."""
        if name in self._by_name or any(dialled.bridge_over == name for dialled in self._dialled.values()):
            return
        candidates = list(self._neighbours[name].bridges.values())
        free = [address for address in candidates if address not in self._dialled]
        if free:
            self._dial(_Dialled(free[0], "", bridge_over=name))
        elif candidates:
            self._timers.set(BridgeDue(name), now + self._bridge_seconds)

    def _next_bridge(self, failed: _Dialled, now: float) -> None:
        """That one is away too: try the next; after the last, begin again in a while."""
        name = failed.bridge_over
        del self._dialled[failed.address]
        candidates = list(self._neighbours[name].bridges.values())
        later = candidates[candidates.index(failed.address) + 1 :]
        free = [address for address in later if address not in self._dialled]
        if free and name not in self._by_name:
            self._dial(_Dialled(free[0], "", bridge_over=name))
        else:
            self._timers.set(BridgeDue(name), now + self._bridge_seconds)

    # Windows

    def send_stream(self, link: str, frame: Stream) -> bool:
        """Send a range, unless too much is on its way; whether it was sent."""
        opened = self._open.get(link)
        if opened is None or opened.sent_bytes - opened.drained_bytes > self.window_bytes:
            return False
        opened.sent_bytes += stream_bytes(frame)
        self._emit(Send(link, frame))
        return True

    def received_stream(self, link: str, frame: Stream) -> None:
        """A range came, and has been dealt with."""
        opened = self._open[link]
        opened.received_bytes += stream_bytes(frame)
        if opened.received_bytes - opened.told_bytes >= _DRAINED_BYTES:
            self._tell(opened)

    def drained(self, link: str, frame: Drained) -> None:
        """A neighbour has dealt with so much."""
        opened = self._open[link]
        opened.drained_bytes = min(max(opened.drained_bytes, frame.size_bytes), opened.sent_bytes)

    # Delays

    def measure(self, now: float) -> None:
        """Find out how long frames take to each neighbour."""
        for link in self._open:
            self._emit(Send(link, Echo(now)))

    def echo(self, link: str, frame: Echo, now: float) -> None:
        """A neighbour measures, or what was sent to be measured has come back."""
        if not frame.is_answer:
            self._emit(Send(link, Echo(frame.sent_at, is_answer=True)))
            return
        opened, seconds = self._open[link], max(0.0, now - frame.sent_at) / 2
        before = seconds if opened.hop_seconds is None else opened.hop_seconds
        opened.hop_seconds = before + _NEWEST_WEIGHT * (seconds - before)

    def hop_seconds(self) -> dict[str, float]:
        """How long a frame takes to each neighbour, by name: on the link, and waiting at both ends."""
        return {each.name: each.hop_seconds for each in self._open.values() if each.hop_seconds is not None}

    # Now and then

    def tidy(self) -> None:
        """Tell neighbours how much has been dealt with."""
        for opened in self._open.values():
            if opened.received_bytes > opened.told_bytes:
                self._tell(opened)

    def _tell(self, opened: OpenLink) -> None:
        opened.told_bytes = opened.received_bytes
        self._emit(Send(opened.link, Drained(opened.received_bytes)))


def _is_own(link: str) -> bool:
    """Whether this broker dialled it, and not the other one."""
    return link.startswith("tree:")


def stream_bytes(frame: Stream) -> int:
    """About how much a range takes."""
    return _EVENT_BYTES + sum(len(event.delivery) + _EVENT_BYTES for event in frame.events)
