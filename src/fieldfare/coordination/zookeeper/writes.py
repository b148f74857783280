"""What a broker keeps written in ZooKeeper: that it lives, that it would lead, its endpoints.

What the node said last is what has to stand there. In a new session all ephemeral znodes are created again; one that
an earlier session of this broker left behind, and that would go when that session expires, is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from fieldfare.coordination.zookeeper.procedures import MemberOptions, Procedures, ZooKeeperPort
from fieldfare.coordination.zookeeper.steps import children_of, create, in_topic, make_path, read, remove
from fieldfare.coordination.zookeeper.tree import EndpointCounts, Tree, encode, is_candidate, sequence_of
from fieldfare.coordination.zookeeper.znodes import (
    CreateZnode,
    NoZnodeError,
    Procedure,
    RemoveZnode,
    Transaction,
    WriteZnode,
    ZnodeExistsError,
)
from fieldfare.messages import CountEndpoints, Member, TopicKey


class _Key(msgspec.Struct, frozen=True):
    pass


class WriteMember(_Key, frozen=True):
    """The broker's own znode."""


class WriteCandidate(_Key, frozen=True):
    """The znode of a routing broker that would lead."""


class WriteCounts(_Key, frozen=True):
    """The endpoints of a topic at this edge, and whether it is owed events."""

    topic: TopicKey


WriteKey: TypeAlias = WriteMember | WriteCandidate | WriteCounts


class Writes:
    """The writes of one broker. `written` is told when something stands in ZooKeeper."""

    def __init__(
        self, world: ZooKeeperPort, tree: Tree, written: Callable[[WriteKey], None], options: MemberOptions
    ) -> None:
        self.member: Member | None = None
        self.candidate: str | None = None  # its path, while this session has one
        self.session = 0
        self.is_announced = False  # in this session
        self.procedures: Procedures[WriteKey] = Procedures(world, self._start, options.writes_max, options)
        self._world, self._tree, self._written, self._options = world, tree, written, options
        self._is_load_due = False
        self._counts: dict[TopicKey, CountEndpoints] = {}
        self._counted: dict[TopicKey, CountEndpoints] = {}  # what this session has written

    # What the node asks for

    def announce(self, member: Member) -> None:
        """Keep the broker's own znode as it says. A change of its load alone need not be known at once."""
        previous, self.member = self.member, member
        if previous is None:
            self._write_all()
        elif _without_load(previous) != _without_load(member):
            self.procedures.request(WriteMember())
        elif previous != member and not self._is_load_due:
            self._is_load_due = True
            self._world.later(self._options.load_seconds, self._announce_load)

    def _announce_load(self) -> None:
        self._is_load_due = False
        self.procedures.request(WriteMember())

    def count(self, effect: CountEndpoints) -> None:
        """Keep the count of a topic's endpoints."""
        self._counts[effect.topic] = effect
        self.procedures.request(WriteCounts(effect.topic))

    def counts(self, topic: TopicKey) -> bool:
        """Whether the node has something to do with a topic, by what it said last."""
        return topic in self._counts and is_counted(self._counts[topic])

    # Sessions

    def begin_session(self, session: int) -> None:
        """Write all that belongs to a session, which is new."""
        self.session, self.candidate, self.is_announced = session, None, False
        self._counted.clear()
        self._write_all()

    def write_own(self) -> None:
        """Write the broker's own znode again, and of a routing broker its candidate."""
        if self.member is not None:
            self.procedures.request(WriteMember())
            if self.member.role == "routing":
                self.procedures.request(WriteCandidate())

    def _write_all(self) -> None:
        self.write_own()
        for topic in self._counts:
            self.procedures.request(WriteCounts(topic))

    # Procedures

    def _start(self, key: WriteKey) -> Procedure[None]:
        match key:
            case WriteMember():
                return self._write_member()
            case WriteCandidate():
                return self._write_candidate()
            case WriteCounts(topic):
                return self._write_counts(topic)

    def _write_member(self) -> Procedure[None]:
        if self.member is None:
            return
        path, data = self._tree.broker(self.member.name), encode(self.member)
        try:
            yield from self._write_ephemeral(path, data)
        except NoZnodeError:
            yield from make_path(self._tree.brokers)
            yield from self._write_ephemeral(path, data)
        if self.member.role != "routing" and not self.is_announced:
            yield from remove(self._tree.retired_edge(self.member.name))
        self.is_announced = True
        self._written(WriteMember())

    def _write_candidate(self) -> Procedure[None]:
        """Have one candidate, and remove those of earlier sessions: the one of a session that is over may not lead."""
        if self.member is None:
            return
        found = None
        for child in sorted(filter(is_candidate, (yield from children_of(self._tree.leader))), key=sequence_of):
            if sequence_of(child)[1] != self.member.name:
                continue
            path = f"{self._tree.leader}/{child}"
            try:
                znode = yield from read(path)
            except NoZnodeError:
                continue
            if found is None and znode.session == self.session:
                found = path
            else:
                yield from remove(path)
        if found is None:
            path = self._tree.candidate(self.member.name)
            found = yield from create(path, is_ephemeral=True, is_sequential=True)
        self.candidate = found
        self._written(WriteCandidate())

    def _write_counts(self, topic: TopicKey) -> Procedure[None]:
        counts = self._counts.get(topic)
        if counts is None or self.member is None:  # it is requested again when the node has said who it is
            return
        edge = self.member.name
        before = self._counted.pop(topic, None)
        endpoints, owed = self._tree.endpoints(topic, edge), self._tree.owed(topic, edge)
        if counts.publishers or counts.subscribers:
            data = encode(EndpointCounts(counts.publishers, counts.subscribers))
            is_there = before is not None and bool(before.publishers or before.subscribers)
            yield from in_topic(
                self._tree,
                topic,
                lambda: self._write_ephemeral(endpoints, data, is_there=is_there),
                CreateZnode(endpoints, data, is_ephemeral=True),
            )
        else:
            yield from remove(endpoints)
        if before is None or before.is_owed != counts.is_owed:
            log = self.member.log.encode()
            yield from self._write_owed(topic, owed, log) if counts.is_owed else remove(owed)
        self._counted[topic] = counts
        if not is_counted(counts) and self._counts[topic] is counts:
            del self._counts[topic], self._counted[topic]
        self._written(WriteCounts(topic))

    def _write_owed(self, topic: TopicKey, path: str, log: bytes) -> Procedure[None]:
        def write_or_create() -> Procedure[None]:
            try:
                yield CreateZnode(path, log)
            except ZnodeExistsError:
                yield WriteZnode(path, log)

        yield from in_topic(self._tree, topic, write_or_create, CreateZnode(path, log))

    def _write_ephemeral(self, path: str, data: bytes, *, is_there: bool = False) -> Procedure[None]:
        """Have a znode of this session with this data; raises NoZnodeError if there is nothing above it."""
        try:
            if is_there:
                yield WriteZnode(path, data)
                return
        except NoZnodeError:
            pass
        new = CreateZnode(path, data, is_ephemeral=True)
        try:
            yield new
        except ZnodeExistsError:
            znode = yield from read(path)
            if znode.session != self.session:
                yield Transaction((RemoveZnode(path), new))
            elif znode.data != data:
                yield WriteZnode(path, data)


def is_counted(counts: CountEndpoints) -> bool:
    """Whether an edge has something to do with a topic."""
    return bool(counts.publishers or counts.subscribers or counts.is_owed)


def _without_load(member: Member) -> Member:
    return msgspec.structs.replace(member, load=0.0, topic_count=0, behind=0)
