"""A peer in a program: it joins other peers, and all of them together find who wants an event. No server is needed.

    async with fieldfare.peer(join="192.0.2.7:7400", listen="192.0.2.8:7400", secret=secret) as peer:
        await peer.subscribe("traffic", "speed < 25", print)  # in force when it returns
        await peer.publish("traffic", {"road": "A10", "speed": 12})  # all who want it have it when it returns

Names and shapes are those of a broker's client (`fieldfare.connect`), as far as peers can keep them.
"""

from __future__ import annotations

import asyncio
import random
import re
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import msgspec

from fieldfare.client import wire
from fieldfare.client.events import Event
from fieldfare.dmm.peer import DmmPeer, LoggingDmmPeer
from fieldfare.dmm.peer_messages import PeerPublish, PeerSubscribe
from fieldfare.errors import (
    ConditionError,
    ConfigError,
    EventError,
    NotConnectedError,
    RefusedError,
    UnauthenticatedError,
)
from fieldfare.events import UnreadableError, event_attributes
from fieldfare.language import compile  # noqa: A004 - see there
from fieldfare.matching.rows import check_event
from fieldfare.messages import EVENT_BYTES_MAX, EVENTS_MAX, Name, Notice, Withdraw
from fieldfare.messages.wording import NAME_RULE
from fieldfare.pastry.node import Entry, node_for
from fieldfare.qos import Published, Reliability, Requested
from fieldfare.runtime.host import Host
from fieldfare.runtime.log_thread import LogThread
from fieldfare.runtime.peers.admission import admitted_group
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.outcome import Outcome, together
from fieldfare.runtime.peers.peer_folder import PeerFolder
from fieldfare.runtime.peers.peer_socket import bound, reachable_address, resolved, seed_texts
from fieldfare.runtime.peers.program import PeerProgram, Publication
from fieldfare.runtime.peers.qos_words import DEFAULT, check_published, check_requested
from fieldfare.runtime.peers.status import PeerStatus, status_of
from fieldfare.runtime.peers.strangers import PeerDatagrams
from fieldfare.runtime.peers.subscription import PeerSubscription, WaitingBound

T = TypeVar("T")
Attributes = dict[str, Any]

CONDITION_CHARACTERS_MAX = 1_000  # tables of many conditions travel between peers in one message
_DEFAULTS = PeerOptions()
_GOODBYE_SECONDS = 1.0  # for others to confirm that they know; who does not, finds out
_LEFT = "this peer has left the ring"
_DURABLE = "durable "  # the refs of durable subscriptions begin so, and go on with their names
_attributes = msgspec.json.Decoder(Attributes)


def peer(
    join: str | Sequence[str] | None = None,
    *,
    listen: str = "127.0.0.1:0",
    secret: str | bytes | None = None,
    name: str | None = None,
    folder: str | Path | None = None,
    options: PeerOptions = _DEFAULTS,
) -> Peer:
    """A peer, to be entered with `async with`; inside, it is on the ring.

    `join` names members, as HOST:PORT; without any, this peer is the first of a ring. It listens for UDP at `listen`.
    All peers of a ring share a `secret`, which only peers on loopback can do without. A `name` is unique on the ring;
    without one, it is made up. With a `folder`, what the peer has accepted and what it wants survive a restart.
    """
    return Peer(
        seed_texts(join),
        listen=listen,
        secret=secret,
        name=name,
        folder=None if folder is None else Path(folder),
        options=options,
    )


def made_up_name() -> str:
    """A name that no other peer has, not even on the same machine."""
    return f"{re.sub('[^A-Za-z0-9]', '-', socket.gethostname()).strip('-') or 'peer'}-{secrets.token_hex(4)}"


class Peer:
    """One peer, on the ring from `async with` on. What it published is delivered only while it is there."""

    def __init__(
        self,
        seeds: tuple[str, ...],
        *,
        listen: str,
        secret: str | bytes | None,
        name: str | None,
        folder: Path | None,
        options: PeerOptions,
    ) -> None:
        if name is not None:
            _check_name("name", name)
        for topic in options.schemes:
            _check_name("topic", topic)
        self.name, self.options = name or "", options
        self.address = ""  # where others reach it, once it is entered
        self._seeds, self._listen, self._secret = seeds, listen, secret
        self._folder = None if folder is None else PeerFolder(folder)
        self._schemes = options.schemes
        self._program = PeerProgram(options)
        self._dmm = (DmmPeer if folder is None else LoggingDmmPeer)(options.dmm, self._schemes)
        self._round_ended = asyncio.Event()  # of the node
        self._is_open = False

    # Coming and going

    async def __aenter__(self) -> Self:
        seeds = await resolved(self._seeds)
        async with AsyncExitStack() as stack:
            opened = bound(self._listen)
            stack.callback(opened.close)
            self.address = reachable_address(opened, self.options.advertise, seeds)
            group = admitted_group(self._secret, (self.address, *seeds))
            log = self._open_folder(stack)
            entry = Entry(self.name, group, self.address, seeds)
            self._node = node_for(entry, self._dmm, random.SystemRandom(), self.options.pastry)
            codec = group.codec()
            self._udp = PeerDatagrams(codec.encode_line, codec.decode_packet, opened)
            self._host = Host(self._node, *log, self._udp, self._program)
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
        self.name, journal = self._folder.open(self.name or None, made_up_name())
        return (LogThread(journal),)

    async def _join(self, seeds: tuple[str, ...]) -> None:
        try:
            async with asyncio.timeout(self.options.join_seconds):
                await self._until(lambda: self._dmm.is_ready)
        except TimeoutError:
            raise self._not_let_in(seeds) from None

    def _not_let_in(self, seeds: tuple[str, ...]) -> NotConnectedError | UnauthenticatedError:
        asked, seconds = ", ".join(seeds), self.options.join_seconds
        if strangers := sorted(self._udp.strangers & set(seeds)):
            return UnauthenticatedError(
                f"the peer at {', '.join(strangers)} has another secret: all peers of a ring need the same"
            )
        if self._node.is_joined:
            return NotConnectedError(
                f"the peers around this one did not tell within {seconds:g} s what it has to keep: try again"
            )
        return NotConnectedError(
            f"nobody let this peer in within {seconds:g} s (asked: {asked}). Is a peer running there, can UDP "
            f"pass both ways, and can others reach this one at {self.address}?"
        )

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
            await subscription.unsubscribe() if not subscription.request.is_durable else subscription.end(None)
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
        if calling:
            _, late = await asyncio.wait(calling, timeout=self.options.leave_seconds if is_patient else 0.0)
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

    async def publish_soon(self, topic: str, events: Any, *, qos: Published | None = None) -> asyncio.Future[Outcome]:
        """Publish, but wait only while too many publications are unsettled; the future has the final outcome."""
        publications = await self._publish(topic, events, qos or Published())
        return asyncio.ensure_future(_all([each.outcome for each in publications]))

    async def _publish(self, topic: str, events: Any, qos: Published) -> list[Publication]:
        self._check_open()
        _check_name("topic", topic, is_setting=False)
        check_published(self._reliability(topic), self.options.lifespan_seconds_max, qos)
        lines = _checked_lines(events if isinstance(events, (list, tuple)) else [events])
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
        that live long enough wait for the program to subscribe by this name again.
        """
        self._check_open()
        _check_name("topic", topic, is_setting=False)
        check_requested(self._reliability(topic), qos)
        _check_condition(condition)
        subscription = PeerSubscription(
            PeerSubscribe(self._subscription_ref(name), topic, condition, is_durable=name is not None),
            _attributes if type is None else msgspec.json.Decoder(type),
            bound=WaitingBound(qos.keep_last or self.options.waiting_max, is_wanted=qos.keep_last is not None),
            on_event=on_event,
            on_notice=on_notice,
            on_end=self._program.unsubscribe,
        )
        self._program.subscribe(subscription)
        return subscription

    def _subscription_ref(self, name: str | None) -> str:
        if name is None:
            return self._program.next_ref()
        _check_name("name", name, is_setting=False)
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


async def _all(outcomes: Sequence[asyncio.Future[Outcome]]) -> Outcome:
    return together(await asyncio.gather(*outcomes))


def _check_name(what: str, name: str, *, is_setting: bool = True) -> None:
    try:
        msgspec.convert(name, Name)
    except msgspec.ValidationError as error:
        reason = f"{what} {name!r}: {NAME_RULE}"
        raise (ConfigError(reason) if is_setting else RefusedError("invalid", reason)) from error


def _check_condition(condition: str) -> None:
    if len(condition) > CONDITION_CHARACTERS_MAX:
        raise RefusedError(
            "condition",
            f"a condition at a peer has at most {CONDITION_CHARACTERS_MAX:,} characters, not {len(condition):,}: "
            "split it into several subscriptions",
        )
    try:
        compile(condition)
    except ConditionError as error:
        raise RefusedError("condition", str(error)) from error


def _checked_lines(events: Sequence[Any]) -> list[bytes]:
    """Events as JSON; a RefusedError if one of them is not sound, and none is published then."""
    if not 1 <= len(events) <= EVENTS_MAX:
        raise RefusedError("invalid", f"a publication has 1 to {EVENTS_MAX:,} events, not {len(events):,}: divide it")
    lines = [bytes(wire.raw(event)) for event in events]
    for line in lines:
        if len(line) > EVENT_BYTES_MAX:
            raise RefusedError("invalid", f"an event has {len(line):,} bytes, but {EVENT_BYTES_MAX:,} are the most")
        try:
            check_event(event_attributes(line))
        except (EventError, UnreadableError) as error:
            raise RefusedError("invalid", f"an event cannot be matched: {error}") from error
    return lines
