"""A peer in a program: it joins other peers, and all of them together find who wants an event. No server is needed.

    async with fieldfare.peer(join="192.0.2.7:7400", listen="192.0.2.8:7400", secret=secret) as peer:
        await peer.subscribe("traffic", "speed < 25", print)  # in force when it returns
        await peer.publish("traffic", {"road": "A10", "speed": 12})  # all who want it have it when it returns

Names and shapes are those of a broker's client (`fieldfare.connect`), as far as peers can keep them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import msgspec

from fieldfare.client.events import Event
from fieldfare.dmm.peer import DmmPeer, LoggingDmmPeer
from fieldfare.dmm.peer_messages import PeerPublish, PeerSubscribe
from fieldfare.errors import NotConnectedError, RefusedError
from fieldfare.messages import Notice, Withdraw
from fieldfare.pastry.node import NodeStart, node_for
from fieldfare.qos import Published, Reliability, Requested
from fieldfare.runtime.host import Host
from fieldfare.runtime.log_thread import LogThread
from fieldfare.runtime.peers.admission import Credentials, admission_by, not_let_in, unguessable_numbers
from fieldfare.runtime.peers.checking import check_condition, check_name, checked_lines
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.outcome import Outcome, final_outcome, together
from fieldfare.runtime.peers.peer_folder import PeerFolder, made_up_name
from fieldfare.runtime.peers.peer_socket import bound, reachable_address, resolved, seed_texts
from fieldfare.runtime.peers.program import PeerProgram, Publication
from fieldfare.runtime.peers.qos_words import DEFAULT, check_published, check_requested
from fieldfare.runtime.peers.status import PeerStatus, status_of
from fieldfare.runtime.peers.strangers import PeerDatagrams
from fieldfare.runtime.peers.subscription import PeerSubscription, WaitingBound

if TYPE_CHECKING:
    from fieldfare.pastry.certificates import PeerFiles

T = TypeVar("T")
Attributes = dict[str, Any]

_DEFAULTS = PeerOptions()
_GOODBYE_SECONDS = 1.0  # for others to confirm that they know; who does not, finds out
_LEFT = "this peer has left the ring"
_DURABLE = "durable "  # the refs of durable subscriptions begin so, and go on with their names
_attributes = msgspec.json.Decoder(Attributes)


def peer(  # noqa: PLR0913 - where, who and what it keeps, each a word of its own
    join: str | Sequence[str] | None = None,
    *,
    listen: str = "127.0.0.1:0",
    secret: str | bytes | None = None,
    certificate: PeerFiles | None = None,
    name: str | None = None,
    folder: str | Path | None = None,
    options: PeerOptions = _DEFAULTS,
) -> Peer:
    """A peer, to be entered with `async with`; inside, it is on the ring.

    `join` names members, as HOST:PORT; without any, this peer is the first of a ring. It listens for UDP at `listen`.
    All peers of a ring share a `secret`, or each has a `certificate` of one authority; only peers on loopback can do
    without. A `name` is unique on the ring; without one, it is made up, and a certificate says it itself. With a
    `folder`, what the peer has accepted and what it wants survive a restart.
    """
    return Peer(
        seed_texts(join),
        Credentials(secret, certificate),
        listen=listen,
        name=name,
        folder=None if folder is None else Path(folder),
        options=options,
    )


class Peer:
    """One peer, on the ring from `async with` on. What it published is delivered while it is there, or comes back."""

    def __init__(
        self,
        seeds: tuple[str, ...],
        proof: Credentials,
        *,
        listen: str,
        name: str | None,
        folder: Path | None,
        options: PeerOptions,
    ) -> None:
        if name is not None:
            check_name("name", name)
        for topic in options.schemes:
            check_name("topic", topic)
        self.name, self.options = name or "", options
        self.address = ""  # where others reach it, once it is entered
        self._seeds, self._proof, self._listen = seeds, proof, listen
        self._folder = None if folder is None else PeerFolder(folder)
        self._schemes = options.schemes
        self._program = PeerProgram(options)
        self._dmm = (DmmPeer if folder is None else LoggingDmmPeer)(options.dmm, self._schemes, unguessable_numbers())
        self._round_ended = asyncio.Event()  # of the node
        self._is_open = False

    @property
    def has_folder(self) -> bool:
        """Whether what it accepts and wants survives a restart."""
        return self._folder is not None

    # Coming and going

    async def __aenter__(self) -> Self:
        seeds = await resolved(self._seeds)
        async with AsyncExitStack() as stack:
            opened = bound(self._listen)
            stack.callback(opened.close)
            self.address = reachable_address(opened, self.options.advertise, seeds)
            admission = admission_by(self._proof, self.name, (self.address, *seeds))
            self.name = admission.name
            log = self._open_folder(stack)
            start = NodeStart(self.name, admission.group, self.address, seeds)
            self._node = node_for(start, self._dmm, random.SystemRandom(), self.options.pastry)
            self._udp = PeerDatagrams(admission.encode, admission.decode, opened)
            self._host = Host(admission.proving(self._node), *log, self._udp, self._program)
            self._host.kernel.at_round_end(self._round_ended.set)
            await self._host.start()
            stack.push_async_callback(self._host.stop)
            await self._join(seeds)
            self._closing = stack.pop_all()
        self._is_open = True
        return self

    def _open_folder(self, stack: AsyncExitStack) -> tuple[LogThread, ...]:
        if self._folder is None:
            self.name = self.name or made_up_name()
            return ()
        stack.callback(self._folder.close)
        self.name, journal = self._folder.open(self.name or None)
        return (LogThread(journal),)

    async def _join(self, seeds: tuple[str, ...]) -> None:
        try:
            async with asyncio.timeout(self.options.join_seconds):
                await self._until(lambda: self._dmm.is_ready)
        except TimeoutError:
            strangers, seconds = self._udp.strangers & set(seeds), self.options.join_seconds
            is_joined = self._node.is_joined
            raise not_let_in(self._proof, self.address, seeds, strangers, seconds, is_joined=is_joined) from None

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of the node, which is looked at after each of its rounds."""
        while not holds():
            self._round_ended.clear()
            await self._round_ended.wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave(is_patient=error is None)

    async def leave(self, *, is_patient: bool = True) -> None:
        """Say goodbye. A patient peer first tries, for a while, to bring what it published to all who want it.

        Durable subscriptions stay in the folder. The others end.
        """
        if not self._is_open:
            return
        self._is_open = False
        calling = [each.calling for each in self._program.subscriptions if each.calling is not None]
        for subscription in self._program.subscriptions:
            if subscription.request.is_durable:
                subscription.detach()
            else:
                await subscription.unsubscribe()
        await self._end_callbacks(calling, self.options.leave_seconds if is_patient else 0.0)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.options.leave_seconds if is_patient else 0.0):
                await self._program.all_settled()
                await self._until(lambda: not len(self._dmm.requests))
        self._host.tell(Withdraw())
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._until(lambda: not self._host.kernel.has_inputs and not len(self._node.courier))
        self._program.close(_LEFT)
        await self._closing.aclose()

    @staticmethod
    async def _end_callbacks(calling: Sequence[asyncio.Task[None]], seconds: float) -> None:
        """Let callbacks come to their end, for a while."""
        own = asyncio.current_task()
        others = [task for task in calling if task is not own]  # a callback may let its peer leave
        if others:
            _, late = await asyncio.wait(others, timeout=seconds)
            for task in late:
                task.cancel()

    def status(self) -> PeerStatus:
        """How the peer sees itself: its neighbours, its regions, its load."""
        return status_of(self._node, self._dmm, self._udp, self._program)

    # Publishing

    async def publish(
        self,
        topic: str,
        events: Any,
        *,
        until: Literal["settled", "accepted"] = "settled",
        qos: Published | None = None,
    ) -> Outcome:
        """Publish an event, or a list of events; return when all peers that want them have them.

        If that takes longer than `options.settle_seconds`, because a peer does not answer, it returns all the same:
        the outcome says which peers are outstanding. They are tried until the events' lifespan is over, as long as
        this peer is there. With `until="accepted"` it returns when this peer has the events, in its folder if it has
        one. Events are what `Client.publish` takes.
        """
        publications = await self._publish(topic, events, qos or Published())
        await asyncio.gather(*(each.accepted for each in publications))
        if until == "settled":
            await asyncio.wait([each.outcome for each in publications], timeout=self.options.settle_seconds)
        return together([self._outcome_now(each) for each in publications])

    def _outcome_now(self, publication: Publication) -> Outcome:
        if publication.outcome.done():
            return publication.outcome.result()
        outstanding, is_stored = self._dmm.publishing.outstanding(publication.ref), publication.is_stored
        return Outcome(0, (), outstanding, is_settled=False, is_stored=is_stored, is_vouched=bool(outstanding))

    @property
    def outstanding(self) -> tuple[str, ...]:
        """Peers that have not confirmed something that this one published, and that still lives."""
        return self._dmm.publishing.outstanding() if self._is_open else ()

    async def publish_soon(
        self,
        topic: str,
        events: Any,
        *,
        on_accepted: Callable[[], object] | None = None,
        qos: Published | None = None,
    ) -> asyncio.Future[Outcome]:
        """Publish, but wait only while too many publications are unsettled; the future has the final outcome.

        `on_accepted` is called when this peer has the events, in its folder if it has one.
        """
        publications = await self._publish(topic, events, qos or Published())
        if on_accepted is not None:
            accepted = asyncio.gather(*(each.accepted for each in publications))
            accepted.add_done_callback(partial(_call_unless_failed, on_accepted))
        outcome = asyncio.ensure_future(final_outcome([each.outcome for each in publications]))
        outcome.add_done_callback(_look_at)
        return outcome

    async def _publish(self, topic: str, events: Any, qos: Published) -> list[Publication]:
        self._check_open()
        check_name("topic", topic, is_setting=False)
        check_published(self._reliability(topic), self.options.lifespan_seconds_max, qos)
        lines = checked_lines(events if isinstance(events, (list, tuple)) else [events])
        lifespan_seconds = qos.lifespan_seconds or self.options.lifespan_seconds
        publications: list[Publication] = []
        for line in lines:
            await self._program.room_to_publish()
            message = PeerPublish(self._program.next_ref(), topic, line, lifespan_seconds)
            publications.append(self._program.publish(message))
        return publications

    # Subscribing

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        on_event: Callable[[Event[Attributes]], Any] | None = ...,
        *,
        name: str | None = ...,
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
    ) -> PeerSubscription[Attributes]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        on_event: Callable[[Event[T]], Any] | None = ...,
        *,
        type: type[T],
        name: str | None = ...,
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
    ) -> PeerSubscription[T]: ...

    def subscribe(  # noqa: PLR0913 - the client's, and a callback
        self,
        topic: str,
        condition: str,
        on_event: Callable[[Event[Any]], Any] | None = None,
        *,
        type: Any = None,  # noqa: A002 - as msgspec calls it
        name: str | None = None,
        qos: Requested = DEFAULT,
        on_notice: Callable[[Notice], object] | None = None,
    ) -> PeerSubscription[Any]:
        """Subscribe to the events of a topic that satisfy a condition: iterate over the result, or give a callback.

        Await the result: from then on every such event comes. A callback is a function or a coroutine; if it fails,
        that is logged, and it is called for the next event. With a `type`, a msgspec.Struct or a dataclass, the events'
        attributes are of that type. `on_notice` is called when events had to be dropped.

        With a `name`, for which the peer needs a folder, it is durable: it survives a restart of the peer, and events
        that live long enough wait for the program to subscribe by this name again. An event counts as taken when the
        program asks for the next one, or its callback has returned; if the program stops before, it comes again.
        """
        self._check_open()
        check_name("topic", topic, is_setting=False)
        check_requested(self._reliability(topic), qos)
        check_condition(condition)
        is_durable, events_max = name is not None, qos.keep_last
        if not is_durable and events_max is None:
            events_max = self.options.waiting_max
        subscription = PeerSubscription(
            PeerSubscribe(
                self._subscription_ref(name), topic, condition, is_durable=is_durable, is_taken_by_program=is_durable
            ),
            _attributes if type is None else msgspec.json.Decoder(type),
            bound=WaitingBound(events_max, is_wanted=qos.keep_last is not None),
            on_event=on_event,
            on_notice=on_notice,
            owner=self._program,
        )
        self._program.subscribe(subscription)
        return subscription

    def _subscription_ref(self, name: str | None) -> str:
        if name is None:
            return self._program.next_ref()
        check_name("name", name, is_setting=False)
        if self._folder is None:
            raise RefusedError("invalid", f"subscription {name!r}: a durable one needs a peer that has a folder")
        return f"{_DURABLE}{name}"

    async def unsubscribe(self, subscription: PeerSubscription[Any]) -> None:
        """End a subscription of this peer."""
        await subscription.unsubscribe()

    def _reliability(self, topic: str) -> Reliability:
        scheme = self._schemes.get(topic)
        return "reliable" if scheme is None or scheme.is_reliable else "best_effort"

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotConnectedError("this peer is not on the ring: use it inside of `async with`")


def _look_at(future: asyncio.Future[Any]) -> None:
    """A program need not look at an outcome, and is not warned if it does not."""
    if not future.cancelled():
        future.exception()


def _call_unless_failed(function: Callable[[], object], future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        function()
