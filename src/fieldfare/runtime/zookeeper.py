"""Coordination by ZooKeeper on asyncio: kazoo, in threads of its own, performs the requests of a broker's membership.

All decisions are made in the event loop (`fieldfare.coordination.zookeeper`); kazoo's threads only carry requests and
answers. kazoo repeats nothing here: its own retries would repeat a write in another session.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kazoo import exceptions
from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from fieldfare.coordination.zookeeper import MemberOptions, Tree, ZooKeeperMember, ZooKeeperPort
from fieldfare.coordination.zookeeper.znodes import (
    Answer,
    AnyRequest,
    CheckZnode,
    CreateZnode,
    InterruptedRequestError,
    NoZnodeError,
    ReadChildren,
    ReadZnode,
    RefusedRequestError,
    RemoveZnode,
    Transaction,
    WriteZnode,
    Znode,
    ZnodeError,
    ZnodeExistsError,
    ZnodeNotEmptyError,
    ZnodeVersionError,
)
from fieldfare.errors import ConfigError
from fieldfare.messages import Effect, Input
from fieldfare.runtime.host import Capability, Host

_log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger(f"{__name__}.kazoo")
_kazoo_log.setLevel(logging.ERROR)  # it would tell of every attempt to connect
_STOP_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """Which ZooKeeper is used, and how."""

    hosts: str  # HOST:PORT,HOST:PORT…, with /PATH at the end if all is to stand below a path
    user: str | None = None  # with a password: only who has both can read or write what is created
    password: str | None = field(default=None, repr=False)
    session_seconds: float = 10.0  # a broker that is not heard of for so long counts as gone
    connect_seconds: float = 10.0  # for commands, which do not wait for ever
    member: MemberOptions = field(default_factory=MemberOptions)

    @property
    def tree(self) -> Tree:
        """Where things stand."""
        root = self.hosts.partition("/")[2].strip("/")
        try:
            return Tree(f"/{root}" if root else "")
        except ValueError as error:
            raise ConfigError(f"zookeeper: {error}") from error

    def client(self) -> KazooClient:
        """A client that is not connected yet, and that never repeats a request."""
        if (self.user is None) != (self.password is None):
            raise ConfigError("zookeeper: a user and a password belong together")
        acl = None if self.user is None else [make_digest_acl(self.user, self.password, all=True)]
        try:
            return KazooClient(
                hosts=self.hosts.partition("/")[0],
                timeout=self.session_seconds,
                default_acl=acl,
                auth_data=None if self.user is None else [("digest", f"{self.user}:{self.password}")],
                connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
                command_retry=KazooRetry(max_tries=0),
                logger=_kazoo_log,
            )
        except ValueError as error:
            raise ConfigError(f"zookeeper: {self.hosts!r} does not name servers as HOST:PORT: {error}") from error


class ZooKeeperWork(Protocol):
    """What a broker does at ZooKeeper: a ZooKeeperMember, or another one in experiments."""

    def performers(self) -> Mapping[type[Effect], Callable[[Any], None]]:
        """The functions that perform a node's effects, by type."""
        ...

    def connected(self, session: int) -> None:
        """There is a connection, in a session that is new, or the same as before."""
        ...

    def suspended(self) -> None:
        """The connection is lost."""
        ...

    def changed(self, path: str) -> None:
        """A watch was triggered."""
        ...

    def waits(self) -> list[str]:
        """What is not done."""
        ...


class ZooKeeper(Capability):
    """Performs what a node asks of coordination. The node runs, whether or not ZooKeeper can be reached."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        make_member: Callable[[ZooKeeperPort, Tree, MemberOptions], ZooKeeperWork] = ZooKeeperMember,
    ) -> None:
        self.problem: str | None = "it has not been reached yet"  # what is wrong with the connection, for people
        self._client = options.client()
        self._member = make_member(self, options.tree, options.member)
        self._is_over = False

    def install(self, host: Host) -> None:
        """Perform Announce, CountEndpoints, OfferTopic and AssignTopic, or what another `make_member` performs."""
        self._host = host
        for effect, performer in self._member.performers().items():
            host.kernel.provide(effect, performer)

    async def start(self) -> None:
        """Begin to connect."""
        self._client.add_listener(self._state_changed)
        await asyncio.to_thread(self._client.start_async)

    async def stop(self) -> None:
        """Leave: the session ends, and the others see this broker go."""
        self._is_over = True
        loop, has_stopped = self._host.loop, asyncio.Event()

        def stop() -> None:
            with suppress(KazooException):  # a server that does not answer will see the session expire
                self._client.stop()
                self._client.close()
            with suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(has_stopped.set)

        threading.Thread(target=stop, daemon=True, name="fieldfare-zookeeper-stop").start()
        with suppress(TimeoutError):
            await asyncio.wait_for(has_stopped.wait(), _STOP_SECONDS)

    def waits(self) -> list[str]:
        """What is not done."""
        return self._member.waits()

    # The port of the membership

    def submit(self, request: AnyRequest, then: Callable[[Answer], None]) -> None:
        """Give a request to kazoo."""
        result = perform(self._client, request, self._watched)
        result.rawlink(lambda done: self._in_loop(then, answer_of(request, done)))

    def tell(self, message: Input) -> None:
        """Tell the node."""
        self._host.tell(message)

    def later(self, seconds: float, action: Callable[[], None]) -> object:
        """Do something after a time."""
        return self._host.loop.call_later(seconds, action)

    def report(self, problem: str) -> None:
        """Tell people, once for each problem in a row."""
        if problem != self.problem:
            self.problem = problem
            _log.error("ZooKeeper: %s", problem)

    # In kazoo's threads

    def _in_loop(self, action: Callable[..., None], *arguments: object) -> None:
        if not self._is_over:
            with suppress(RuntimeError):  # the loop has ended
                self._host.loop.call_soon_threadsafe(self._unless_over, action, *arguments)

    def _unless_over(self, action: Callable[..., None], *arguments: object) -> None:
        if not self._is_over:
            action(*arguments)

    def _watched(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # that one tells of the connection, as `_state_changed` does
            self._in_loop(self._member.changed, event.path)

    def _state_changed(self, state: str) -> None:
        client_id = self._client.client_id
        if state == KazooState.CONNECTED and client_id is not None:
            self._in_loop(self._connected, client_id[0])
        else:
            self._in_loop(self._suspended)

    # In the event loop

    def _connected(self, session: int) -> None:
        self.problem = None
        _log.info("ZooKeeper is connected, session %x", session)
        self._member.connected(session)

    def _suspended(self) -> None:
        self.problem = "the connection is lost"
        _log.warning("the connection to ZooKeeper is lost")
        self._member.suspended()


def perform(client: KazooClient, request: AnyRequest, watch: Callable[[WatchedEvent], None]) -> Any:
    """Begin a request; returns kazoo's result, which is there later."""
    match request:
        case ReadZnode(path, is_watched):
            return client.get_async(path, watch=watch if is_watched else None)
        case ReadChildren(path):
            return client.get_children_async(path, watch=watch)
        case CreateZnode(path, data, is_ephemeral, is_sequential):
            return client.create_async(path, data, ephemeral=is_ephemeral, sequence=is_sequential)
        case WriteZnode(path, data, version):
            return client.set_async(path, data, version)
        case RemoveZnode(path, version):
            return client.delete_async(path, version)
        case Transaction(requests):
            transaction = client.transaction()
            for each in requests:
                _add(transaction, each)
            return transaction.commit_async()


def _add(transaction: TransactionRequest, request: CreateZnode | WriteZnode | RemoveZnode | CheckZnode) -> None:
    match request:
        case CreateZnode(path, data, is_ephemeral, is_sequential):
            transaction.create(path, data, ephemeral=is_ephemeral, sequence=is_sequential)
        case WriteZnode(path, data, version):
            transaction.set_data(path, data, version)
        case RemoveZnode(path, version):
            transaction.delete(path, version)
        case CheckZnode(path, version):
            transaction.check(path, version)


def answer_of(request: AnyRequest, result: Any) -> Answer:
    """What kazoo's result means: the answer to a request, or a ZnodeError."""
    if result.exception is not None:
        return znode_error(result.exception)
    value = result.value
    match request:
        case ReadZnode():
            data, stat = value
            return Znode(data, stat.version, stat.mzxid, stat.ephemeralOwner or 0)
        case ReadChildren():
            return tuple(value)
        case Transaction():
            errors = [each for each in value if isinstance(each, Exception)]
            causes = [each for each in errors if not isinstance(each, _ROLLED_BACK)]
            return znode_error((causes or errors)[0]) if errors else None
        case CreateZnode():
            return value
    return None


_ROLLED_BACK = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
_ERRORS: dict[type[Exception], type[ZnodeError]] = {
    exceptions.NoNodeError: NoZnodeError,
    exceptions.NodeExistsError: ZnodeExistsError,
    exceptions.BadVersionError: ZnodeVersionError,
    exceptions.NotEmptyError: ZnodeNotEmptyError,
    exceptions.ConnectionLoss: InterruptedRequestError,
    exceptions.ConnectionClosedError: InterruptedRequestError,
    exceptions.SessionExpiredError: InterruptedRequestError,
    exceptions.SessionMovedError: InterruptedRequestError,
    exceptions.OperationTimeoutError: InterruptedRequestError,
}


def znode_error(error: BaseException) -> ZnodeError:
    """The error of ours that stands for one of kazoo's."""
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(str(error) or kind.__name__)
    return RefusedRequestError(str(error) or type(error).__name__)
