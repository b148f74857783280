"""Whether a history keeps the promises: safety, that nothing wrong came, and liveness, that nothing is missing.

Safety holds at every moment: what a subscriber gets of one publisher is a part, in order, of what that publisher
published and nobody refused, and every event in it satisfies the condition. Liveness is asked when faults have ended
and all is quiet: every request is answered, and every event that was accepted, and published after the subscription
was confirmed, has come; to one that begins with what is alive, also what was accepted before. Of a subscription that
keeps the last events only, the last has come. Events are told apart by what is in them, so publish different ones.

It is the same with several edges, wherever an event was accepted and wherever it is wanted, and wherever a publisher
has moved. A client that goes to another edge without its numbers is another publisher there, so what it sent to both
may come in any order. An event that was accepted before a
volatile subscription was confirmed may come, if its edge heard of the event's edge only later, but once like any other.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.history import History, Publication, Reception
from fieldfare.simulation.promised import (
    Due,
    Promise,
    Scope,
    durable_receptions,
    holds,
    requests_of,
    subscriptions,
)


@dataclass(frozen=True, eq=False)
class _Received:
    """What one subscriber got of one subscription; of a durable one there may be several, one after the other."""

    subscriber: str
    tenant: str
    request: Subscribe
    events: Sequence[Delivery]
    may_repeat: bool = False  # a webhook's edge lost its disk: it may have called it again
    moves: Collection[int] = ()  # before these events its client came to another edge
    edge: str = ""  # that serves it
    crashed_at: float = -math.inf  # when that edge crashed last

    @property
    def topic(self) -> tuple[str, str]:
        return self.tenant, self.request.topic


class _Place(NamedTuple):
    """Where an event stands among all that were published."""

    number: int
    publication: Publication


_Places: TypeAlias = dict[tuple[str, str, str], dict[bytes, list[_Place]]]  # by tenant, topic, publisher; and event


def check_safety(history: History) -> None:
    """Raise what is wrong with what was delivered so far."""
    places: _Places = {}
    numbers = itertools.count(1)
    for publication in history.publications:
        if publication.outcome != "refused":
            key = (publication.tenant, publication.topic, publication.publisher)
            of_publisher = places.setdefault(key, {})
            for event in publication.events:
                of_publisher.setdefault(event, []).append(_Place(next(numbers), publication))
    for received in _all_received(history):
        _check_conditions(received)
        offered = history.offered.get(received.topic, Offered())
        _check_order(received, places, is_reliable=offered.reliability == "reliable")
    _check_dead_letters(history)


def _all_received(history: History) -> Iterator[_Received]:
    for reception, request in requests_of(history).items():
        if request.webhook is None:
            edge = reception.edge
            crashed_at = max((crash.at for crash in history.crashes if crash.edge == edge), default=-math.inf)
            for events, moves in _between_restarts(reception):
                yield _Received(
                    reception.client,
                    reception.tenant,
                    request,
                    events,
                    moves=moves,
                    edge=edge,
                    crashed_at=crashed_at,
                )
        else:
            taken = history.called.get(request.webhook, ())
            # A webhook is called again when its answer was lost; what it has seen, it passes over by position.
            events = list({(each.position, bytes(each.event)): each for each in taken}.values())
            may_repeat = any(lost.edge == reception.edge for lost in history.lost_disks)
            yield _Received(request.webhook, reception.tenant, request, events, may_repeat)


def _between_restarts(reception: Reception) -> Iterator[tuple[Sequence[Delivery], set[int]]]:
    """Its events, of one log after the other; those of several that its client went to are together."""
    ends = [restart.events_before for restart in reception.restarts if not restart.is_remembered]
    moves = [restart.events_before for restart in reception.restarts if restart.is_remembered]
    for start, end in itertools.pairwise([0, *ends, len(reception.events)]):
        yield reception.events[start:end], {move - start for move in moves}


def _check_conditions(received: _Received) -> None:
    condition = received.request.condition
    for delivery in received.events:
        event = bytes(delivery.event)
        if not holds(condition, event):
            raise BrokenPromiseError("unexpected", received.subscriber, f"{event!r} does not satisfy {condition!r}")


def _check_order(received: _Received, places_of: _Places, *, is_reliable: bool) -> None:
    """Each publisher's events are a part of what it published at each edge, in order as long as they are of one log.

    In a topic that is not reliable, an edge that crashed does not know what it had: what its publisher, or the edge of
    its publisher, sends again may come again.
    """
    used: dict[str, set[int]] = {}  # by publisher: the numbers of the events that came
    last: dict[str, int] = {}  # by publisher: the number of the last one
    for number, delivery in enumerate(received.events):
        if number in received.moves:
            last.clear()
        publisher, event = delivery.publisher or "", bytes(delivery.event)
        places = places_of.get((*received.topic, publisher), {}).get(event, [])
        came = used.setdefault(publisher, set())
        place = next((place for place in places if _may_follow(place, came, last)), None)
        if place is not None:
            came.add(place.number)
            if place.publication.edge is not None:  # else it is not known what comes after it
                last[publisher] = place.number
        elif not places or (not received.may_repeat and (is_reliable or _is_sent_once(places, received))):
            numbers = {place.number for place in places}
            kind = "unexpected" if not places else "duplicated" if numbers <= came else "reordered"
            detail = f"{event!r} of {publisher!r} at {delivery.position}"
            raise BrokenPromiseError(kind, received.subscriber, detail)


def _may_follow(place: _Place, came: Collection[int], last: dict[str, int]) -> bool:
    """Whether an event may come now: after those of the same publisher that were published before."""
    edge = place.publication.edge
    if edge is None or place.number in came:  # it is not known after which
        return place.number not in came
    return place.number > last.get(place.publication.publisher, 0)


def _is_sent_once(places: Sequence[_Place], received: _Received) -> bool:
    """Whether an event of a topic that is not reliable was sent once: by its publisher, and from edge to edge."""
    return all(
        place.publication.is_sent_once
        and (place.publication.edge == received.edge or received.crashed_at < place.publication.published_at)
        for place in places
    )


def _check_dead_letters(history: History) -> None:
    """The dead letters are what the webhooks refused."""
    for (tenant, name), letters in (history.dead_letters or {}).items():
        refused = {each.position for each in history.refused.get(_webhook(history, tenant, name), ())}
        for letter in letters:
            if letter.position not in refused:
                detail = f"{bytes(letter.event)!r} is a dead letter, but its webhook never refused it"
                raise BrokenPromiseError("unexpected", name, detail)


def _webhook(history: History, tenant: str, name: str) -> str:
    """The URL of a subscription's webhook; of one without, no URL."""
    requests = [each.request for each in history.receptions if (each.tenant, each.name) == (tenant, name)]
    return next((each.webhook for each in requests if isinstance(each, Subscribe) and each.webhook is not None), "")


def check_liveness(
    history: History, now: float, among: Collection[str] | None = None, clock_error_seconds: float = 0.0
) -> None:
    """Raise what is missing. Best effort, and what has expired by now, promise no events.

    `among` names the clients and edges that are judged, where others suffer from a fault that has not ended: what they
    published, and what they wait for, is not asked about. `clock_error_seconds` is by how much an edge may have
    misjudged how long an event lives. What left a log that was too large, or was on a disk that was lost, may be
    missing; `gap_checker.check_gaps` finds out whether that was told.
    """
    scope = Scope(now, among, clock_error_seconds)
    _check_answers(history, scope)
    for lives, request in subscriptions(history):
        _check_complete(Promise(lives, request, history, scope), now + clock_error_seconds)
    for (tenant, name), letters in (history.dead_letters or {}).items():
        kept = {letter.position for letter in letters}
        for refused in history.refused.get(_webhook(history, tenant, name), ()):
            if refused.position not in kept:
                raise BrokenPromiseError("lost", name, f"{bytes(refused.event)!r} was refused, and is no dead letter")


def _check_answers(history: History, scope: Scope) -> None:
    """Every request is answered."""
    for publication in history.publications:
        if publication.outcome == "waiting" and scope.has(publication.client, publication.edge):
            raise BrokenPromiseError("unanswered", publication.publisher, f"the publication of {publication.events!r}")
    for reception in history.receptions:
        if not scope.has(reception.client, reception.edge):
            continue
        if reception.confirmed_at is None and reception.ended_at is None:
            raise BrokenPromiseError("unanswered", reception.client, f"the request {reception.request!r}")
        if reception.unsubscription == "waiting":
            raise BrokenPromiseError("unanswered", reception.client, f"the end of {reception.request!r}")


def _check_complete(promise: Promise, latest_now: float) -> None:
    """One subscription got all that was promised to it. `latest_now` is the time by the clock that is most ahead."""
    if not promise.is_given:
        return
    due = promise.due(max(promise.begins_at, latest_now - promise.lifespan_seconds))
    missing: Sequence[Due] = promise.missing(due)
    if missing and promise.request.qos.keep_last is not None:
        missing = _missing_last(due, missing)
    for publication, event in missing:
        if not (promise.was_on_lost_disk(publication) or promise.may_be_removed(publication)):
            detail = f"{event!r} of {publication.publisher!r} for subscription {promise.name!r}"
            raise BrokenPromiseError("lost", promise.client, detail)


def _missing_last(due: Sequence[Due], missing: Sequence[Due]) -> Sequence[Due]:
    """Those that may have been the last event, if none of them has come.

    The last that was accepted by one edge is unknown where publications overlapped: it is the last event of one that
    was answered after the latest publication had begun. The last that came is the last of one of the edges.
    """
    last: list[Due] = []
    for edge in {publication.edge: None for publication, _ in due}:
        of_edge = [each for each in due if each[0].edge == edge]
        began_last_at = max(publication.published_at for publication, _ in of_edge)
        last_events = dict(of_edge)  # of each publication
        last += [each for each in last_events.items() if (each[0].answered_at or math.inf) >= began_last_at]
    return [] if any(each not in missing for each in last) else last


def check_standing(history: History) -> None:
    """Raise if the edge, which was asked when all was quiet, has not the subscriptions that it should have."""
    if (standing := history.standing) is None:
        return
    durable = {(each.tenant, each.subscription) for each in standing if each.is_durable}
    requests = requests_of(history)
    for (tenant, name), lives in durable_receptions(requests).items():
        should_stand = _should_stand(lives)
        if should_stand is not None and should_stand != ((tenant, name) in durable):
            kind = "lost" if should_stand else "unexpected"
            raise BrokenPromiseError(kind, lives[0].client, f"the subscription {name!r}")
    unnamed = Counter((each.tenant, each.topic) for each in standing if not each.is_durable)
    for reception, request in requests.items():
        if request.name is None and reception.confirmed_at is not None and reception.ended_at is None:
            unnamed[reception.tenant, request.topic] -= 1
    for (tenant, topic), excess in unnamed.items():
        if excess:
            detail = f"topic {topic!r} has {abs(excess)} unnamed subscriptions too {'many' if excess > 0 else 'few'}"
            raise BrokenPromiseError("unexpected" if excess > 0 else "lost", tenant, detail)


def _should_stand(lives: Sequence[Reception]) -> bool | None:
    """Whether a durable subscription exists: until its end was asked for, from its confirmation on. None: unknown."""
    should_stand: bool | None = False
    for life in lives:
        if life.unsubscription is not None:
            should_stand = False if life.unsubscription == "accepted" else None
        elif life.confirmed_at is not None:
            should_stand = True
        elif not should_stand and life.error is None:
            should_stand = None  # its client did not live to hear the answer
    return should_stand
