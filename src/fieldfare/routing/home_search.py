"""Finding the home of a durable subscription: the one edge that has it.

A client may come to any edge with a name, to subscribe, to receive, to end it or to look at it. An edge that does not
know it asks the other edges of the topic before it makes a new subscription, or says that there is none. If one of them
has it, the client is sent there; if none has it, it is made here; and if an edge that may have it, because it has
durable subscriptions, cannot be asked, the client is to try again later. Where edges look for the same new name at the
same time, the one whose log has the lowest id goes first; the clients of the others are to try again, and are then sent
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from fieldfare.messages import (
    Attach,
    Find,
    Found,
    Identity,
    List,
    LogId,
    Send,
    Subscribe,
    SubscriptionRequest,
    TopicKey,
    Unsubscribe,
)
from fieldfare.routing.broker_links import BrokerLinks
from fieldfare.routing.importing import Imports
from fieldfare.routing.ports import Emit
from fieldfare.routing.refusal import Refusal

SEARCHES_MAX = 10_000
# What a client may ask of a subscription by its name.
NamedRequest: TypeAlias = Subscribe | Attach | Unsubscribe | List | SubscriptionRequest


@dataclass(slots=True, eq=False)
class HomeSearch:
    """A request for a durable subscription that this edge does not have."""

    link: str
    identity: Identity
    frame: NamedRequest
    number: int
    topics: tuple[TopicKey, ...]  # whose edges are asked
    until: float
    answered: set[LogId] = field(default_factory=set)  # edges that do not have it

    @property
    def name(self) -> str:
        """Of the subscription."""
        return (self.frame.name if isinstance(self.frame, Subscribe) else self.frame.subscription) or ""

    @property
    def key(self) -> tuple[str, str]:
        """The tenant and the name of the subscription."""
        return self.identity.tenant, self.name


@dataclass(frozen=True, slots=True)
class SearchPorts:
    """What searching needs of its broker."""

    emit: Emit
    links: BrokerLinks
    imports: Imports
    has: Callable[[str, str], bool]  # whether this edge has a durable subscription of a tenant, or is making it
    go_on: Callable[[HomeSearch, float], None]  # no other edge has it
    refuse: Callable[[HomeSearch, Refusal], None]


class HomeSearches:
    """The searches of one edge, by its name among the brokers."""

    def __init__(self, name: str, seconds_max: float, ports: SearchPorts) -> None:
        self.log_id: LogId = ""  # set when it is known
        self._name, self._seconds_max = name, seconds_max
        self._emit, self._links, self._imports = ports.emit, ports.links, ports.imports
        self._has, self._go_on, self._refuse = ports.has, ports.go_on, ports.refuse
        self._numbers = count(1)
        self._searches: dict[int, HomeSearch] = {}
        self._by_key: dict[tuple[str, str], HomeSearch] = {}

    def count_of(self, topic: TopicKey) -> int:
        """How many are looked for in a topic."""
        return sum(topic in search.topics for search in self._searches.values())

    # Asking

    def begin(
        self, link: str, identity: Identity, frame: NamedRequest, topics: Iterable[TopicKey], now: float
    ) -> HomeSearch:
        """Look for what a client asks for. Nothing is sent before `ask` is called."""
        if len(self._searches) >= SEARCHES_MAX:
            raise Refusal("busy", "too many subscriptions are being looked for at other edges: try again")
        number = next(self._numbers)
        search = HomeSearch(link, identity, frame, number, tuple(topics), now + self._seconds_max)
        if search.key in self._by_key:
            raise Refusal("busy", f"the subscription {search.name!r} is just being looked for: try again")
        self._searches[number] = self._by_key[search.key] = search
        return search

    def ask(self, search: HomeSearch, now: float) -> None:
        """Ask the edges that can be reached and have not answered, each in one topic: an answer is for all topics."""
        asked: set[LogId] = set()
        for topic in search.topics:
            silent = set(self._silent(search, topic)) - asked
            if silent:
                asked |= silent
                for link in self._links.routes[topic].joined:
                    self._emit(Send(link, Find(topic, self.log_id, search.number, search.name)))
        self._check(search, now)

    def ask_in(self, topic: TopicKey, now: float) -> None:
        """More edges of a topic may be reached now."""
        for search in list(self._searches.values()):
            if topic in search.topics:
                self.ask(search, now)

    def tidy(self, now: float) -> None:
        """Ask again who has not answered, and give up what has waited too long."""
        for search in list(self._searches.values()):
            self.ask(search, now)

    def found(self, frame: Found, now: float) -> None:
        """An edge has answered."""
        search = self._searches.get(frame.number)
        if search is None or frame.asker != self.log_id:
            return
        if frame.is_here:
            self._send_on(search, frame.edge)
        elif frame.is_contested:
            self._give_way(search)
        else:
            search.answered.add(frame.edge)
            self._check(search, now)

    def _check(self, search: HomeSearch, now: float) -> None:
        """Go on if nobody has it; refuse it if somebody who may have it does not answer in time."""
        is_over = search.until <= now
        if not is_over and self._is_waiting(search):
            return
        if unseen := [topic for _, topic in search.topics if not self._is_seen((search.identity.tenant, topic))]:
            reason = f"it is not known yet which edges serve the topic {unseen[0]!r}: try again"
            self._end(search, Refusal("busy", reason))
        elif owed := next(self._owed(search), None):
            reason = (
                f"the edge {owed!r} may have the subscription {search.name!r}, and cannot be reached: try again. If "
                f"that edge is gone for good, `fieldfare brokers remove {owed}` ends the waiting for it"
            )
            self._end(search, Refusal("busy", reason))
        else:
            self._end(search, None)
            self._go_on(search, now)

    def _is_waiting(self, search: HomeSearch) -> bool:
        is_silent = any(self._links.is_settling(topic) or any(self._silent(search, topic)) for topic in search.topics)
        return is_silent or any(self._owed(search))

    def _is_seen(self, topic: TopicKey) -> bool:
        route = self._links.routes.get(topic)
        return route is not None and route.is_seen

    def _silent(self, search: HomeSearch, topic: TopicKey) -> Iterator[LogId]:
        """Edges of a topic that can be reached and have not answered."""
        for origin in self._imports.of_topic(topic):
            if origin.is_reachable and origin.log not in search.answered:
                yield origin.log

    def _owed(self, search: HomeSearch) -> Iterator[str]:
        """The names of edges that have durable subscriptions, and have not answered."""
        for topic in search.topics:
            route = self._links.routes.get(topic)
            for name in () if route is None else route.owed:
                member = self._links.members.get(name)
                if name != self._name and (member is None or member.log not in search.answered):
                    yield name

    def _send_on(self, search: HomeSearch, edge: LogId) -> None:
        """Tell a client which edge has what it asks for."""
        member = next((member for member in self._links.members.values() if member.log == edge), None)
        home = "" if member is None else member.url
        reason = f"the subscription {search.name!r} has its home at the edge {edge if member is None else member.name}"
        reason += f": connect to {home}" if home else ", which names no URL for clients"
        knows_homes = search.frame.log is not None  # what is new, an old client could not read
        self._end(search, Refusal("moved" if knows_homes else "invalid", reason, home=home or None))

    def _give_way(self, search: HomeSearch) -> None:
        reason = f"another edge is just making the subscription {search.name!r}: try again"
        self._end(search, Refusal("busy", reason))

    def _end(self, search: HomeSearch, refusal: Refusal | None) -> None:
        del self._searches[search.number], self._by_key[search.key]
        if refusal is not None:
            self._refuse(search, refusal)

    # Answering

    def find(self, link: str, frame: Find) -> None:
        """Another edge looks for a subscription."""
        if frame.asker == self.log_id:
            return
        key = frame.topic[0], frame.subscription
        search = self._by_key.get(key)
        is_making = search is not None and isinstance(search.frame, Subscribe)
        goes_first = is_making and self.log_id < frame.asker
        if search is not None and is_making and not goes_first:
            self._give_way(search)
        self._emit(Send(link, Found(frame.topic, self.log_id, frame.asker, frame.number, self._has(*key), goes_first)))
