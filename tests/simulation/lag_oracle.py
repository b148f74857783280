"""What a lag has to be: counted by brute force, from all that the log holds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from msgspec.json import Decoder

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Delivery, EventsStored, stream_of
from fieldfare.routing.edge import Edge
from fieldfare.routing.lag import lag_of
from fieldfare.routing.matches import entries_of
from fieldfare.routing.taker import Taker
from fieldfare.routing.topic import Topic
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.promised import holds

_delivery: Decoder[Delivery] = Decoder(Delivery)


@dataclass
class LagOracle:
    """Checks the lag of all durable subscriptions of an edge, as often as it is asked to."""

    host: SimulatedHost
    checked: int = 0
    behind: int = 0  # of those: with events
    exact: int = 0
    detached: int = 0
    seconds_slack: float = 1.1

    def add(self, other: LagOracle) -> None:
        """What another one has seen."""
        self.checked += other.checked
        self.behind += other.behind
        self.exact += other.exact
        self.detached += other.detached

    def check(self) -> None:
        """Compare, if the edge is up."""
        node = self.host.node
        if isinstance(node, Edge):
            for topic in node.parts.topics:
                self._check_topic(node, topic)

    def _check_topic(self, edge: Edge, topic: Topic) -> None:
        takers = [taker for taker in topic.takers.values() if taker.subscription.is_durable and taker.reads_log]
        records = self._records(topic) if takers else []
        for taker in takers:
            self._check(edge, topic, taker, records)

    def _records(self, topic: Topic) -> list[EventsStored]:
        records: list[EventsStored] = []
        after = -1
        while True:
            piece = self.host.log.fetch("oracle", stream_of(*topic.key), after)
            if not piece.records:
                return records
            records += piece.records
            after = piece.position

    def _check(self, edge: Edge, topic: Topic, taker: Taker, records: list[EventsStored]) -> None:
        now = self.host.now
        latest = list(accumulate((record.at for record in records), max))  # the clock may have been set back
        wanted = [
            (position, expires_at, at)
            for at, record in zip(latest, records, strict=True)
            for number, (position, expires_at, raw) in enumerate(entries_of(record))
            if position <= topic.matched and not _is_settled(taker, position)
            if self._wants(taker, record, number, bytes(raw))
        ]
        living = [each for each in wanted if each[1] > now]
        lag = lag_of(topic, taker, edge.parts.topics.kept_from, now)
        self.checked += 1
        self.behind += bool(lag.events)
        self.exact += lag.is_exact and bool(lag.events)
        self.detached += bool(lag.events) and not taker.is_attached
        seen = f"{taker.id} of {topic.name} ({taker.state.name}): {lag}, in truth {len(living)} events"
        if taker.subscription.qos.keep_last is not None:
            return
        if lag.events < len(living):
            raise BrokenPromiseError("events behind, too few", taker.id, seen)
        if lag.is_exact and lag.events > len(wanted):
            raise BrokenPromiseError("events behind, too many", taker.id, f"{seen}, {len(wanted)} with expired ones")
        if living and topic.offered.lifespan_seconds > 1000:
            truth = max(0.0, now - min(at for _, _, at in living))
            is_close = lag.seconds <= truth + self.seconds_slack or not lag.is_exact or taker.is_behind
            if lag.seconds < truth - 0.01 or not is_close:
                raise BrokenPromiseError("seconds behind", taker.id, f"{seen}, {truth:.3f} s")

    def _wants(self, taker: Taker, record: EventsStored, number: int, delivery: bytes) -> bool:
        if record.subscriptions is not None:
            return taker.id in record.subscriptions[number]
        return holds(taker.subscription.condition, bytes(_delivery.decode(delivery).event))


def _is_settled(taker: Taker, position: int) -> bool:
    """Whether a subscription has dealt with an event, or could never have got it."""
    if taker.outstanding is None or position > taker.outstanding.upto:
        return position <= taker.cursor
    return position not in taker.outstanding.events
