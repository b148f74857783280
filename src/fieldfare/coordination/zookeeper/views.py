"""What a broker sees in ZooKeeper, by watches, and tells its node: brokers, the leader, topics.

A watch tells once that something has changed; it is then read, and watched, again. When a lost connection is back all
is read again, as watches do not outlast it. The node is told of differences only, so what it was told stays true in its
eyes until something else is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from fieldfare.coordination.zookeeper.procedures import MemberOptions, Procedures, ZooKeeperPort
from fieldfare.coordination.zookeeper.steps import children_of, read, read_children
from fieldfare.coordination.zookeeper.tree import (
    PARTS,
    Part,
    Tree,
    decode_member,
    decode_offer,
    decode_owner,
    is_candidate,
    name_of,
    sequence_of,
    topic_of,
)
from fieldfare.coordination.zookeeper.znodes import NoZnodeError, Procedure, Znode
from fieldfare.messages import (
    EdgeRetired,
    LeaderSeen,
    Member,
    MemberGone,
    MemberSeen,
    TopicGone,
    TopicKey,
    TopicOffer,
    TopicSeen,
)


class _Key(msgspec.Struct, frozen=True):
    pass


class ViewMembers(_Key, frozen=True):
    """Which brokers there are."""


class ViewMember(_Key, frozen=True):
    """What a broker says of itself."""

    name: str


class ViewLeader(_Key, frozen=True):
    """Who leads."""


class ViewRetired(_Key, frozen=True):
    """Which edges will not come back."""


class ViewTopics(_Key, frozen=True):
    """Which topics there are."""


class ViewPart(_Key, frozen=True):
    """A part of what is known of a topic."""

    topic: TopicKey
    part: Part


ViewKey: TypeAlias = ViewMembers | ViewMember | ViewLeader | ViewRetired | ViewTopics | ViewPart
_EDGE_PARTS: tuple[Part, ...] = ("owner", "offer", "owed")
_NO_OWNER = Znode(b"", 0, 0)


@dataclass(frozen=True, slots=True)
class ViewsPort:
    """Whom the views turn to."""

    own_name: Callable[[], str]
    own_candidate: Callable[[], str | None]  # the path of this broker's candidate in this session
    write_again: Callable[[], None]  # the broker or its candidate is missing, or one of an earlier session is there
    remove_topic: Callable[[TopicKey], None]  # nobody uses it


@dataclass(slots=True)
class _TopicView:
    unread: set[Part]
    owner: Znode = _NO_OWNER
    offer: TopicOffer | None = None
    endpoints: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    told: TopicSeen | None = None


@dataclass(slots=True)
class Views:
    """The views of one broker. It watches the brokers, and what it was told to `watch`; the leader all topics."""

    world: ZooKeeperPort
    tree: Tree
    port: ViewsPort
    options: MemberOptions
    leads: bool = False
    watches_leader: bool = False
    procedures: Procedures[ViewKey] = field(init=False)
    _watched_members: set[str] = field(default_factory=set)
    _members: dict[str, Member] = field(default_factory=dict)  # as they were told
    _leader: str | None = None  # as it was told
    _topics: dict[TopicKey, _TopicView] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.procedures = Procedures(self.world, self._start, self.options.reads_max, self.options)

    # What is watched

    def watch(self, topic: TopicKey) -> None:
        """Tell of a topic from now on."""
        view = self._topics.setdefault(topic, _TopicView(set(_EDGE_PARTS)))
        self._read_parts(topic, view.unread)

    def forget(self, topic: TopicKey) -> None:
        """Tell of a topic no more."""
        self._topics.pop(topic, None)

    def refresh(self) -> None:
        """Read everything again, and watch it."""
        self._watched_members.clear()
        self.procedures.request(ViewMembers())
        self.procedures.request(ViewLeader() if self.watches_leader else ViewRetired())
        for topic in self._topics:
            self._read_parts(topic, PARTS if self.watches_leader else _EDGE_PARTS)

    def look_again(self, topic: TopicKey) -> None:
        """Read again what is known of a topic."""
        if topic in self._topics:
            self._read_parts(topic, ("owner", "offer"))

    def _read_parts(self, topic: TopicKey, parts: Iterable[Part]) -> None:
        for part in PARTS:
            if part in parts:
                self.procedures.request(ViewPart(topic, part))

    def suspend(self) -> None:
        """The connection is lost: nobody knows now who leads, and nothing else changes."""
        self.procedures.close()
        self.leads = False
        self._tell_leader(None)

    def changed(self, path: str) -> None:
        """A watch tells that something is not as it was."""
        match path.removeprefix(self.tree.root).split("/")[1:]:
            case ["brokers"]:
                self.procedures.request(ViewMembers())
            case ["brokers", name]:
                self.procedures.request(ViewMember(name_of(name)))
            case ["leader"]:
                self.procedures.request(ViewLeader())
            case ["retired"]:
                self.procedures.request(ViewRetired())
            case ["topics"]:
                self.procedures.request(ViewTopics())
            case ["topics", name, ("owner" | "offer" | "endpoints" | "owed") as part]:
                if (topic := topic_of(name)) in self._topics and topic is not None:
                    self.procedures.request(ViewPart(topic, part))

    def owner_version(self, topic: TopicKey, epoch: int) -> int | None:
        """The version of the znode that names a topic's owner, if this is its epoch, as far as we have seen."""
        view = self._topics.get(topic)
        if view is None or "owner" in view.unread or decode_owner(view.owner)[1] != epoch:
            return None
        return view.owner.version

    # Procedures

    def _start(self, key: ViewKey) -> Procedure[None]:
        match key:
            case ViewMembers():
                return self._view_members()
            case ViewMember(name):
                return self._view_member(name)
            case ViewLeader():
                return self._view_leader()
            case ViewRetired():
                return self._view_retired()
            case ViewTopics():
                return self._view_topics()
            case ViewPart(topic, part):
                return self._view_part(topic, part)

    def _view_members(self) -> Procedure[None]:
        names = {name_of(child) for child in (yield from children_of(self.tree.brokers))}
        for name in sorted(self._members.keys() - names):
            self._tell_gone(name)
        for name in sorted(names - self._watched_members):
            self.procedures.request(ViewMember(name))
        if self.port.own_name() not in names:
            self.port.write_again()

    def _view_member(self, name: str) -> Procedure[None]:
        self._watched_members.add(name)
        try:
            znode = yield from read(self.tree.broker(name), is_watched=True)
        except NoZnodeError:
            self._tell_gone(name)
            return
        member = decode_member(znode.data)
        if member is None or member.name != name:
            self.world.report(f"what the broker {name!r} says of itself in ZooKeeper is not understood")
        elif self._members.get(name) != member:
            self._members[name] = member
            self.world.tell(MemberSeen(member))

    def _tell_gone(self, name: str) -> None:
        self._watched_members.discard(name)
        if self._members.pop(name, None) is not None:
            self.world.tell(MemberGone(name))

    def _view_retired(self) -> Procedure[None]:
        children = yield from children_of(self.tree.retired)
        for child in sorted(children):
            self.world.tell(EdgeRetired(name_of(child)))

    def _view_leader(self) -> Procedure[None]:
        children = yield from children_of(self.tree.leader)
        if not self.procedures.is_open:  # the connection broke behind this answer
            return
        first = min(filter(is_candidate, children), key=sequence_of, default=None)
        name = None if first is None else sequence_of(first)[1]
        own = self.port.own_candidate()
        self.leads = first is not None and f"{self.tree.leader}/{first}" == own
        if own is not None and own.rpartition("/")[2] not in children:
            self.port.write_again()
        if name == self.port.own_name() and not self.leads:
            self.port.write_again()
            name = None
        if name is not None and not self.leads:
            self._topics.clear()
        self._tell_leader(name)
        if self.leads:
            self.procedures.request(ViewTopics())

    def _tell_leader(self, name: str | None) -> None:
        if name != self._leader:
            self._leader = name
            self.world.tell(LeaderSeen(name))

    def _view_topics(self) -> Procedure[None]:
        if not self.leads:
            return
        children = yield from children_of(self.tree.topics)
        if not self.leads:
            return
        topics = [topic for topic in map(topic_of, sorted(children)) if topic is not None]
        for topic in self._topics.keys() - set(topics):
            self._drop(topic)
        for topic in topics:
            if topic not in self._topics:
                self._topics[topic] = _TopicView(set(PARTS))
                self._read_parts(topic, PARTS)

    def _view_part(self, topic: TopicKey, part: Part) -> Procedure[None]:
        if topic not in self._topics:
            return
        path = self.tree.part(topic, part)
        children: tuple[str, ...] = ()
        znode = _NO_OWNER
        try:
            if part in {"endpoints", "owed"}:
                children = yield from read_children(path)
            else:
                znode = yield from read(path, is_watched=True)
        except NoZnodeError:
            if self.watches_leader:
                self._drop(topic)
            elif (view := self._topics.get(topic)) is not None:
                view.unread.add(part)  # it went with an earlier session of this edge, and is being created again
            return
        if (view := self._topics.get(topic)) is not None:
            _update(view, part, znode, tuple(sorted(map(name_of, children))))
            if not view.unread:
                self._tell_topic(topic, view)

    def _tell_topic(self, topic: TopicKey, view: _TopicView) -> None:
        if self.watches_leader and not view.endpoints:
            if view.told is not None:
                view.told = None
                self.world.tell(TopicGone(topic))
            if self.leads and view.offer is None and not view.owed:
                self.port.remove_topic(topic)
            return
        owner, epoch = decode_owner(view.owner)
        seen = TopicSeen(topic, owner, epoch, view.offer, view.owed)
        if seen != view.told:
            view.told = seen
            self.world.tell(seen)

    def _drop(self, topic: TopicKey) -> None:
        view = self._topics.pop(topic, None)
        if view is not None and view.told is not None:
            self.world.tell(TopicGone(topic))


def _update(view: _TopicView, part: Part, znode: Znode, children: tuple[str, ...]) -> None:
    view.unread.discard(part)
    match part:
        case "owner":
            view.owner = znode
        case "offer":
            view.offer = decode_offer(znode)
        case "endpoints":
            view.endpoints = children
        case "owed":
            view.owed = children
