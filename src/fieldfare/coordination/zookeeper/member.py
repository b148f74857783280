"""All that one broker does at ZooKeeper: performing what its node asks of coordination, and telling it what is seen.

Nothing here does input or output: a `ZooKeeperPort` does, on kazoo in the live service, or in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fieldfare.coordination.zookeeper.changes import Changes, ChangesPort
from fieldfare.coordination.zookeeper.procedures import MemberOptions, ZooKeeperPort
from fieldfare.coordination.zookeeper.tree import Tree
from fieldfare.coordination.zookeeper.views import ViewLeader, Views, ViewsPort
from fieldfare.coordination.zookeeper.writes import (
    WriteCandidate,
    WriteCounts,
    WriteKey,
    WriteMember,
    Writes,
    is_counted,
)
from fieldfare.messages import Announce, AssignTopic, CountEndpoints, Effect, OfferTopic

_DEFAULT_OPTIONS = MemberOptions()


class ZooKeeperMember:
    """A broker, which announces itself as its first act. Its connection says `connected`, `suspended`, `changed`."""

    def __init__(self, world: ZooKeeperPort, tree: Tree, options: MemberOptions = _DEFAULT_OPTIONS) -> None:
        self._writes = writes = Writes(world, tree, self._written, options)
        views_port = ViewsPort(
            own_name=lambda: "" if writes.member is None else writes.member.name,
            own_candidate=lambda: writes.candidate,
            write_again=writes.write_own,
            remove_topic=lambda topic: self._changes.remove_topic(topic),  # noqa: PLW0108 - they need each other
        )
        self._views = views = Views(world, tree, views_port, options)
        changes_port = ChangesPort(lambda: writes.candidate, views.watch, views.look_again, views.owner_version)
        self._changes = Changes(world, tree, changes_port, options)

    def waits(self) -> list[str]:
        """What is not done, for people who look at a run that failed."""
        return [line for part in (self._writes, self._changes, self._views) for line in part.procedures.waits()]

    # What the node asks for

    def performers(self) -> dict[type[Effect], Callable[[Any], None]]:
        """The functions that perform a node's effects, by type."""
        return {
            Announce: self._announce,
            CountEndpoints: self._count_endpoints,
            OfferTopic: self._changes.offer,
            AssignTopic: self._assign_topic,
        }

    def _announce(self, effect: Announce) -> None:
        self._views.watches_leader = effect.member.role == "routing"
        self._writes.announce(effect.member)

    def _count_endpoints(self, effect: CountEndpoints) -> None:
        self._writes.count(effect)
        if not is_counted(effect):
            self._views.forget(effect.topic)

    def _assign_topic(self, effect: AssignTopic) -> None:
        if self._views.leads:
            self._changes.assign(effect)

    # What the connection says

    def connected(self, session: int) -> None:
        """There is a connection, in a session that is new, or the same as before."""
        if session != self._writes.session:
            self._writes.begin_session(session)
        self._writes.procedures.open()
        self._changes.procedures.open()
        if self._writes.is_announced:
            self._see()

    def suspended(self) -> None:
        """The connection is lost; whether the session is, too, is seen when there is a connection again."""
        self._writes.procedures.close()
        self._changes.suspend()
        self._views.suspend()

    def changed(self, path: str) -> None:
        """A watch was triggered."""
        self._views.changed(path)

    def _written(self, key: WriteKey) -> None:
        match key:
            case WriteMember() if not self._views.procedures.is_open:
                self._see()  # only now, or the broker would miss itself in a new session
            case WriteCandidate():
                self._views.procedures.request(ViewLeader())
            case WriteCounts(topic) if self._writes.counts(topic):
                self._views.watch(topic)

    def _see(self) -> None:
        self._views.refresh()
        self._views.procedures.open()
