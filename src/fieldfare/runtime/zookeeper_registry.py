"""What stands in ZooKeeper, for people. For commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from fieldfare.coordination.registered import Registered, RegisteredTopic
from fieldfare.coordination.zookeeper.tree import (
    decode_counts,
    decode_member,
    decode_offer,
    decode_owner,
    is_candidate,
    name_of,
    sequence_of,
    topic_of,
)
from fieldfare.coordination.zookeeper.znodes import Znode
from fieldfare.errors import CoordinationError
from fieldfare.messages import TopicKey
from fieldfare.runtime.zookeeper import ZooKeeperOptions


class ZooKeeperRegistry:
    """A connection for one command: `with ZooKeeperRegistry(options) as registry`. Raises a CoordinationError."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options, self._tree = options, options.tree
        self._client = options.client()

    def __enter__(self) -> Self:
        try:
            self._client.start(self._options.connect_seconds)
        except KazooTimeoutError as error:
            raise CoordinationError(f"ZooKeeper cannot be reached at {self._options.hosts}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.stop()
        self._client.close()
        if isinstance(error, NoAuthError):
            raise CoordinationError("ZooKeeper refuses this: its user or password is missing or wrong") from error
        if isinstance(error, KazooException):
            raise CoordinationError(f"ZooKeeper failed: {str(error) or type(error).__name__}") from error

    def read(self) -> Registered:
        """All that is known now."""
        candidates = sorted(filter(is_candidate, self._children(self._tree.leader)), key=sequence_of)
        found = [self._read(f"{self._tree.brokers}/{name}") for name in self._children(self._tree.brokers)]
        members = [member for znode in found if znode and (member := decode_member(znode.data))]
        return Registered(
            tuple(sorted(members, key=lambda member: (member.role, member.name))),
            sequence_of(candidates[0])[1] if candidates else None,
            tuple(self._topics()),
        )

    def retire(self, edge: str) -> tuple[TopicKey, ...]:
        """Nobody waits any more for an edge that will not come back; returns the topics whose events it was owed."""
        if self._read(self._tree.broker(edge)) is not None:
            raise CoordinationError(f"the edge {edge!r} is there: stop it first, if its log is to be given up")
        self._client.ensure_path(self._tree.retired_edge(edge))
        retired = []
        for topic in self._topic_keys():
            with suppress(NoNodeError):
                self._client.delete(self._tree.owed(topic, edge))
                retired.append(topic)
        return tuple(retired)

    def _topics(self) -> Iterator[RegisteredTopic]:
        for topic in self._topic_keys():
            parts = self._tree.part(topic, "endpoints"), self._tree.part(topic, "owed")
            endpoints, owed = [{name: self._read(f"{part}/{name}") for name in self._children(part)} for part in parts]
            owner, offer = self._read(self._tree.part(topic, "owner")), self._read(self._tree.part(topic, "offer"))
            if owner is not None and offer is not None:
                yield RegisteredTopic(
                    topic,
                    *decode_owner(owner),
                    decode_offer(offer),
                    {name_of(name): decode_counts(znode.data) for name, znode in endpoints.items() if znode},
                    {name_of(name): znode.data.decode(errors="replace") for name, znode in owed.items() if znode},
                )

    def _topic_keys(self) -> list[TopicKey]:
        found = map(topic_of, sorted(self._children(self._tree.topics)))
        return [topic for topic in found if topic is not None]

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def _read(self, path: str) -> Znode | None:
        """A znode; None if it is gone meanwhile."""
        try:
            data, stat = self._client.get(path)
        except NoNodeError:
            return None
        return Znode(data, stat.version, stat.mzxid, stat.ephemeralOwner or 0)
