"""What each subscription of a history has a right to, and what it got: the ground on which the checkers stand."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fieldfare.events import event_attributes
from fieldfare.matching import oracle
from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.history import History, Publication, Reception

Due: TypeAlias = tuple[Publication, bytes]  # an event that has to come


@dataclass(frozen=True)
class Scope:
    """When a history is judged, and how strictly: among which machines, and with clocks that may be how wrong."""

    now: float
    among: Collection[str] | None = None  # clients and edges, by name; None: all
    clock_error_seconds: float = 0.0  # by how much an edge may have misjudged how long an event lives

    def has(self, *names: str | None) -> bool:
        """Whether all these machines are among those that are judged."""
        return self.among is None or all(name in self.among for name in names)


def subscriptions(history: History) -> Iterator[tuple[list[Reception], Subscribe]]:
    """Each subscription with its receptions; of a durable one, until its end, all lives of its subscribers together."""
    requests = requests_of(history)
    for reception, request in requests.items():
        if request.name is None:
            yield [reception], request
    for receptions in durable_receptions(requests).values():
        lives: list[Reception] = []
        for reception in receptions:
            lives.append(reception)
            if reception.unsubscription is not None:  # what follows by the same name is another subscription
                yield lives, requests[lives[0]]
                lives = []
        if lives:
            yield lives, requests[lives[0]]


def requests_of(history: History) -> dict[Reception, Subscribe]:
    """Each reception with what was subscribed; who attached gets what somebody subscribed by that name."""
    named = {
        (reception.tenant, reception.request.name): reception.request
        for reception in history.receptions
        if isinstance(reception.request, Subscribe)
    }
    found: dict[Reception, Subscribe] = {}
    for reception in history.receptions:
        request = reception.request
        if isinstance(request, Subscribe):
            found[reception] = request
        elif (reception.tenant, request.subscription) in named:
            found[reception] = named[reception.tenant, request.subscription]
    return found


def durable_receptions(requests: Mapping[Reception, Subscribe]) -> dict[tuple[str, str], list[Reception]]:
    """What was received by each name, by tenants and names."""
    durable: dict[tuple[str, str], list[Reception]] = {}
    for reception, request in requests.items():
        if request.name is not None:
            durable.setdefault((reception.tenant, request.name), []).append(reception)
    return durable


def deliveries(lives: Iterable[Reception], request: Subscribe, history: History) -> Iterator[Delivery]:
    """All that came to subscribers or a webhook, also what it refused for good."""
    for life in lives:
        yield from life.events
    yield from history.called.get(request.webhook or "", ())
    yield from history.refused.get(request.webhook or "", ())


@functools.lru_cache(maxsize=16_384)
def holds(condition: str, event: bytes) -> bool:
    """Whether an event satisfies a condition."""
    return oracle.holds(condition, event_attributes(event))


class Promise:
    """What one subscription has a right to: all events that it wants, from when it was confirmed."""

    def __init__(self, lives: Sequence[Reception], request: Subscribe, history: History, scope: Scope) -> None:
        self.lives, self.request = lives, request
        self.client = lives[0].client
        self.name = request.name or lives[0].subscription
        self.topic = (lives[0].tenant, request.topic)
        self.lifespan_seconds = history.offered.get(self.topic, Offered()).lifespan_seconds
        self._history, self._scope = history, scope
        # Of a log that is gone nothing is promised any more, until the subscription was confirmed at the next one.
        restarted_at = max((restart.at for life in lives for restart in life.restarts), default=-math.inf)
        confirmed_at = [at for life in lives for at in (life.confirmed_at, life.confirmed_again_at) if at is not None]
        self.confirmed_at = min((at for at in confirmed_at if at > restarted_at), default=None)
        self._has_restarted = restarted_at > -math.inf

    @property
    def is_given(self) -> bool:
        """Whether events are promised: it is reliable, confirmed, and neither ended nor out of scope."""
        return (
            self.confirmed_at is not None
            and self.request.qos.reliability == "reliable"
            and any(life.ended_at is None for life in self.lives)
            and all(self._scope.has(life.client, life.edge) for life in self.lives if life.ended_at is None)
        )

    @property
    def begins_at(self) -> float:
        """What is published after this has to come."""
        begins_with_living = self.request.qos.durability == "transient" and self.topic not in self._history.spark_topics
        if self.confirmed_at is None or (begins_with_living and not self._has_restarted):
            return -math.inf
        return self.confirmed_at

    def due(self, published_after: float) -> list[Due]:
        """The events that were accepted after a moment, wherever, and that it wants."""
        return [
            (publication, event)
            for publication in self._history.publications
            if (publication.tenant, publication.topic) == self.topic
            and publication.outcome == "accepted"
            and publication.published_at > published_after
            and self._scope.has(publication.edge)
            for event in publication.events
            if holds(self.request.condition, event)
        ]

    def missing(self, due: Iterable[Due]) -> list[Due]:
        """Those that have not come."""
        came = deliveries(self.lives, self.request, self._history)
        got = {(delivery.publisher, bytes(delivery.event)) for delivery in came}
        return [(publication, event) for publication, event in due if (publication.publisher, event) not in got]

    # Events that are gone

    def may_be_expired(self, publication: Publication, at: float) -> bool:
        """Whether its events may have been too old to be delivered, by the clock of some edge."""
        return at - publication.published_at + self._scope.clock_error_seconds >= self.lifespan_seconds

    def was_on_lost_disk(self, publication: Publication, until: float = math.inf) -> bool:
        """Whether its events may be gone with the disk of the edge that accepted them."""
        return any(
            lost.edge == publication.edge
            and publication.published_at <= lost.at <= until
            and (publication.answered_at is None or lost.since < publication.answered_at <= lost.at)
            for lost in self._history.lost_disks
        )

    def may_be_removed(self, publication: Publication, until: float = math.inf) -> bool:
        """Whether its events may have left a log alive: at the edge that accepted them, or at the subscriber's."""
        edges = {publication.edge, *(life.edge for life in self.lives)}
        return any(
            (removal.tenant, removal.topic) == self.topic
            and removal.edge in edges
            and publication.published_at <= removal.at <= until
            for removal in self._history.removals
        )
