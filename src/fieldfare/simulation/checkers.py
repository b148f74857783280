"""Whether a history keeps the promises: safety, that nothing wrong came, and liveness, that nothing is missing.

Safety holds at every moment: what a subscriber gets of one publisher is a part, in order, of what that publisher
published and nobody refused, and every event in it satisfies the condition. Liveness is asked when faults have ended
and all is quiet: every request is answered, and every event that was accepted, and published after the subscription
was confirmed, has come. Events are told apart by what is in them, so publish different ones.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fieldfare.errors import BrokenPromiseError
from fieldfare.events import event_attributes
from fieldfare.matching import oracle
from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.history import History, Publication, Reception


@dataclass(frozen=True, eq=False)
class _Received:
    """What one subscriber got of one subscription; of a durable one there may be several, one after the other."""

    subscriber: str
    request: Subscribe
    events: Sequence[Delivery]


def check_safety(history: History) -> None:
    """Raise what is wrong with what was delivered so far."""
    places: dict[tuple[str, str], dict[bytes, list[int]]] = {}
    numbers = itertools.count(1)
    for publication in history.publications:
        if publication.outcome != "refused":
            of_publisher = places.setdefault((publication.topic, publication.publisher), {})
            for event in publication.events:
                of_publisher.setdefault(event, []).append(next(numbers))
    for received in _all_received(history):
        _check_conditions(received)
        offered = history.offered.get(received.request.topic, Offered())
        _check_order(received, places, is_reliable=offered.reliability == "reliable")


def _all_received(history: History) -> Iterator[_Received]:
    for reception, request in _requests(history).items():
        if request.webhook is None:
            yield _Received(reception.client, request, reception.events)
        else:
            taken = history.called.get(request.webhook, ())
            # A webhook is called again when its answer was lost; what it has seen, it passes over by position.
            yield _Received(request.webhook, request, list({each.position: each for each in taken}.values()))


def _check_conditions(received: _Received) -> None:
    condition = received.request.condition
    for delivery in received.events:
        event = bytes(delivery.event)
        if not _holds(condition, event):
            raise BrokenPromiseError("unexpected", received.subscriber, f"{event!r} does not satisfy {condition!r}")


def _check_order(
    received: _Received, places_of: dict[tuple[str, str], dict[bytes, list[int]]], *, is_reliable: bool
) -> None:
    """Each publisher's events are a part of what it published, in order.

    In a topic that is not reliable, an edge that crashed does not know what it had: what is sent again may come again.
    """
    places_used: dict[str, list[int]] = {}
    for delivery in received.events:
        publisher, event = delivery.publisher or "", bytes(delivery.event)
        places = places_of.get((received.request.topic, publisher), {}).get(event, [])
        used = places_used.setdefault(publisher, [])
        last = used[-1] if used else 0
        place = next((place for place in places if place > last), None)
        if place is not None:
            used.append(place)
        elif is_reliable or not places:
            kind = "unexpected" if not places else "duplicated" if set(places) <= set(used) else "reordered"
            detail = f"{event!r} of {publisher!r} at {delivery.position}"
            raise BrokenPromiseError(kind, received.subscriber, detail)


def check_liveness(history: History, now: float) -> None:
    """Raise what is missing. Best effort, what keeps the last only, and what has expired by now, promise no events."""
    for publication in history.publications:
        if publication.outcome == "waiting":
            raise BrokenPromiseError("unanswered", publication.publisher, f"the publication of {publication.events!r}")
    for reception in history.receptions:
        if reception.confirmed_at is None and reception.ended_at is None:
            raise BrokenPromiseError("unanswered", reception.client, f"the request {reception.request!r}")
    durable: dict[str, list[Reception]] = {}
    requests = _requests(history)
    for reception, request in requests.items():
        if request.name is not None:
            durable.setdefault(request.name, []).append(reception)
        else:
            _check_complete([reception], request, history, now)
    for lives in durable.values():
        _check_complete(lives, requests[lives[0]], history, now)


def _check_complete(lives: Sequence[Reception], request: Subscribe, history: History, now: float) -> None:
    """One subscription got all, in its subscribers' lives together."""
    begun = min((life.confirmed_at for life in lives if life.confirmed_at is not None), default=None)
    is_promised = request.qos.reliability == "reliable" and request.qos.keep_last is None
    if begun is None or not is_promised or all(life.ended_at is not None for life in lives):
        return
    begun = max(begun, now - history.offered.get(request.topic, Offered()).lifespan_seconds)
    deliveries = [delivery for life in lives for delivery in life.events]
    deliveries += history.called.get(request.webhook or "", ())
    got = {(delivery.publisher, bytes(delivery.event)) for delivery in deliveries}
    for publication, event in _accepted(history.publications, request.topic):
        is_due = publication.published_at > begun and _holds(request.condition, event)
        if is_due and (publication.publisher, event) not in got:
            name = request.name or lives[0].subscription
            detail = f"{event!r} of {publication.publisher!r} for subscription {name!r}"
            raise BrokenPromiseError("lost", lives[0].client, detail)


def _accepted(publications: Iterable[Publication], topic: str) -> Iterator[tuple[Publication, bytes]]:
    for publication in publications:
        if publication.topic == topic and publication.outcome == "accepted":
            for event in publication.events:
                yield publication, event


def _requests(history: History) -> dict[Reception, Subscribe]:
    """Each reception with what was subscribed; who attached gets what somebody subscribed by that name."""
    named = {
        reception.request.name: reception.request
        for reception in history.receptions
        if isinstance(reception.request, Subscribe)
    }
    found: dict[Reception, Subscribe] = {}
    for reception in history.receptions:
        request = reception.request
        if isinstance(request, Subscribe):
            found[reception] = request
        elif request.subscription in named:
            found[reception] = named[request.subscription]
    return found


@functools.lru_cache(maxsize=16_384)
def _holds(condition: str, event: bytes) -> bool:
    return oracle.holds(condition, event_attributes(event))
