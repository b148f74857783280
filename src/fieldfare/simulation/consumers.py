"""Consumers of a shared subscription in a simulated world, what they did, and the laws that this must keep.

Laws: an event goes to one consumer at a time. Another one gets it only after the first died, let its time run out or
refused it; nobody does after its acknowledgement was flushed. Events of one key are dealt with one after another. In
the end each is acknowledged or a dead letter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery
from fieldfare.qos import Consuming
from fieldfare.simulation.client import SimulatedClient
from fieldfare.simulation.history import Reception

FLUSHED_SECONDS = 2.0  # without a fault, by then an acknowledgement has arrived and is in the log
_SLACK_SECONDS = 0.2  # between what the edge does and what a consumer sees of it

Doing: TypeAlias = Literal["got", "acknowledged", "refused"]


class Numbered(msgspec.Struct):
    """An event of these worlds."""

    number: int
    key: str | None = None


_numbered = msgspec.json.Decoder(Numbered)


class Verdict(NamedTuple):
    """What a consumer does with an event, and after how long; None: nothing."""

    doing: Doing | None
    after_seconds: float = 0.0


class Step(NamedTuple):
    """Something that a consumer did with an event."""

    at: float
    consumer: str
    doing: Doing
    number: int
    key: str | None
    attempt: int


class Disturbance(NamedTuple):
    """A consumer, or with no name the edge, lost its connections."""

    at: float
    consumer: str | None


@dataclass
class ConsumerHistory:
    """What the consumers of one shared subscription did."""

    steps: list[Step] = field(default_factory=list)
    disturbances: list[Disturbance] = field(default_factory=list)

    def disturbed(self, consumer: str | None, after: float, until: float) -> bool:
        """Whether a consumer or the edge was disturbed in a span of time."""
        return any(after <= each.at <= until and each.consumer in (None, consumer) for each in self.disturbances)

    def by_number(self) -> dict[int, list[Step]]:
        """The steps of each event, in the order of time."""
        found: dict[int, list[Step]] = defaultdict(list)
        for step in self.steps:
            found[step.number].append(step)
        return found


class SimulatedConsumer(SimulatedClient):
    """A client whose application acknowledges some events and refuses others."""

    steps: ConsumerHistory
    judge: Callable[[Numbered, int], Verdict]  # given an event and the number of the attempt

    def _take(self, reception: Reception, delivery: Delivery) -> None:
        event, session = _numbered.decode(delivery.event), self._session
        self._note("got", event, delivery.attempt)
        verdict = self.judge(event, delivery.attempt)

        def act() -> None:
            if session is None or session is not self._session or verdict.doing is None:
                return
            self._note(verdict.doing, event, delivery.attempt)
            if verdict.doing == "acknowledged":
                self._do(session.ack_each(reception, delivery.position, self._now))
            else:
                self._do(session.nack(reception, delivery, "not this time", None))

        self._network.clock.after(verdict.after_seconds, act)

    def _note(self, doing: Doing, event: Numbered, attempt: int) -> None:
        self.steps.steps.append(Step(self._now, self.name, doing, event.number, event.key, attempt))


def check_consumers(
    history: ConsumerHistory, consuming: Consuming, published: Collection[int], dead: Collection[int]
) -> None:
    """Raise a BrokenPromiseError if a law does not hold, when all has come to rest."""
    for number, steps in history.by_number().items():
        _check_one_at_a_time(history, consuming, number, steps)
        _check_acknowledged(history, number, steps)
    done = {step.number for step in history.steps if step.doing == "acknowledged"}
    if lost := sorted(set(published) - done - set(dead)):
        raise BrokenPromiseError("lost", "*", f"events {lost} are neither acknowledged nor dead letters")
    if early := sorted(set(dead) - {number for number in dead if _attempts(history, number) >= consuming.attempts_max}):
        raise BrokenPromiseError("unexpected", "*", f"events {early} are dead letters without enough attempts")
    if consuming.key is not None:
        _check_order(history, consuming)


def _check_one_at_a_time(history: ConsumerHistory, consuming: Consuming, number: int, steps: list[Step]) -> None:
    had = [step for step in steps if step.doing == "got"]
    for first, second in pairwise(had):
        is_refused = any(
            step.doing == "refused" and step.consumer == first.consumer and first.at <= step.at <= second.at
            for step in steps
        )
        is_late = second.at - first.at >= consuming.take_seconds - _SLACK_SECONDS
        is_dead = history.disturbed(first.consumer, first.at - _SLACK_SECONDS, second.at)
        if not (is_refused or is_late or is_dead):
            detail = f"event {number} went to {first.consumer} and then to {second.consumer}, without a reason"
            raise BrokenPromiseError("duplicated", second.consumer, detail)


def _check_acknowledged(history: ConsumerHistory, number: int, steps: list[Step]) -> None:
    for done in (step for step in steps if step.doing == "acknowledged"):
        flushed_at = done.at + FLUSHED_SECONDS
        if history.disturbed(done.consumer, done.at - _SLACK_SECONDS, flushed_at):
            continue
        for step in steps:
            if step.doing == "got" and step.at > flushed_at:
                detail = f"event {number} went to {step.consumer} after {done.consumer} had acknowledged it"
                raise BrokenPromiseError("duplicated", step.consumer, detail)


def _check_order(history: ConsumerHistory, consuming: Consuming) -> None:
    """An event is first given to anybody when those of its key before it are settled."""
    begun: dict[str, list[int]] = defaultdict(list)
    done: set[int] = set()
    attempts: dict[int, int] = defaultdict(int)
    for step in history.steps:
        if step.doing == "acknowledged":
            done.add(step.number)
        if step.doing != "got" or step.key is None:
            continue
        earlier = begun[step.key]
        if step.number not in earlier:
            open_before = [each for each in earlier if each not in done and attempts[each] < consuming.attempts_max]
            if open_before or (earlier and step.number < max(earlier)):
                detail = f"event {step.number} of key {step.key} came while {open_before or earlier} came first"
                raise BrokenPromiseError("reordered", step.consumer, detail)
            earlier.append(step.number)
        attempts[step.number] += 1


def _attempts(history: ConsumerHistory, number: int) -> int:
    return sum(step.number == number and step.doing == "got" for step in history.steps)
