"""A client in a simulated world: the session of the real client library, on a simulated connection.

It comes back by itself when its connection breaks, to the same edge or, if it knows several, to another. A crash takes
all that it knew; when it starts again, it is the same program, which subscribes to the same things, but as a publisher
it is another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, Unpack

import msgspec

from fieldfare.client import wire
from fieldfare.client.edge_choice import EdgeChoice
from fieldfare.client.events import Event
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.client.outputs import (
    Completed,
    Delivered,
    Failed,
    GoElsewhere,
    LogChanged,
    MoveAsked,
    Moved,
    Noticed,
    Output,
    PingsAsked,
    Reconnect,
    Transmit,
)
from fieldfare.client.publish_options import PublishOptions, publish_frame
from fieldfare.client.publisher_move import PublisherMove, PublisherMoveState, Steps
from fieldfare.client.session import ClientSession
from fieldfare.errors import FieldfareError, NotConnectedError, UnknownOutcomeError
from fieldfare.messages import (
    Accepted,
    Attach,
    ClientFrame,
    DeclareTopic,
    Delivery,
    List,
    Listed,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from fieldfare.qos import Offered
from fieldfare.simulation.clock import Timer
from fieldfare.simulation.history import TENANT, History, Publication, Reception
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream

RECONNECT_SECONDS = 0.1  # doubled with each failure
RECONNECT_SECONDS_MAX = 5.0

ListedKind: TypeAlias = Literal["topics", "subscriptions", "dead_letters", "edges", "placement"]
OnEvent = Callable[[Event[dict[str, Any]]], None]
_attributes = msgspec.json.Decoder(dict[str, Any])


@dataclass(eq=False)
class Listing:
    """What a client asked to be listed: the first thousand items, as soon as they are known."""

    items: list[dict[str, Any]] | None = None
    error: FieldfareError | None = None


@dataclass(eq=False)
class EndingByName:
    """A client's request to end a durable subscription that it does not receive."""

    is_done: bool = False
    error: FieldfareError | None = None


@dataclass(frozen=True, eq=False)
class _Ending:
    """The request to end a subscription."""

    reception: Reception


class SimulatedClient:
    """A client of one edge, or of one of several at a time. Whatever it does goes into the history."""

    def __init__(self, name: str, edges: Sequence[str], network: Network, rng: random.Random, history: History) -> None:
        self.name = name
        self.edges = tuple(edges)
        self.tenant = TENANT  # as the edge knows it; `World.client` sets this and the next
        self.log_of: Callable[[str], str | None] = lambda _: None  # what an edge says of its log to who connects
        self.take_seconds = 0.0  # how long the application takes before it is done with an event
        self.answers_to_lose = 0  # so many messages with answers to its publications get lost, with their connections
        self.options = SessionOptions()
        self.moving = ClientOptions()  # how patient it is with an edge, from its next start on
        self.follows = True  # a durable subscription to its home, if that is another edge
        self._network = network
        self._rng = rng
        self._history = history
        self._life = 0
        self._failures = 0
        self._choice = EdgeChoice(self.edges, rng, self.moving)
        self._left_at = 0.0  # when its last connection ended
        self._session: ClientSession | None = None
        self._stream: Stream | None = None
        self._timer: Timer | None = None
        self._outgoing: list[ClientFrame] = []
        self._receptions: dict[Reception, OnEvent] = {}  # of this life
        self._homes: dict[str, SimulatedClient] = {}  # its connections to the homes of durable subscriptions, by edge
        self._unanswered: dict[Publication, None] = {}  # of this life
        self._untaken: list[Delivered] | None = None  # while it is paused: what the application has not got yet
        self._publishing = self  # the connection that it publishes over: its own, or one of `_homes`
        self._publisher_move: PublisherMove | None = None  # the last one
        self._move_answered: Callable[[Completed | Failed], None] = self._go_on_moving
        self._move_asked: Callable[[str], object] = self.move_publisher

    # What an application does

    def publish(self, topic: str, *events: Any, **options: Unpack[PublishOptions]) -> Publication:
        """Publish events together; what becomes of them is found in what is returned."""
        self._living()
        session = self._publishing._living()
        frame = publish_frame(topic, events, options)
        content = tuple(bytes(event) for event in frame.events)
        publication = Publication(
            session.publisher,
            topic,
            content,
            self._now,
            tenant=self.tenant,
            client=self.name,
            edge=self._publishing.edge,
            is_sent_once=True,
        )
        self._history.publications.append(publication)
        self._publishing._unanswered[publication] = None
        self._publishing._do(session.publish(publication, frame, self._now))
        return publication

    def move_publisher(self, edge: str) -> PublisherMove | None:
        """Publish at another edge from now on; subscriptions stay. None: it moves already, or is there."""
        source = self._publishing
        if edge == source.edge or (self._publisher_move is not None and not self._publisher_move.is_over):
            return None
        target = self if edge == self.edge else self._home_at(edge)
        move = self._publisher_move = PublisherMove(source._living(), target._living(), edge, edge)
        self._step(move.begin(self._now))

        def give_up() -> None:
            if move is self._publisher_move and move.state is PublisherMoveState.ADVERTISING:
                self._step(move.failed(NotConnectedError("the edge was not reached in time"), self._now))

        self._network.clock.after(self.moving.connect_timeout_seconds, give_up)
        return move

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
        for home in self._homes.values():
            if reception in home._receptions:
                home.unsubscribe(reception)
                return
        self._do(self._living().unsubscribe(_Ending(reception), reception, self._now))

    def declare(self, topic: str, offered: Offered = Offered(), **options: Any) -> None:  # noqa: B008 - it is frozen
        """Create a topic, or change what it offers."""
        frame = DeclareTopic(0, topic, offered, **options)
        self._history.offered[self.tenant, topic] = offered
        if frame.matching == "spark":
            self._history.spark_topics.add((self.tenant, topic))
        self._do(self._living().request(object(), frame, self._now))

    def ask_list(self, what: ListedKind, subscription: str | None = None, topic: str | None = None) -> Listing:
        """Ask what there is; the answer is found in what is returned."""
        listing = Listing()
        frame = List(0, what, count_max=1000, subscription=subscription, topic=topic)
        self._do(self._living().request(listing, frame, self._now))
        return listing

    def end(self, subscription: str, topic: str | None = None) -> EndingByName:
        """End a durable subscription by its name."""
        ending = EndingByName()
        self._do(self._living().request(ending, Unsubscribe(0, subscription, topic=topic), self._now))
        return ending

    def pause(self) -> None:
        """Let the application get no event from now on, until `go_on`."""
        if self._untaken is None:
            self._untaken = []
        for home in self._homes.values():
            home.pause()

    def go_on(self) -> None:
        """Let the application get the events that came meanwhile, and those that come."""
        for home in self._homes.values():
            home.go_on()
        untaken, self._untaken = self._untaken or [], None
        for delivered in untaken:
            if isinstance(delivered.subscription, Reception):
                delivered.subscription.untaken_count -= len(delivered.events)
            self._give(delivered)

    # Its life

    @property
    def publishes_at(self) -> str:
        """The edge that it publishes at."""
        return self._publishing.edge

    @property
    def edge(self) -> str:
        """The edge that it uses, or tries to reach."""
        return self._choice.current

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._session is not None

    def start(self) -> None:
        """Begin, or begin again after a crash."""
        self._life += 1
        self._choice = EdgeChoice(self.edges, self._rng, self.moving)
        place = "" if self.follows else f" at {self.edge}"
        publisher = f"{self.name}{place}-{self._life}"
        self._session = ClientSession(publisher, self.options, may_move=len(self.edges) > 1)
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
        for home in self._homes.values():
            home.crash()
        self._homes.clear()
        self._publishing, self._publisher_move = self, None
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
        for publication in self._unanswered:
            publication.outcome = "unknown"
        self._unanswered.clear()

    def move_to(self, edge: str) -> None:
        """Go to another edge, which is the only one that it knows from now on: leave the connection, and open one."""
        for publication in self._unanswered:
            publication.edge = None
        for reception in self._receptions:
            reception.restart(self._now)
            reception.edge = edge
        self.edges = (edge,)
        self._choice = EdgeChoice(self.edges, self._rng, self.moving)
        if self._stream is not None:
            self._do(self._living().disconnected(self._now))
            self._reconnect("goes to another edge")

    # The connection

    def _connect(self) -> None:
        life = self._life

        def is_current() -> bool:
            return life == self._life and self._session is not None

        def opened(stream: Stream) -> None:
            if is_current() and stream.there == self.edge:  # else it was moved meanwhile
                self._opened(stream)
                return
            stream.close("not wanted any more")
            if is_current():
                self._connect()

        def failed(_reason: str) -> None:
            if is_current():
                self._connect_later()

        edge = self._choice.next(self._now, is_in_doubt=self._living().is_in_doubt)
        self._network.connect(self.name, edge, opened, failed)

    def _connect_later(self) -> None:
        life = self._life
        delay = min(RECONNECT_SECONDS * 2**self._failures, RECONNECT_SECONDS_MAX) * (0.5 + self._rng.random())
        self._failures += 1
        delay = self._choice.pause_seconds(delay, self._now, is_in_doubt=self._living().is_in_doubt)
        self._network.clock.after(delay, lambda: self._connect() if life == self._life and self._session else None)

    def _opened(self, stream: Stream) -> None:
        self._failures = 0
        self._stream = stream
        self._choice.opened()
        stream.on_message = self._received
        stream.on_close = self._closed
        session = self._living()
        publisher = session.publisher
        self._do(session.connected(self._now, self.log_of(self.edge)))
        if session.publisher != publisher:  # at another log; what has no answer is published there now
            for publication in self._unanswered:
                publication.publisher, publication.edge = session.publisher, self.edge

    def _received(self, message: bytes) -> None:
        frames = wire.decode(message)
        if self.answers_to_lose and any(isinstance(frame, Accepted) for frame in frames):
            self.answers_to_lose -= 1
            self.cut()
            return
        for frame in frames:
            if self._session is not None:
                self._do(self._session.received(frame, self._now))
                if isinstance(frame, Subscribed):
                    self._note_confirmed_again()

    def _note_confirmed_again(self) -> None:
        for reception in self._receptions:
            if reception.restarts and reception.confirmed_again_at is None and self._living().is_in_force(reception):
                reception.confirmed_again_at = self._now

    def _closed(self, _reason: str) -> None:
        self._leave_stream()
        self._do(self._living().disconnected(self._now))
        self._connect_later()

    def _leave_stream(self) -> None:
        """What has no answer yet is sent again over the next one."""
        self._stream = None
        self._left_at = self._now
        self._choice.lost(self._now)
        for publication in self._unanswered:
            publication.is_sent_once = False

    # What the session says

    @property
    def _now(self) -> float:
        return self._network.clock.now

    def _living(self) -> ClientSession:
        if self._session is None:
            raise RuntimeError(f"client {self.name!r} has crashed: restart it first")
        return self._session

    def _receive(self, request: Subscribe | Attach, on_event: OnEvent) -> Reception:
        reception = Reception(self.name, request, tenant=self.tenant, edge=self.edge)
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
                    if notice.kind == "gap":
                        reception.gaps_told_at.append(self._now)
                case LogChanged(Reception() as reception, _):
                    self._note_other_log(reception)
                case Moved() | MoveAsked() | PingsAsked():
                    self._follow(output)
                case GoElsewhere() | Reconnect():
                    if isinstance(output, GoElsewhere):
                        self._choice.full(output.edges)
                    self._reconnect(output.reason)
        self._flush()

    def _note_other_log(self, reception: Reception) -> None:
        reception.edge = self.edge
        if not reception.restarts or reception.confirmed_again_at is not None:  # else it is noted already
            reception.restart(self._left_at, is_remembered=len(self.edges) > 1)

    def _follow(self, moved: Moved | MoveAsked | PingsAsked) -> None:
        """Receive a durable subscription from its home, over a connection of its own; or publish elsewhere, or ping."""
        if isinstance(moved, PingsAsked):
            self._ping(moved)
            return
        if isinstance(moved, MoveAsked):
            self._move_asked(moved.url)
            return
        reception, edge = moved.subscription, moved.error.home
        if edge is None or not self.follows or not isinstance(reception, Reception):
            self._failed(Failed(reception, moved.error))
            return
        home = self._home_at(edge)
        reception.edge = edge
        home._receptions[reception] = self._receptions[reception]
        home._do(home._living().adopt(moved.progress, self._now))

    def _ping(self, asked: PingsAsked) -> None:
        """Find out how long it takes to open a connection to each of some edges, and tell when all are known."""
        began, life = self._now, self._life
        found: dict[int, float | None] = {}

        def note(number: int, seconds: float | None) -> None:
            found[number] = seconds
            if len(found) == len(asked.urls) and self._session is not None and life == self._life:
                self._do(self._session.answer_pings(asked.number, [found[each] for each in range(len(asked.urls))]))

        def ping(number: int, edge: str) -> None:
            def opened(stream: Stream) -> None:
                stream.close("it was only measured")
                note(number, self._now - began)

            self._network.connect(self.name, edge, opened, lambda _: note(number, None))

        for number, edge in enumerate(asked.urls):
            ping(number, edge)

    def _home_at(self, edge: str) -> SimulatedClient:
        """Its connection to another edge."""
        home = self._homes.get(edge)
        if home is None:
            home = self._homes[edge] = SimulatedClient(self.name, [edge], self._network, self._rng, self._history)
            home.tenant, home.log_of, home.follows = self.tenant, self.log_of, False
            home.take_seconds, home.options = self.take_seconds, self.options
            home._move_answered, home._move_asked = self._go_on_moving, self.move_publisher
            home.start()
        return home

    # Moving its publisher

    def _go_on_moving(self, answered: Completed | Failed) -> None:
        move = answered.key
        if isinstance(move, PublisherMove) and move is self._publisher_move:
            if isinstance(answered, Completed):
                self._step(move.completed(answered.answer, self._now))
            else:
                self._step(move.failed(answered.error, self._now))

    def _step(self, steps: Steps) -> None:
        clients = {each._living(): each for each in (self, *self._homes.values())}
        for session, outputs in steps:
            clients[session]._do(outputs)
        if self._publisher_move is None or (there := clients[self._publisher_move.publishing]) is self._publishing:
            return
        here, self._publishing = self._publishing, there
        for publication in here._unanswered:
            publication.publisher, publication.edge = there._living().publisher, there.edge
            there._unanswered[publication] = None
        here._unanswered.clear()

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
            self._leave_stream()
            self._connect_later()

    def _give(self, delivered: Delivered) -> None:
        reception = delivered.subscription
        if self._untaken is not None:
            self._untaken.append(delivered)
            if isinstance(reception, Reception):
                reception.untaken_count += len(delivered.events)
            return
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
            case PublisherMove(), _:
                self._move_answered(output)
            case Publication() as publication, _:
                publication.outcome, publication.answered_at = "accepted", self._now
                publication.edge = self.edge
                self._unanswered.pop(publication, None)
            case Reception() as reception, Subscribed() as answer:
                reception.subscription, reception.confirmed_at = answer.subscription, self._now
                reception.edge = self.edge
            case Listing() as listing, Listed() as answer:
                listing.items = answer.items
            case EndingByName() as ending, _:
                ending.is_done = True
            case _Ending(reception), _:
                reception.unsubscription = "accepted"

    def _failed(self, output: Failed) -> None:
        match output.key:
            case PublisherMove():
                self._move_answered(output)
            case Publication() as publication:
                is_unknown = isinstance(output.error, UnknownOutcomeError)
                publication.outcome = "unknown" if is_unknown else "refused"
                publication.answered_at, publication.error = self._now, output.error
                self._unanswered.pop(publication, None)
            case Reception() as reception:
                reception.error, reception.ended_at = output.error, self._now
                self._receptions.pop(reception, None)
            case Listing() | EndingByName() as asked:
                asked.error = output.error
            case _Ending(reception):
                reception.unsubscription = "refused"


def _event(reception: Reception, delivery: Delivery) -> Event[dict[str, Any]]:
    """What an application gets, as from the real client."""
    request = reception.request
    if isinstance(request, Attach):
        return Event(delivery, "", request.subscription, _attributes)
    return Event(delivery, request.topic, request.name or "", _attributes)
