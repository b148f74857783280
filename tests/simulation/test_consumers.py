"""Shared subscriptions and refusals in random worlds: FIELDFARE_SEEDS=2000 tries more, FIELDFARE_SEED replays one."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable

import msgspec
import pytest

from fieldfare.client.in_hand import InHand
from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import EventsOutstanding, Record
from fieldfare.qos import Consuming
from fieldfare.routing import recovery
from fieldfare.routing.consuming import Consumption
from fieldfare.routing.dead_letters import DeadLetters
from fieldfare.routing.edge_parts import EdgeParts
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.outstanding import EventState, KeyOf, Outstanding, OutstandingEvent
from fieldfare.routing.taker import Taker
from fieldfare.simulation import World
from fieldfare.simulation.consumers import (
    ConsumerHistory,
    Disturbance,
    Numbered,
    SimulatedConsumer,
    Verdict,
    check_consumers,
)

SEEDS = int(os.environ.get("FIELDFARE_SEEDS", "60"))
ONLY = os.environ.get("FIELDFARE_SEED")
PARTS = 4  # so that they can run side by side
BUSY_SECONDS = 12.0
QUIET_SECONDS = 120.0  # longer than all attempts and waits together


class ConsumingScenario:
    """Consumers that come and go, an edge that crashes, events that are refused or forgotten."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"consumers {seed}")
        self.world = World(seed)
        options = EdgeOptions(waiting_max=rng.choice((2, 8, 1024)), outstanding_max=rng.choice((20, 10_000)))
        self.edge = self.world.edge("edge", options)
        self.edge.checkpoint_records = rng.choice((1, 5, 30, 1000))
        self.history = ConsumerHistory()
        self.consuming = Consuming(
            is_shared=True,
            key=rng.choice((None, "key")),
            attempts_max=rng.choice((2, 3, 5)),
            backoff_seconds=rng.choice((0.0, 0.5)),
            backoff_seconds_max=2.0,
            take_seconds=rng.choice((2.0, 4.0)),
        )
        self.poison = {number for number in range(200) if rng.random() < 0.03}
        self.window = rng.choice((1, 3, 50))
        self.consumers = [self.consumer(f"consumer{number}") for number in range(rng.randint(1, 4))]
        self.publisher = self.world.client("publisher", self.edge)
        self.published = 0
        self.edge_comes_at = 0.0  # after a crash
        self.is_calm = False  # all that is not poison is dealt with at once

    def consumer(self, name: str) -> SimulatedConsumer:
        world = self.world
        consumer = SimulatedConsumer(name, [self.edge.name], world.network, world.rng(name), world.history)
        consumer.log_of, consumer.steps, consumer.judge = world.log_of, self.history, self.judge
        world.machines[name] = consumer
        consumer.start()
        return consumer

    def judge(self, event: Numbered, attempt: int) -> Verdict:  # noqa: ARG002 - some would
        seconds = 0.0 if self.is_calm else self.rng.choice((0.0, 0.05, 0.5))
        if event.number in self.poison:
            return Verdict("refused", seconds)
        if not self.is_calm and self.rng.random() < 0.05:
            return Verdict(self.rng.choice((None, "refused")), seconds)
        return Verdict("acknowledged", seconds)

    def run(self) -> None:
        self.world.run_for(1.0)
        for consumer in self.consumers:
            self.join(consumer)
            self.world.run_for(1.0)
        clock = self.world.clock
        for _ in range(self.rng.randint(5, 30)):
            clock.after(self.rng.uniform(0, BUSY_SECONDS), self.publish)
        for _ in range(self.rng.randint(0, 8)):
            clock.after(self.rng.uniform(0, BUSY_SECONDS), self.disturb)
        self.world.run_for(BUSY_SECONDS)
        self.is_calm = True
        self.world.run_for(QUIET_SECONDS)
        check_consumers(self.history, self.consuming, range(self.published), self.dead())

    def join(self, consumer: SimulatedConsumer) -> None:
        consumer.subscribe("jobs", "number >= 0", name="shared", window=self.window, consuming=self.consuming)

    def publish(self) -> None:
        count = self.rng.choice((1, 2, 10))
        events = [{"number": self.published + number, "key": self.rng.choice("abc")} for number in range(count)]
        self.published += count
        self.publisher.publish("jobs", *events)

    def disturb(self) -> None:
        """A consumer loses its connection or dies and comes back, or the edge does."""
        now = self.world.clock.now
        what = self.rng.random()
        consumer = self.rng.choice(self.consumers)
        if what < 0.3:
            if self.edge_comes_at <= now:
                self.edge_comes_at = now + 1.0
                self.history.disturbances += [Disturbance(now, None), Disturbance(now + 1.0, None)]
                self.edge.crash()
                self.world.clock.after(1.0, self.edge.start)
        elif not consumer.is_up:
            return
        elif what < 0.6:
            self.history.disturbances.append(Disturbance(now, consumer.name))
            consumer.cut()
        else:
            self.history.disturbances.append(Disturbance(now, consumer.name))
            consumer.crash()
            self.world.clock.after(self.rng.uniform(0.1, 3.0), lambda: None if consumer.is_up else consumer.start())

    def dead(self) -> set[int]:
        listing = self.publisher.ask_list("dead_letters", "shared", topic="jobs")
        self.world.run_for(5.0)
        assert listing.items is not None, listing.error
        return {msgspec.convert(item["event"]["event"], Numbered).number for item in listing.items}


def run(seeds: Iterable[int]) -> None:
    for seed in seeds:
        scenario = ConsumingScenario(seed)
        try:
            scenario.run()
        except Exception as error:
            error.add_note(f"seed {seed}; to replay it: FIELDFARE_SEED={seed} pytest {__file__}")
            error.add_note(f"{scenario.consuming}, window {scenario.window}, disturbed {scenario.history.disturbances}")
            raise


@pytest.mark.parametrize("part", range(PARTS) if ONLY is None else [0])
def test_each_event_is_dealt_with_by_one_consumer(part: int) -> None:
    run(range(part, SEEDS, PARTS) if ONLY is None else [int(ONLY)])


# The laws are worth something only if they find what is broken.

Bug = Callable[[pytest.MonkeyPatch], None]


def forgets_what_is_settled(patch: pytest.MonkeyPatch) -> None:
    """After a crash all that lies after the cursor is sent again."""
    patch.setattr(recovery, "_recover_cursors", lambda _edge, _record: None)


def sends_to_two(patch: pytest.MonkeyPatch) -> None:
    """An event that was sent stays ready for others."""
    hand = Outstanding.hand

    def careless(self: Outstanding, event: OutstandingEvent, consumer: object, until: float) -> None:
        hand(self, event, consumer, until)  # type: ignore[arg-type]
        if event.attempts == 0 and len(self.consumers) > 1:
            event.attempts = 1
            self._make_ready(event)

    patch.setattr(Outstanding, "hand", careless)


def forgets_keys(patch: pytest.MonkeyPatch) -> None:
    """Events of one key go out together."""
    patch.setattr(KeyOf, "__call__", lambda _self, _entry: None)


def loses_what_a_dead_consumer_had(patch: pytest.MonkeyPatch) -> None:
    """What a consumer had is taken for settled when it goes."""
    leave = Outstanding.leave

    def careless(self: Outstanding, link: str) -> list[OutstandingEvent]:
        events = leave(self, link)
        for event in events:
            self.settle(event)
        return []

    patch.setattr(Outstanding, "leave", careless)


def takes_back_too_early(patch: pytest.MonkeyPatch) -> None:
    """A consumer has a quarter of its time only."""
    wait = Outstanding._wait

    def hasty(self: Outstanding, event: OutstandingEvent, state: EventState, until: float) -> None:
        wait(self, event, state, until - 1.9 if state is EventState.IN_HAND else until)

    patch.setattr(Outstanding, "_wait", hasty)


def buries_nothing(patch: pytest.MonkeyPatch) -> None:
    """What was refused too often is forgotten."""
    patch.setattr(DeadLetters, "bury", lambda *_: None)


def buries_at_once(patch: pytest.MonkeyPatch) -> None:
    """One refusal is enough."""
    refuse = Consumption._refuse

    def hasty(
        self: Consumption, taker: Taker, outstanding: Outstanding, event: OutstandingEvent, *rest: object
    ) -> bool:
        event.refusals += 100
        return refuse(self, taker, outstanding, event, *rest)  # type: ignore[arg-type]

    patch.setattr(Consumption, "_refuse", hasty)


def ignores_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """The client tells the edge of every other event only that it is dealt with."""
    settle = InHand.settle
    patch.setattr(InHand, "settle", lambda self, position: settle(self, position) if position % 2 else None)


BUGS: list[Bug] = [
    forgets_what_is_settled,
    sends_to_two,
    forgets_keys,
    loses_what_a_dead_consumer_had,
    takes_back_too_early,
    buries_nothing,
    buries_at_once,
    ignores_acknowledgements,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_laws_find_what_is_broken(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        run(range(40))


def test_outstanding_events_are_in_the_log() -> None:
    """The record that the laws rely on is written, and not only the cursor."""
    scenario = ConsumingScenario(1)
    records: list[object] = []
    recover = recovery.recover

    def noting(parts: EdgeParts, record: Record) -> None:
        records.append(record)
        recover(parts, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "recover", noting)
        scenario.run()
        scenario.edge.crash()
        scenario.edge.start()
    assert any(isinstance(record, EventsOutstanding) for record in records)
