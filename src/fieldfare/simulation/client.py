"""A client in a simulated world: the session of the real client library, on a simulated connection.

It comes back by itself when its connection breaks. A crash takes all that it knew; when it starts again, it is the same
program, which subscribes to the same things, but as a publisher it is another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgspec

from fieldfare.client import wire
from fieldfare.client.events import Event
from fieldfare.client.options import SessionOptions
from fieldfare.client.outputs import Completed, Delivered, Failed, Noticed, Output, Reconnect, Transmit
from fieldfare.client.session import ClientSession
from fieldfare.messages import (
    Accepted,
    Attach,
    ClientFrame,
    DeclareTopic,
    Delivery,
    List,
    Listed,
    Publish,
    Subscribe,
    Subscribed,
)
from fieldfare.qos import Offered
from fieldfare.simulation.clock import Timer
from fieldfare.simulation.history import TENANT, History, Publication, Reception
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream

RECONNECT_SECONDS = 0.1  # doubled with each failure
RECONNECT_SECONDS_MAX = 5.0

ListedKind: TypeAlias = Literal["topics", "subscriptions", "dead_letters"]
OnEvent = Callable[[Event[dict[str, Any]]], None]
_attributes = msgspec.json.Decoder(dict[str, Any])


@dataclass(eq=False)
class Listing:
    """What a client asked to be listed: the first thousand items, as soon as they are known."""

    items: list[dict[str, Any]] | None = None


@dataclass(frozen=True, eq=False)
class _Ending:
    """The request to end a subscription."""

    reception: Reception


class SimulatedClient:
    """A client of one edge. Whatever it does goes into the history."""

    def __init__(self, name: str, edge: str, network: Network, rng: random.Random, history: History) -> None:
        self.name = name
        self.edge = edge
        self.tenant = TENANT  # as the edge knows it; `World.client` sets both
        self.take_seconds = 0.0  # how long the application takes before it is done with an event
        self.answers_to_lose = 0  # so many messages with answers to its publications get lost, with their connections
        self.options = SessionOptions()
        self._network = network
        self._rng = rng
        self._history = history
        self._life = 0
        self._failures = 0
        self._session: ClientSession | None = None
        self._stream: Stream | None = None
        self._timer: Timer | None = None
        self._outgoing: list[ClientFrame] = []
        self._receptions: dict[Reception, OnEvent] = {}  # of this life
        self._untaken: list[Delivered] | None = None  # while it is paused: what the application has not got yet

    # What an application does

    def publish(self, topic: str, *events: Any) -> Publication:
        """Publish events together; what becomes of them is found in what is returned."""
        session = self._living()
        raw = [wire.raw(event) for event in events]
        content = tuple(bytes(event) for event in raw)
        publication = Publication(session.publisher, topic, content, self._now, tenant=self.tenant)
        self._history.publications.append(publication)
        self._do(session.publish(publication, Publish(0, topic, raw), self._now))
        return publication

    def subscribe(self, topic: str, condition: str, on_event: OnEvent | None = None, **options: Any) -> Reception:
        """Subscribe; `options` are those of the frame Subscribe. What comes is found in what is returned."""
        return self._receive(Subscribe(0, topic, condition, **options), on_event or (lambda _: None))

    def attach(self, subscription: str, on_event: OnEvent | None = None, **options: Any) -> Reception:
        """Receive a durable subscription that was made elsewhere."""
        return self._receive(Attach(0, subscription, **options), on_event or (lambda _: None))

    def unsubscribe(self, reception: Reception) -> None:
        """End a subscription."""
        reception.ended_at = self._now
        reception.unsubscription = "waiting"
        self._receptions.pop(reception, None)
        self._do(self._living().unsubscribe(_Ending(reception), reception, self._now))

    def declare(self, topic: str, offered: Offered = Offered(), **options: Any) -> None:  # noqa: B008 - it is frozen
        """Create a topic, or change what it offers."""
        frame = DeclareTopic(0, topic, offered, **options)
        self._history.offered[self.tenant, topic] = offered
        if frame.matching == "spark":
            self._history.spark_topics.add((self.tenant, topic))
        self._do(self._living().request(object(), frame, self._now))

    def ask_list(self, what: ListedKind, subscription: str | None = None) -> Listing:
        """Ask what there is; the answer is found in what is returned."""
        listing = Listing()
        frame = List(0, what, count_max=1000, subscription=subscription)
        self._do(self._living().request(listing, frame, self._now))
        return listing

    def pause(self) -> None:
        """Let the application get no event from now on, until `go_on`."""
        if self._untaken is None:
            self._untaken = []

    def go_on(self) -> None:
        """Let the application get the events that came meanwhile, and those that come."""
        untaken, self._untaken = self._untaken or [], None
        for delivered in untaken:
            self._give(delivered)

    # Its life

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._session is not None

    def start(self) -> None:
        """Begin, or begin again after a crash."""
        self._life += 1
        self._session = ClientSession(f"{self.name}-{self._life}", self.options)
        before, self._receptions = self._receptions, {}
        for reception, on_event in before.items():
            self._receive(reception.request, on_event)
        self._connect()

    def cut(self) -> None:
        """Break its connection; what is under way is lost."""
        for stream in self._network.streams(self.name):
            stream.reset("reset")

    def crash(self) -> None:
        """Stop here and now, and forget everything."""
        self._network.crash(self.name)
        self._session = self._stream = None
        self._untaken = None
        self._outgoing.clear()
        self._set_timer(None)
        for reception in self._receptions:
            reception.ended_at = self._now
        for reception in self._history.receptions:
            if reception.client == self.name and reception.unsubscription == "waiting":
                reception.unsubscription = "unknown"
        for publication in self._history.publications:
            if publication.publisher == f"{self.name}-{self._life}" and publication.outcome == "waiting":
                publication.outcome = "unknown"

    # The connection

    def _connect(self) -> None:
        life = self._life

        def is_current() -> bool:
            return life == self._life and self._session is not None

        def opened(stream: Stream) -> None:
            if is_current():
                self._opened(stream)
            else:
                stream.close("crashed")

        def failed(_reason: str) -> None:
            if is_current():
                self._connect_later()

        self._network.connect(self.name, self.edge, opened, failed)

    def _connect_later(self) -> None:
        life = self._life
        delay = min(RECONNECT_SECONDS * 2**self._failures, RECONNECT_SECONDS_MAX) * (0.5 + self._rng.random())
        self._failures += 1
        self._network.clock.after(delay, lambda: self._connect() if life == self._life and self._session else None)

    def _opened(self, stream: Stream) -> None:
        self._failures = 0
        self._stream = stream
        stream.on_message = self._received
        stream.on_close = self._closed
        self._do(self._living().connected(self._now))

    def _received(self, message: bytes) -> None:
        frames = wire.decode(message)
        if self.answers_to_lose and any(isinstance(frame, Accepted) for frame in frames):
            self.answers_to_lose -= 1
            self.cut()
            return
        for frame in frames:
            if self._session is not None:
                self._do(self._session.received(frame, self._now))

    def _closed(self, _reason: str) -> None:
        self._stream = None
        self._do(self._living().disconnected(self._now))
        self._connect_later()

    # What the session says

    @property
    def _now(self) -> float:
        return self._network.clock.now

    def _living(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError(f"client {self.name!r} has crashed: restart it first")
        return self._session

    def _receive(self, request: Subscribe | Attach, on_event: OnEvent) -> Reception:
        reception = Reception(self.name, request, tenant=self.tenant)
        self._receptions[reception] = on_event
        self._history.receptions.append(reception)
        self._do(self._living().subscribe(reception, request, self._now))
        return reception

    def _do(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case Transmit():
                    self._outgoing.append(output.frame)
                case Delivered():
                    self._give(output)
                case Completed():
                    self._completed(output)
                case Failed():
                    self._failed(output)
                case Noticed(Reception() as reception, notice):
                    reception.notices.append(notice)
                case Reconnect():
                    self._reconnect(output.reason)
        self._flush()

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._stream is not None:
            for message in wire.encode(outgoing):
                self._stream.send(message)
        if self._session is not None:
            self._set_timer(self._session.next_timer)

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._network.clock.at(at, self._due)

    def _due(self) -> None:
        self._do(self._living().timer(self._now))

    def _reconnect(self, reason: str) -> None:
        if self._stream is not None:
            self._stream.close(reason)
            self._stream = None
            self._connect_later()

    def _give(self, delivered: Delivered) -> None:
        if self._untaken is not None:
            self._untaken.append(delivered)
            return
        reception = delivered.subscription
        for delivery in delivered.events:
            if isinstance(reception, Reception) and reception in self._receptions and self._session is not None:
                reception.events.append(delivery)
                self._receptions[reception](_event(reception, delivery))
                self._take(reception, delivery)

    def _take(self, reception: Reception, delivery: Delivery) -> None:
        session = self._session

        def take() -> None:
            if session is not None and session is self._session:
                self._do(session.ack(reception, delivery.position, self._now))

        if self.take_seconds:
            self._network.clock.after(self.take_seconds, take)
        else:
            take()

    def _completed(self, output: Completed) -> None:
        match output.key, output.answer:
            case Publication() as publication, _:
                publication.outcome, publication.answered_at = "accepted", self._now
            case Reception() as reception, Subscribed() as answer:
                reception.subscription, reception.confirmed_at = answer.subscription, self._now
            case Listing() as listing, Listed() as answer:
                listing.items = answer.items
            case _Ending(reception), _:
                reception.unsubscription = "accepted"

    def _failed(self, output: Failed) -> None:
        match output.key:
            case Publication() as publication:
                publication.outcome, publication.answered_at = "refused", self._now
                publication.error = output.error
            case Reception() as reception:
                reception.error, reception.ended_at = output.error, self._now
                self._receptions.pop(reception, None)
            case _Ending(reception):
                reception.unsubscription = "refused"


def _event(reception: Reception, delivery: Delivery) -> Event[dict[str, Any]]:
    """What an application gets, as from the real client."""
    request = reception.request
    if isinstance(request, Attach):
        return Event(delivery, "", request.subscription, _attributes)
    return Event(delivery, request.topic, request.name or "", _attributes)
