"""Whether a history keeps the promises: safety, that nothing wrong came, and liveness, that nothing is missing.

Safety holds at every moment: what a subscriber gets of one publisher is a part, in order, of what that publisher
published and nobody refused, and every event in it satisfies the condition. Liveness is asked when faults have ended
and all is quiet: every request is answered, and every event that was accepted, and published after the subscription
was confirmed, has come; to one that begins with what is alive, also what was accepted before. Of a subscription that
keeps the last events only, the last has come. Events are told apart by what is in them, so publish different ones.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fieldfare.errors import BrokenPromiseError
from fieldfare.events import event_attributes
from fieldfare.matching import oracle
from fieldfare.messages import Delivery, Subscribe
from fieldfare.qos import Offered
from fieldfare.simulation.history import History, Publication, Reception

_Due: TypeAlias = tuple[Publication, bytes]  # an event that has to come


@dataclass(frozen=True, eq=False)
class _Received:
    """What one subscriber got of one subscription; of a durable one there may be several, one after the other."""

    subscriber: str
    tenant: str
    request: Subscribe
    events: Sequence[Delivery]

    @property
    def topic(self) -> tuple[str, str]:
        return self.tenant, self.request.topic


def check_safety(history: History) -> None:
    """Raise what is wrong with what was delivered so far."""
    places: dict[tuple[str, str, str], dict[bytes, list[int]]] = {}
    numbers = itertools.count(1)
    for publication in history.publications:
        if publication.outcome != "refused":
            key = (publication.tenant, publication.topic, publication.publisher)
            of_publisher = places.setdefault(key, {})
            for event in publication.events:
                of_publisher.setdefault(event, []).append(next(numbers))
    for received in _all_received(history):
        _check_conditions(received)
        offered = history.offered.get(received.topic, Offered())
        _check_order(received, places, is_reliable=offered.reliability == "reliable")
    _check_dead_letters(history)


def _all_received(history: History) -> Iterator[_Received]:
    for reception, request in _requests(history).items():
        if request.webhook is None:
            yield _Received(reception.client, reception.tenant, request, reception.events)
        else:
            taken = history.called.get(request.webhook, ())
            # A webhook is called again when its answer was lost; what it has seen, it passes over by position.
            events = list({each.position: each for each in taken}.values())
            yield _Received(request.webhook, reception.tenant, request, events)


def _check_conditions(received: _Received) -> None:
    condition = received.request.condition
    for delivery in received.events:
        event = bytes(delivery.event)
        if not _holds(condition, event):
            raise BrokenPromiseError("unexpected", received.subscriber, f"{event!r} does not satisfy {condition!r}")


def _check_order(
    received: _Received, places_of: dict[tuple[str, str, str], dict[bytes, list[int]]], *, is_reliable: bool
) -> None:
    """Each publisher's events are a part of what it published, in order.

    In a topic that is not reliable, an edge that crashed does not know what it had: what is sent again may come again.
    """
    places_used: dict[str, list[int]] = {}
    for delivery in received.events:
        publisher, event = delivery.publisher or "", bytes(delivery.event)
        places = places_of.get((*received.topic, publisher), {}).get(event, [])
        used = places_used.setdefault(publisher, [])
        last = used[-1] if used else 0
        place = next((place for place in places if place > last), None)
        if place is not None:
            used.append(place)
        elif is_reliable or not places:
            kind = "unexpected" if not places else "duplicated" if set(places) <= set(used) else "reordered"
            detail = f"{event!r} of {publisher!r} at {delivery.position}"
            raise BrokenPromiseError(kind, received.subscriber, detail)


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


def check_liveness(history: History, now: float) -> None:
    """Raise what is missing. Best effort, and what has expired by now, promise no events."""
    for publication in history.publications:
        if publication.outcome == "waiting":
            raise BrokenPromiseError("unanswered", publication.publisher, f"the publication of {publication.events!r}")
    for reception in history.receptions:
        if reception.confirmed_at is None and reception.ended_at is None:
            raise BrokenPromiseError("unanswered", reception.client, f"the request {reception.request!r}")
        if reception.unsubscription == "waiting":
            raise BrokenPromiseError("unanswered", reception.client, f"the end of {reception.request!r}")
    for lives, request in _subscriptions(history):
        _check_complete(lives, request, history, now)
    for (tenant, name), letters in (history.dead_letters or {}).items():
        kept = {letter.position for letter in letters}
        for refused in history.refused.get(_webhook(history, tenant, name), ()):
            if refused.position not in kept:
                raise BrokenPromiseError("lost", name, f"{bytes(refused.event)!r} was refused, and is no dead letter")


def _subscriptions(history: History) -> Iterator[tuple[list[Reception], Subscribe]]:
    """What each subscription got; of a durable one, until its end, in all lives of its subscribers together."""
    requests = _requests(history)
    for reception, request in requests.items():
        if request.name is None:
            yield [reception], request
    for receptions in _durable(requests).values():
        lives: list[Reception] = []
        for reception in receptions:
            lives.append(reception)
            if reception.unsubscription is not None:  # what follows by the same name is another subscription
                yield lives, requests[lives[0]]
                lives = []
        if lives:
            yield lives, requests[lives[0]]


def _durable(requests: Mapping[Reception, Subscribe]) -> dict[tuple[str, str], list[Reception]]:
    """What was received by each name, by tenants and names."""
    durable: dict[tuple[str, str], list[Reception]] = {}
    for reception, request in requests.items():
        if request.name is not None:
            durable.setdefault((reception.tenant, request.name), []).append(reception)
    return durable


def _check_complete(lives: Sequence[Reception], request: Subscribe, history: History, now: float) -> None:
    """One subscription got all that was promised to it."""
    begun = min((life.confirmed_at for life in lives if life.confirmed_at is not None), default=None)
    if begun is None or request.qos.reliability != "reliable" or all(life.ended_at is not None for life in lives):
        return
    topic = (lives[0].tenant, request.topic)
    if request.qos.durability == "transient" and topic not in history.spark_topics:
        begun = -math.inf
    begun = max(begun, now - history.offered.get(topic, Offered()).lifespan_seconds)
    due = [
        (publication, event)
        for publication in history.publications
        if (publication.tenant, publication.topic) == topic
        and publication.outcome == "accepted"
        and publication.published_at > begun
        for event in publication.events
        if _holds(request.condition, event)
    ]
    got = {(delivery.publisher, bytes(delivery.event)) for delivery in _deliveries(lives, request, history)}
    missing: Sequence[_Due] = [
        (publication, event) for publication, event in due if (publication.publisher, event) not in got
    ]
    if missing and request.qos.keep_last is not None:
        missing = _missing_last(due, missing)
    if missing:
        publication, event = missing[0]
        name = request.name or lives[0].subscription
        detail = f"{event!r} of {publication.publisher!r} for subscription {name!r}"
        raise BrokenPromiseError("lost", lives[0].client, detail)


def _missing_last(due: Sequence[_Due], missing: Sequence[_Due]) -> Sequence[_Due]:
    """Those that may have been the last event, if none of them has come.

    The last is unknown where publications overlapped: it is the last event of one that was answered after the latest
    publication had begun.
    """
    began_last_at = max(publication.published_at for publication, _ in due)
    last_events = dict(due)  # of each publication
    last = [each for each in last_events.items() if (each[0].answered_at or math.inf) >= began_last_at]
    return [] if any(each not in missing for each in last) else last


def _deliveries(lives: Iterable[Reception], request: Subscribe, history: History) -> Iterator[Delivery]:
    """All that came to subscribers or a webhook, also what it refused for good."""
    for life in lives:
        yield from life.events
    yield from history.called.get(request.webhook or "", ())
    yield from history.refused.get(request.webhook or "", ())


def check_standing(history: History) -> None:
    """Raise if the edge, which was asked when all was quiet, has not the subscriptions that it should have."""
    if (standing := history.standing) is None:
        return
    durable = {(each.tenant, each.subscription) for each in standing if each.is_durable}
    requests = _requests(history)
    for (tenant, name), lives in _durable(requests).items():
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


def _requests(history: History) -> dict[Reception, Subscribe]:
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


@functools.lru_cache(maxsize=16_384)
def _holds(condition: str, event: bytes) -> bool:
    return oracle.holds(condition, event_attributes(event))
