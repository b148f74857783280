"""A stand-in for the Spark pipeline: it keeps what edges hand to it, and now and then matches a batch.

Like the real one it survives a crash of the edge, and brings a batch again whose arrival it is not sure of.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from fieldfare.matching import oracle
from fieldfare.messages import (
    BatchStored,
    HandedOver,
    HandEvents,
    HandSubscription,
    MatchedEvent,
    PipelineMatched,
    UsePipeline,
    all_attributes,
)
from fieldfare.model import SubscriptionId
from fieldfare.simulation.host import SimulatedHost


@dataclass
class _Topic:
    conditions: dict[SubscriptionId, str] = field(default_factory=dict)
    waiting: list[HandEvents] = field(default_factory=list)
    batches: list[PipelineMatched] = field(default_factory=list)
    stored_batch: int = -1  # the last that is in the edge's log


class SimulatedPipeline:
    """The pipeline behind one edge. `failure`, when set, is why it takes nothing now."""

    def __init__(self, host: SimulatedHost, rng: random.Random, batch_seconds: float = 0.5) -> None:
        self.failure: str | None = None
        self.answer_seconds = 0.1  # at most
        self._host = host
        self._rng = rng
        self._batch_seconds = batch_seconds
        self._topics: dict[tuple[str, str], _Topic] = {}
        host.perform_with(HandEvents, self._take)
        host.perform_with(HandSubscription, self._take)
        host.perform_with(UsePipeline, self._stored)
        host.perform_with(BatchStored, self._stored)
        self._is_waiting = False

    def _take(self, effect: HandEvents | HandSubscription) -> None:
        """Take it now and answer later: the answer may be lost in a crash, and then the same comes again."""
        if self.failure is None:
            topic = self._topics.setdefault((effect.tenant, effect.topic), _Topic())
            if isinstance(effect, HandEvents):
                topic.waiting.append(effect)
            elif effect.condition is None:
                topic.conditions.pop(effect.subscription, None)
            else:
                topic.conditions[effect.subscription] = effect.condition
        self._run_soon()
        answer = HandedOver(effect.number, self.failure)
        self._host.later(self.answer_seconds * self._rng.random(), lambda: self._host.tell(answer))

    def _stored(self, effect: UsePipeline | BatchStored) -> None:
        """The edge has a batch in its log, or, after a crash, only an earlier one; then it says who subscribes."""
        topic = self._topics.setdefault((effect.tenant, effect.topic), _Topic())
        topic.stored_batch = effect.batch
        if isinstance(effect, UsePipeline):
            topic.conditions = dict(effect.conditions.items())
        self._run_soon()

    def _run_soon(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._host.clock.after(self._batch_seconds * (0.5 + self._rng.random()), self._run)

    def _run(self) -> None:
        """Match what came, and bring the edge the batches that it has not confirmed, again and again."""
        self._is_waiting = False
        for (tenant, name), topic in self._topics.items():
            if topic.waiting:
                events = list(_matched(topic))
                topic.batches.append(PipelineMatched(tenant, name, len(topic.batches), events))
                topic.waiting.clear()
            for batch in topic.batches[topic.stored_batch + 1 :]:
                self._host.tell(batch)
                self._run_soon()


def _matched(topic: _Topic) -> Iterator[MatchedEvent]:
    for handed in topic.waiting:
        beside = handed.beside or [None] * len(handed.ids)
        for event_id, event, extra in zip(handed.ids, handed.events, beside, strict=True):
            found = oracle.match(
                topic.conditions, all_attributes(bytes(event), None if extra is None else extra.envelope, handed.at)
            )
            yield MatchedEvent(event_id, handed.publisher, handed.at, event, [str(each) for each in found], extra)
