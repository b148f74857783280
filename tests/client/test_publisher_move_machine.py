"""A publisher that moves between edges, with every step in any order: edges and connections fail, storing fails.

The client's sessions and the edges are the real ones; what lies between them are queues of frames. The edges are in no
overlay here: what receivers do is seen in `tests/overlay`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.routing.frames import publication
from tests.routing.harness import TENANT, Client, Harness

from fieldfare.client.outputs import Completed, Failed, Output, Reconnect, Transmit
from fieldfare.client.publisher_move import PublisherMove, PublisherMoveState, Steps
from fieldfare.client.session import ClientSession
from fieldfare.messages import Delivery, EventsStored, PublisherAdopted

EDGES = 2
PLACES = st.integers(0, EDGES - 1)
PUBLISHER = "p"
_delivery = msgspec.json.Decoder(Delivery)


@dataclass(eq=False)
class Way:
    """A session of the client, an edge, and what is on its way between them."""

    name: str
    session: ClientSession
    edge: Harness
    link: Client | None = None
    outgoing: deque[Any] = field(default_factory=deque)
    incoming: deque[Any] = field(default_factory=deque)


class MovingPublisher(RuleBasedStateMachine):
    """One publisher, one topic, two edges."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.ways: list[Way] = []
        for number in range(EDGES):
            edge = Harness()
            for _ in range(number):
                edge.start(())  # so that each has another log
            edge.holds_storage = True
            name = PUBLISHER if number == 0 else f"unused{number}"
            self.ways.append(Way(f"edge{number}", ClientSession(name), edge))
        self.published = 0
        self.accepted: set[int] = set()
        self.move: PublisherMove | None = None
        for at in range(EDGES):
            self.store(at)

    # The client

    @property
    def publishing(self) -> ClientSession:
        return self.ways[0].session if self.move is None else self.move.publishing

    def _way(self, session: ClientSession) -> Way:
        return next(way for way in self.ways if way.session is session)

    def _do(self, way: Way, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Transmit():
                    if way.link is not None:
                        way.outgoing.append(output.frame)
                case Completed(int(number), _):
                    assert number not in self.accepted
                    self.accepted.add(number)
                case Completed(PublisherMove() as move, answer) if move is self.move:
                    self._step(move.completed(answer, self.now))
                case Failed(PublisherMove() as move, error) if move is self.move:
                    self._step(move.failed(error, self.now))
                case Failed(int(number), error):
                    raise AssertionError(f"publication {number} failed: {error}")
                case Reconnect():
                    self._cut(way)

    def _step(self, steps: Steps) -> None:
        for session, outputs in steps:
            self._do(self._way(session), outputs)

    @rule()
    def publish(self) -> None:
        number, self.published = self.published, self.published + 1
        session = self.publishing
        frame = publication(0, "news", {"n": number})
        self._do(self._way(session), session.publish(number, frame, self.now))

    @precondition(lambda self: self.move is None or self.move.is_over)
    @rule(to=PLACES)
    def begin_to_move(self, to: int) -> None:
        source, target = self.publishing, self.ways[to]
        if target.session is not source:
            self.move = PublisherMove(source, target.session, target.name, target.name)
            self._step(self.move.begin(self.now))

    @rule(seconds=st.sampled_from((0.1, 1.0)))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for way in self.ways:
            if (at := way.session.next_timer) is not None and at <= self.now:
                self._do(way, way.session.timer(self.now))

    # What lies between

    @rule(at=PLACES)
    def flow(self, at: int) -> None:
        """All that is on its way arrives, is stored and answered."""
        self.arrive_at_edge(at)
        for _ in range(2):  # a seal is stored after what was published before
            self.store(at)
        self.arrive_at_client(at)

    @rule(at=PLACES)
    def arrive_at_edge(self, at: int) -> None:
        way = self.ways[at]
        self._connect(way)
        while way.outgoing and way.link is not None:
            way.link.send(way.outgoing.popleft())
            self._collect(way)

    @rule(at=PLACES)
    def arrive_at_client(self, at: int) -> None:
        way = self.ways[at]
        while way.incoming:
            self._do(way, way.session.received(way.incoming.popleft(), self.now))

    @rule(at=PLACES)
    def cut(self, at: int) -> None:
        self._cut(self.ways[at])

    def _cut(self, way: Way) -> None:
        if way.link is not None:
            way.link.close()
            self._forget_link(way)

    def _forget_link(self, way: Way) -> None:
        way.link = None
        way.outgoing.clear()
        way.incoming.clear()
        self._do(way, way.session.disconnected(self.now))

    def _connect(self, way: Way) -> None:
        if way.link is None:
            way.link = way.edge.connect()
            self._do(way, way.session.connected(self.now, way.edge.edge.log_id))

    # Edges

    @rule(at=PLACES)
    def store(self, at: int) -> None:
        way = self.ways[at]
        if way.edge.unstored:
            way.edge.store()
        self._collect(way)

    @rule(at=PLACES)
    def fail_to_store(self, at: int) -> None:
        way = self.ways[at]
        if way.edge.unstored:
            way.edge.fail_to_store()
        self._collect(way)

    @rule(at=PLACES, stores_first=st.booleans())
    def crash(self, at: int, stores_first: bool) -> None:
        way = self.ways[at]
        if stores_first and way.edge.unstored:
            way.edge.store_unheard()
        way.edge.crash()
        if way.link is not None:
            self._forget_link(way)
        self.store(at)
        self.nothing_is_lost_doubled_or_reordered()

    def _collect(self, way: Way) -> None:
        if way.link is not None:
            way.incoming.extend(way.link.frames)
            way.link.frames.clear()

    # What must hold

    def _stored(self) -> list[int]:
        """The numbers in all logs, in the order of the stays of the publisher at the edges."""
        stays: list[tuple[int, int, list[int]]] = []
        for way in self.ways:
            generation, own = 0, way.edge.edge.log_id
            for record in way.edge.memory.recover():
                if isinstance(record, PublisherAdopted):
                    generation = record.sealed.generation
                if isinstance(record, EventsStored):
                    assert own not in record.follows
                    events = [msgspec.json.decode(_delivery.decode(each).event)["n"] for each in record.deliveries]
                    stays.append((generation, record.position, events))
        return [number for _, _, events in sorted(stays) for number in events]

    def nothing_is_lost_doubled_or_reordered(self) -> None:
        stored = self._stored()
        assert stored == sorted(set(stored)), stored
        assert self.accepted <= set(stored)

    @invariant()
    def it_is_in_one_place(self) -> None:
        """Of all edges that know the publisher's numbers, all but one have it that it left."""
        unsealed = []
        for way in getattr(self, "ways", ()):
            edge = way.edge.edge
            moved = edge.parts.moves._publishers.get((TENANT, PUBLISHER))
            is_known = any(PUBLISHER in topic.publishers for topic in edge.parts.topics)
            if is_known and not (moved is not None and moved.has_left):
                unsealed.append(way.name)
        assert len(unsealed) <= 1, unsealed

    def teardown(self) -> None:
        """When all works again, everything that was published is accepted, once."""
        if not hasattr(self, "ways"):
            return
        for _ in range(100):
            for at in range(EDGES):
                self.flow(at)
            self.pass_time(1.0)
            is_over = self.move is None or self.move.is_over
            if is_over and len(self.accepted) == self.published:
                break
        self.nothing_is_lost_doubled_or_reordered()
        assert self.accepted == set(range(self.published)), self.move and self.move.state


TestMovingPublisher = MovingPublisher.TestCase
TestMovingPublisher.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def run(*steps: Callable[[MovingPublisher], None]) -> MovingPublisher:
    """Steps in a certain order, and then until all is quiet."""
    machine = MovingPublisher()
    machine.begin()
    for step in steps:
        step(machine)
        machine.it_is_in_one_place()
    machine.teardown()
    machine.it_is_in_one_place()
    return machine


def _moves(machine: MovingPublisher) -> None:
    """Two publications, of which the second is stored but not answered when the source is asked to seal."""
    machine.publish()
    machine.flow(0)
    machine.begin_to_move(1)
    machine.publish()
    machine.arrive_at_edge(0)
    machine.store(0)
    machine.flow(1)


def test_what_is_in_doubt_at_the_source_is_resolved_by_the_seal() -> None:
    machine = run(_moves, lambda it: it.cut(0), MovingPublisher.publish)
    assert machine.move is not None
    assert machine.move.state is PublisherMoveState.DONE
    assert machine._stored() == [0, 1, 2]


def test_a_source_that_crashes_after_the_seal_has_sealed_it() -> None:
    run(_moves, lambda it: it.flow(0), lambda it: it.flow(1), lambda it: it.crash(0, stores_first=False))


def test_a_source_that_crashes_before_the_seal_is_stored_is_asked_again() -> None:
    run(
        _moves,
        lambda it: it.arrive_at_edge(0),
        lambda it: it.arrive_at_client(0),
        lambda it: it.flow(1),
        lambda it: it.crash(0, stores_first=False),
        MovingPublisher.publish,
    )
