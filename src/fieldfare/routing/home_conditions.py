"""The home of topics that Spark matches: what subscriptions at other edges want, in this edge's pipeline.

Another edge registers its subscriptions in versions. A version is confirmed when the pipeline has all of its conditions
and this log knows them, so that they are in the pipeline again after a crash. What the pipeline then finds for them is
stored here under remote ids (see `remote_id`), and goes to their edge like other events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fieldfare.messages import (
    EdgeRegistered,
    HandSubscription,
    LogId,
    Register,
    TopicKey,
    Version,
    edge_of,
    remote_id,
)
from fieldfare.routing.ports import Asking, LogPort
from fieldfare.routing.topic import Topic

Changes: TypeAlias = dict[str, str | None]  # conditions by subscription; None: it has ended

_RECORD_CHANGES_MAX = 1_000


@dataclass(slots=True, eq=False)
class Registration:
    """A version of what an edge's subscriptions want, on its way to the pipeline and then to the log."""

    edge: EdgeConditions
    version: Version
    changes: Changes
    is_all: bool  # what is not among the changes has ended
    unanswered: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class RegisteredPart:
    """A part of a registration on its way to the log."""

    registration: Registration
    is_last: bool


@dataclass(slots=True, eq=False)
class EdgeConditions:
    """What another edge's subscriptions to one topic want."""

    topic: Topic
    log: LogId
    version: Version = 0  # the pipeline and the log have this one
    conditions: dict[str, str] = field(default_factory=dict)  # by subscription
    uncertain: set[str] = field(default_factory=set)  # subscriptions whose changes the pipeline may have or not
    parts: list[Register] = field(default_factory=list)  # of a registration that is not complete
    current: Registration | None = None
    following: Registration | None = None  # the latest, which waits for the current one


class HomeConditions:
    """Those of all edges and topics. `confirm` tells an edge which version is in force."""

    def __init__(self, pipeline: Asking, log: LogPort, confirm: Callable[[Topic, LogId, Version, float], None]) -> None:
        self._pipeline, self._log, self._confirm = pipeline, log, confirm
        self._topics: dict[TopicKey, dict[LogId, EdgeConditions]] = {}

    def version_of(self, topic: Topic, edge: LogId) -> Version:
        """The version of an edge's subscriptions that is in force."""
        known = self._topics.get(topic.key, {}).get(edge)
        return 0 if known is None else known.version

    def has(self, topic: Topic, remote: str) -> bool:
        """Whether a remote id is that of a subscription that is known here."""
        edge = self._topics.get(topic.key, {}).get(edge_of(remote))
        return edge is not None and remote.partition("/")[2] in edge.conditions

    def of_topic(self, topic: Topic) -> dict[str, str]:
        """The conditions of a topic's remote subscriptions, by remote id."""
        return {
            remote_id(edge.log, subscription): condition
            for edge in self._topics.get(topic.key, {}).values()
            for subscription, condition in edge.conditions.items()
        }

    # Registering

    def register(self, topic: Topic, frame: Register, now: float) -> None:
        """An edge says what its subscriptions want."""
        edge = self._edge(topic, frame.receiver)
        if frame.part == 0:
            edge.parts = []
        if frame.part != len(edge.parts) or (edge.parts and edge.parts[0].version != frame.version):
            return  # a part is missing: the edge sends all of them again
        edge.parts.append(frame)
        if not frame.is_last:
            return
        parts, edge.parts = edge.parts, []
        if frame.version <= edge.version or (frame.since is not None and frame.since > edge.version):
            self._confirm(topic, edge.log, edge.version, now)  # it is told from where to tell changes
            return
        changes = {subscription: condition for part in parts for subscription, condition in part.changes}
        edge.following = Registration(edge, frame.version, changes, is_all=frame.since is None)
        self._go_on(edge)

    def _edge(self, topic: Topic, log: LogId) -> EdgeConditions:
        edges = self._topics.setdefault(topic.key, {})
        if log not in edges:
            edges[log] = EdgeConditions(topic, log)
        return edges[log]

    def _go_on(self, edge: EdgeConditions) -> None:
        if edge.current is not None or edge.following is None:
            return
        current = edge.current = edge.following
        edge.following = None
        current.changes = _new(edge, current)
        current.unanswered, current.failure = len(current.changes), None
        for subscription, condition in current.changes.items():
            self._hand(current, remote_id(edge.log, subscription), condition)
        if not current.changes:
            self._store(current)

    def _hand(self, registration: Registration, remote: str, condition: str | None) -> None:
        key = registration.edge.topic.key
        self._pipeline.ask(lambda number: HandSubscription(number, *key, remote, condition), registration)

    def handed(self, registration: Registration, failure: str | None) -> None:
        """The pipeline has one of its conditions, or could not take it."""
        registration.unanswered -= 1
        registration.failure = registration.failure or failure
        if registration.unanswered == 0:
            if registration.failure is None:
                self._store(registration)
            else:
                self._put_off(registration)

    def _store(self, registration: Registration) -> None:
        """Let the log know it. The last part has the version, so that a part of it alone is of none."""
        edge = registration.edge
        pieces = _pieces(list(registration.changes.items()))
        for number, piece in enumerate(pieces, 1):
            is_last = number == len(pieces)
            version = registration.version if is_last else edge.version
            record = EdgeRegistered(*edge.topic.key, edge.log, version, piece)
            self._log.append(record, RegisteredPart(registration, is_last))

    def stored(self, part: RegisteredPart, now: float) -> None:
        """A part is in the log; with the last, the version is in force."""
        registration, edge = part.registration, part.registration.edge
        if not part.is_last or edge.current is not registration:
            return
        edge.current = None
        edge.uncertain.clear()
        _apply(edge, registration.version, list(registration.changes.items()))
        self._confirm(edge.topic, edge.log, edge.version, now)
        self._go_on(edge)

    def not_stored(self, part: RegisteredPart) -> None:
        """The log does not have it."""
        if part.registration.edge.current is part.registration:
            self._put_off(part.registration)

    def _put_off(self, registration: Registration) -> None:
        """Try again when `tidy` is called, unless a later version has come."""
        edge = registration.edge
        edge.current = None
        edge.uncertain |= registration.changes.keys()
        edge.following = edge.following or registration

    def tidy(self) -> None:
        """Try again what did not get to the pipeline or to the log."""
        for edges in self._topics.values():
            for edge in edges.values():
                self._go_on(edge)

    # What survives

    def recover(self, topic: Topic, record: EdgeRegistered) -> None:
        """The log says what another edge's subscriptions want."""
        _apply(self._edge(topic, record.edge), record.version, record.changes)

    def state(self) -> Iterator[EdgeRegistered]:
        """What is known of other edges' subscriptions, for a checkpoint."""
        for edges in self._topics.values():
            for edge in edges.values():
                for piece in _pieces(list(edge.conditions.items())):
                    yield EdgeRegistered(*edge.topic.key, edge.log, edge.version, piece)


def _new(edge: EdgeConditions, registration: Registration) -> Changes:
    """The changes to what is in force, and to what the pipeline may have beside it."""
    changes, known, uncertain = registration.changes, edge.conditions, edge.uncertain
    new = {name: text for name, text in changes.items() if known.get(name) != text or name in uncertain}
    if registration.is_all:
        return new | dict.fromkeys((known.keys() | uncertain) - changes.keys())
    return new | {name: known.get(name) for name in uncertain - changes.keys()}


def _pieces(changes: Sequence[tuple[str, str | None]]) -> list[list[tuple[str, str | None]]]:
    """Parts of them that are not too long for a record; at least one."""
    step = _RECORD_CHANGES_MAX
    return [list(changes[start : start + step]) for start in range(0, max(1, len(changes)), step)]


def _apply(edge: EdgeConditions, version: Version, changes: Sequence[tuple[str, str | None]]) -> None:
    edge.version = max(edge.version, version)
    for subscription, condition in changes:
        if condition is None:
            edge.conditions.pop(subscription, None)
        else:
            edge.conditions[subscription] = condition
