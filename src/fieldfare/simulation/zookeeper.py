"""A simulated ZooKeeper: a place on the virtual network that keeps znodes, sessions and watches, and fails as told.

    zookeeper = SimulatedZooKeeper(world.network)
    zookeeper.serve(host)          # before host.start()
    zookeeper.expire("edge1")      # its session ends, and it does not notice for a while

Hosts do the same as on a real one: the membership of a broker is the same code, and only what performs its requests
differs. Partitions and slow ways apply, since requests travel over streams of the network. As with a real ZooKeeper, a
connection answers in order, and its reads never fall behind its own writes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from fieldfare.coordination.zookeeper import MemberOptions
from fieldfare.coordination.zookeeper.znodes import AnyRequest, ReadChildren, ReadZnode, RemoveZnode, Znode, ZnodeError
from fieldfare.messages import Announce, AssignTopic, CountEndpoints, Effect, OfferTopic
from fieldfare.simulation.clock import Timer
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream
from fieldfare.simulation.znode_store import Snapshot, WriteRequest, ZnodeStore, stored_at
from fieldfare.simulation.zookeeper_session import SimulatedMember
from fieldfare.simulation.zookeeper_wire import (
    Answered,
    Asked,
    Changed,
    KeepAlive,
    OpenSession,
    SessionOpened,
    ToHost,
    decode_to_service,
    encode,
)

_DEFAULT_OPTIONS = MemberOptions()


@dataclass(eq=False, slots=True)
class _Connection:
    """The service's end of a connection."""

    stream: Stream
    session: int = 0
    is_mute: bool = False  # nothing that comes is heard, and nothing is said
    seen: Snapshot | None = None  # while its reads lag: the znodes as they were
    held_back: list[ToHost] = field(default_factory=list)  # what it is told when its reads no longer lag

    def send(self, message: ToHost, *, is_new: bool) -> None:
        """Say something. What a reader that lags cannot know yet waits, and all that comes behind it."""
        if self.seen is not None and (is_new or self.held_back):
            self.held_back.append(message)
        elif not self.is_mute:
            self.stream.send(encode(message))


@dataclass(slots=True)
class _Session:
    place: str  # of the host that has it
    expiry: Timer | None = None
    connection: _Connection | None = None


class SimulatedZooKeeper:
    """The service, a place on the network, and the memberships of the hosts that it serves."""

    def __init__(
        self,
        network: Network,
        name: str = "zookeeper",
        session_seconds: float = 4.0,
        options: MemberOptions = _DEFAULT_OPTIONS,
    ) -> None:
        self.name = name
        self.members: dict[str, SimulatedMember] = {}  # by the names of the hosts, in their present lives
        self._network, self._session_seconds, self._options = network, session_seconds, options
        self._store = ZnodeStore(self._changed)
        self._sessions: dict[int, _Session] = {}
        self._opened = 0  # sessions so far
        self._data_watches: defaultdict[str, dict[_Connection, None]] = defaultdict(dict)
        self._child_watches: defaultdict[str, dict[_Connection, None]] = defaultdict(dict)
        self._answers_to_lose: set[str] = set()
        self._is_up = False
        self.restart()

    # Hosts

    def serve(self, host: SimulatedHost) -> None:
        """Perform what a host's node asks of coordination, from the host's next effect on."""
        for effect in (Announce, CountEndpoints, OfferTopic, AssignTopic):
            host.perform_with(effect, lambda asked: self._perform(host, asked))

    def _perform(self, host: SimulatedHost, effect: Effect) -> None:
        member = self.members.get(host.name)
        if member is None or not member.is_alive():
            member = SimulatedMember(host, self._network, self.name, self._session_seconds, self._options)
            self.members[host.name] = member
        member.membership.performers()[type(effect)](effect)

    # What people look at

    def read(self, path: str) -> Znode | None:
        """A znode, as it is now."""
        stored = self._store.znodes.get(path)
        return None if stored is None else stored.znode

    def children(self, path: str) -> tuple[str, ...]:
        """The names of the children of a znode, as they are now."""
        stored = self._store.znodes.get(path)
        return () if stored is None else tuple(sorted(stored.children))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all znodes."""
        return tuple(sorted(self._store.znodes))

    def waits(self) -> list[str]:
        """What the members wait for, for people who look at a run that failed."""
        members = [(name, member) for name, member in self.members.items() if member.is_alive()]
        return [f"{name}: {line}" for name, member in members for line in member.membership.waits()]

    # Faults

    def crash(self) -> None:
        """The service stops here and now. Its znodes and sessions are on its disk."""
        self._is_up = False
        self._network.crash(self.name)
        self._data_watches.clear()
        self._child_watches.clear()
        for session in self._sessions.values():
            session.connection = None
            if session.expiry is not None:
                session.expiry.cancel()

    def restart(self) -> None:
        """The service comes back; all sessions live for another while."""
        if not self._is_up:
            self._is_up = True
            self._network.listen(self.name, self._accept)
            for number in self._sessions:
                self._heard_of(number)

    def expire(self, place: str) -> None:
        """End the session of a host unseen: its connection stays silent, until the host notices that by itself."""
        for number, session in list(self._sessions.items()):
            if session.place == place:
                if session.connection is not None:
                    session.connection.is_mute = True
                self._expire(number)

    def lag(self, place: str, seconds: float) -> None:
        """For a while a host reads only what is true now, and hears of nothing that is newer."""
        for session in self._sessions.values():
            if session.place == place and session.connection is not None and session.connection.seen is None:
                connection = session.connection
                connection.seen = dict(self._store.znodes)
                self._network.clock.after(seconds, lambda: _catch_up(connection))  # noqa: B023 - one host has one

    def lose_answer(self, place: str) -> None:
        """The next write of a host takes place, and then its connection breaks: it does not know whether it did."""
        self._answers_to_lose.add(place)

    def remove(self, path: str) -> None:
        """Remove a znode, as people can by hand."""
        self._store.perform(RemoveZnode(path), 0)

    # Connections and sessions

    def _accept(self, stream: Stream) -> None:
        connection = _Connection(stream)
        stream.on_message = lambda message: self._received(connection, message)
        stream.on_close = lambda _: self._closed(connection)

    def _received(self, connection: _Connection, message: bytes) -> None:
        if connection.is_mute or not self._is_up:
            return
        self._heard_of(connection.session)
        match decode_to_service(message):
            case OpenSession(session):
                self._open_session(connection, session)
            case Asked(number, request):
                self._answer(connection, number, request)
            case KeepAlive() as alive:
                connection.send(alive, is_new=False)

    def _open_session(self, connection: _Connection, number: int) -> None:
        if number and number not in self._sessions:
            connection.send(SessionOpened(0), is_new=False)
            return
        if not number:
            self._opened += 1
            number = self._opened
            self._sessions[number] = _Session(connection.stream.there)
        self._sessions[number].connection = connection
        connection.session = number
        self._heard_of(number)
        connection.send(SessionOpened(number), is_new=False)

    def _heard_of(self, number: int) -> None:
        """A session lives for another while."""
        session = self._sessions.get(number)
        if session is not None:
            if session.expiry is not None:
                session.expiry.cancel()
            session.expiry = self._network.clock.after(self._session_seconds, lambda: self._expire(number))

    def _expire(self, number: int) -> None:
        session = self._sessions.pop(number, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        self._store.end_session(number)
        if session.connection is not None and not session.connection.is_mute:
            session.connection.stream.close("the session has expired")
            self._closed(session.connection)

    def _closed(self, connection: _Connection) -> None:
        connection.is_mute = True
        for watches in (self._data_watches, self._child_watches):
            for watchers in watches.values():
                watchers.pop(connection, None)

    # Requests

    def _answer(self, connection: _Connection, number: int, request: AnyRequest) -> None:
        if connection.session not in self._sessions:
            return
        if isinstance(request, ReadZnode | ReadChildren):
            self._read(connection, number, request)
        else:
            self._write(connection, number, request)

    def _write(self, connection: _Connection, number: int, request: WriteRequest) -> None:
        place = connection.stream.there
        try:
            answer = Answered(number, path=self._store.perform(request, connection.session))
        except ZnodeError as error:
            answer = _failed(number, error)
        if place in self._answers_to_lose:
            self._answers_to_lose.discard(place)
            self._closed(connection)
            connection.stream.reset("the answer is lost")
        else:
            connection.send(answer, is_new=True)

    def _read(self, connection: _Connection, number: int, request: ReadZnode | ReadChildren) -> None:
        path, znodes = request.path, self._store.znodes
        try:
            stored = stored_at(znodes if connection.seen is None else connection.seen, path)
        except ZnodeError as error:
            connection.send(_failed(number, error), is_new=False)
            return
        if isinstance(request, ReadChildren):
            watches = self._child_watches
            connection.send(Answered(number, children=tuple(sorted(stored.children))), is_new=False)
        else:
            watches = self._data_watches
            connection.send(Answered(number, znode=stored.znode), is_new=False)
            if not request.is_watched:
                return
        if znodes.get(path) == stored:
            watches[path][connection] = None
        else:  # its reads lag, and the change that it waits for has happened
            connection.send(Changed(path), is_new=True)

    def _changed(self, path: str, came_or_went: bool) -> None:  # noqa: FBT001 - it is the store that calls
        self._trigger(self._data_watches, path)
        if came_or_went:
            self._trigger(self._child_watches, path)
            self._trigger(self._child_watches, path.rpartition("/")[0])

    def _trigger(self, watches: defaultdict[str, dict[_Connection, None]], path: str) -> None:
        for connection in watches.pop(path, ()):
            connection.send(Changed(path), is_new=True)


def _catch_up(connection: _Connection) -> None:
    """The reads of a host lag no longer, and it hears of all that it has missed."""
    held_back, connection.held_back, connection.seen = connection.held_back, [], None
    for message in held_back:
        connection.send(message, is_new=False)


def _failed(number: int, error: ZnodeError) -> Answered:
    return Answered(number, path=str(error), error=type(error).__name__)
