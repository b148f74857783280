"""The connection of a simulated host to the simulated ZooKeeper, from the host's start to its crash."""

from __future__ import annotations

from collections.abc import Callable

from fieldfare.coordination.zookeeper import MemberOptions, Tree, ZooKeeperMember
from fieldfare.coordination.zookeeper.znodes import Answer, AnyRequest, InterruptedRequestError
from fieldfare.messages import Input
from fieldfare.simulation.host import SimulatedHost
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream
from fieldfare.simulation.zookeeper_wire import (
    Answered,
    Asked,
    Changed,
    KeepAlive,
    OpenSession,
    SessionOpened,
    ToService,
    decode_to_host,
    encode,
)

_RECONNECT_SECONDS = 0.2
_PAUSED_SECONDS = 0.05  # from one look at a host that is paused to the next


class SimulatedMember:
    """One life of a host, as a member in ZooKeeper. It is the port of its membership."""

    def __init__(
        self, host: SimulatedHost, network: Network, service: str, session_seconds: float, options: MemberOptions
    ) -> None:
        self.problems: list[str] = []
        self.membership = ZooKeeperMember(self, Tree(), options)
        self._host, self._network, self._service = host, network, service
        self._session_seconds = session_seconds
        self._session = 0
        self._stream: Stream | None = None
        self._is_connected = False
        self._asked: dict[int, Callable[[Answer], None]] = {}
        self._numbers = 0
        self._heard_at = 0.0
        self._lives = False
        self._mark_alive = host.in_this_life(self._mark)
        self._connect()

    def is_alive(self) -> bool:
        """Whether the host still lives the life in which this began."""
        self._lives = False
        self._mark_alive()
        return self._lives

    def _mark(self) -> None:
        self._lives = True

    # The port of the membership

    def submit(self, request: AnyRequest, then: Callable[[Answer], None]) -> None:
        """Send a request; without a connection nothing can be said of it."""
        if self._stream is None or not self._is_connected:
            self.later(0.0, lambda: then(InterruptedRequestError("there is no connection")))
            return
        self._numbers += 1
        self._asked[self._numbers] = then
        self._send(Asked(self._numbers, request))

    def tell(self, message: Input) -> None:
        """Tell the node."""
        self._host.tell(message)

    def later(self, seconds: float, action: Callable[[], None]) -> object:
        """Do something after a time, in this life; if the host is paused then, when it goes on."""

        def act() -> None:
            if self._is_paused:
                self._host.later(_PAUSED_SECONDS, act)
            else:
                action()

        return self._host.later(seconds, act)

    @property
    def _is_paused(self) -> bool:
        return getattr(self._host, "is_paused", False)

    def report(self, problem: str) -> None:
        """Note it."""
        self.problems.append(problem)

    # The connection

    def _connect(self) -> None:
        self._network.connect(self._host.name, self._service, self._opened, lambda _: self._connect_again())

    def _connect_again(self) -> None:
        self.later(_RECONNECT_SECONDS * (0.5 + self._host.rng.random()), self._connect)

    def _opened(self, stream: Stream) -> None:
        if not self.is_alive():
            stream.abandon()
        elif self._is_paused:
            self.later(_PAUSED_SECONDS, lambda: self._opened(stream))
        elif not stream.is_open:
            self._connect_again()
        else:
            self._begin(stream)

    def _begin(self, stream: Stream) -> None:
        self._stream = stream
        self._heard_at = self._host.clock.now
        stream.on_message = self._host.in_this_life(self._received)
        stream.on_close = self._host.in_this_life(lambda _: self._closed())
        self._send(OpenSession(self._session))
        self.later(self._session_seconds / 3, lambda: self._keep_alive(stream))

    def _keep_alive(self, stream: Stream) -> None:
        """Be heard of, and notice when nothing is heard any more."""
        if stream is not self._stream:
            return
        if self._host.clock.now - self._heard_at > self._session_seconds * 2 / 3:
            stream.abandon()
            self._closed()
            return
        self._send(KeepAlive())
        self.later(self._session_seconds / 3, lambda: self._keep_alive(stream))

    def _send(self, message: ToService) -> None:
        if self._stream is not None:
            self._stream.send(encode(message))

    def _received(self, message: bytes) -> None:
        self._heard_at = self._host.clock.now
        match decode_to_host(message):
            case SessionOpened(0):  # the session has expired: begin another one
                self._session = 0
                self._send(OpenSession(0))
            case SessionOpened(session):
                self._session = session
                self._is_connected = True
                self.membership.connected(session)
            case Answered(number) as answered:
                self._asked.pop(number)(answered.answer)
            case Changed(path):
                self.membership.changed(path)

    def _closed(self) -> None:
        self._stream = None
        asked, self._asked = self._asked, {}
        if self._is_connected:
            self._is_connected = False
            self.membership.suspended()
        for then in asked.values():
            then(InterruptedRequestError("the connection is lost"))
        self._connect_again()
