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
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, overload

import msgspec

from fieldfare.client import wire
from fieldfare.client.events import Event
from fieldfare.dmm.peer import DmmPeer
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
from fieldfare.messages import EVENT_BYTES_MAX, EVENTS_MAX, Name, Notice, Text, Withdraw
from fieldfare.messages.wording import NAME_RULE, in_words
from fieldfare.pastry.node import Entry, PastryNode
from fieldfare.qos import Published, Reliability, Requested
from fieldfare.runtime.host import Host
from fieldfare.runtime.peers.admission import admitted_group
from fieldfare.runtime.peers.options import PeerOptions
from fieldfare.runtime.peers.outcome import Outcome, together
from fieldfare.runtime.peers.peer_socket import bound, reachable_address, resolved, seed_texts
from fieldfare.runtime.peers.program import PeerProgram
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
_attributes = msgspec.json.Decoder(Attributes)


def peer(
    join: str | Sequence[str] | None = None,
    *,
    listen: str = "127.0.0.1:0",
    secret: str | bytes | None = None,
    name: str | None = None,
    options: PeerOptions = _DEFAULTS,
) -> Peer:
    """A peer, to be entered with `async with`; inside, it is on the ring.

    `join` names members, as HOST:PORT; without any, this peer is the first of a ring. It listens for UDP at `listen`.
    All peers of a ring share a `secret`, which only peers on loopback can do without. A `name` is unique on the ring;
    without one, it is made up.
    """
    return Peer(seed_texts(join), listen=listen, secret=secret, name=name or made_up_name(), options=options)


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
        name: str,
        options: PeerOptions,
    ) -> None:
        _check_name("name", name)
        for topic in options.schemes:
            _check_name("topic", topic)
        self.name, self.options = name, options
        self.address = ""  # where others reach it, once it is entered
        self._seeds, self._listen, self._secret = seeds, listen, secret
        self._schemes = options.schemes
        self._program = PeerProgram(options)
        self._dmm = DmmPeer(options.dmm, self._schemes)
        self._round_ended = asyncio.Event()  # of the node
        self._is_open = False

    # Coming and going

    async def __aenter__(self) -> Self:
        seeds = await resolved(self._seeds)
        opened = bound(self._listen)
        try:
            self.address = reachable_address(opened, self.options.advertise, seeds)
            group = admitted_group(self._secret, (self.address, *seeds))
            self._node = PastryNode(
                Entry(self.name, group, self.address, seeds),
                self._dmm,
                random.SystemRandom(),
                self.options.pastry,
            )
            codec = group.codec()
            self._udp = PeerDatagrams(codec.encode_line, codec.decode_packet, opened)
            self._host = Host(self._node, self._udp, self._program)
            self._host.kernel.at_round_end(self._round_ended.set)
            await self._host.start()
        except BaseException:
            opened.close()
            raise
        try:
            await self._join(seeds)
        except BaseException:
            await self._host.stop()
            raise
        self._is_open = True
        return self

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
        """Say goodbye. A patient peer first tries, for a while, to bring what it published to all who want it."""
        if not self._is_open:
            return
        self._is_open = False
        calling = [each.calling for each in self._program.subscriptions if each.calling is not None]
        for subscription in self._program.subscriptions:
            await subscription.unsubscribe()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.options.leave_seconds if is_patient else 0.0):
                await self._program.all_settled()
                await self._until(lambda: not len(self._dmm.requests))
        self._host.tell(Withdraw())
        with suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._until(lambda: not self._host.kernel.has_inputs and not len(self._node.courier))
        self._program.close(_LEFT)
        await self._host.stop()
        if calling:
            _, late = await asyncio.wait(calling, timeout=self.options.leave_seconds if is_patient else 0.0)
            for task in late:
                task.cancel()

    def status(self) -> PeerStatus:
        """How the peer sees itself: its neighbours, its regions, its load."""
        return status_of(self._node, self._dmm, self._udp, self._program)

    # Publishing

    async def publish(
        self, topic: str, events: Any, *, ids: Sequence[str] | None = None, qos: Published | None = None
    ) -> Outcome:
        """Publish an event, or a list of events; return when all peers that want them have them.

        If that takes longer than `options.settle_seconds`, because a peer does not answer, it returns all the same:
        the outcome says which peers are outstanding. They are tried until the events' lifespan is over, as long as
        this peer is there. Events are what `Client.publish` takes. A peer that gets an id of the same publisher again
        knows it, for a while.
        """
        waiting = await self._publish(topic, events, ids, qos or Published())
        await asyncio.wait(waiting.values(), timeout=self.options.settle_seconds)
        return together([self._outcome_now(ref, future) for ref, future in waiting.items()])

    def _outcome_now(self, ref: str, future: asyncio.Future[Outcome]) -> Outcome:
        if future.done():
            return future.result()
        outstanding = self._dmm.publishing.outstanding(ref)
        return Outcome(0, outstanding=outstanding, is_settled=False, is_vouched=bool(outstanding))

    @property
    def outstanding(self) -> tuple[str, ...]:
        """Peers that have not confirmed something that this one published, and that still lives."""
        return self._dmm.publishing.outstanding() if self._is_open else ()

    async def publish_soon(
        self, topic: str, events: Any, *, ids: Sequence[str] | None = None, qos: Published | None = None
    ) -> asyncio.Future[Outcome]:
        """Publish, but wait only while too many publications are unsettled; the future has the final outcome."""
        waiting = await self._publish(topic, events, ids, qos or Published())
        return asyncio.ensure_future(_all(list(waiting.values())))

    async def _publish(
        self, topic: str, events: Any, ids: Sequence[str] | None, qos: Published
    ) -> dict[str, asyncio.Future[Outcome]]:
        self._check_open()
        _check_name("topic", topic, is_setting=False)
        check_published(self._reliability(topic), self.options.lifespan_seconds_max, qos)
        lines = _checked_lines(events if isinstance(events, (list, tuple)) else [events])
        given_ids = _checked_ids(ids, len(lines))
        lifespan_seconds = qos.lifespan_seconds or self.options.lifespan_seconds
        waiting: dict[str, asyncio.Future[Outcome]] = {}
        for line, given_id in zip(lines, given_ids, strict=True):
            await self._program.room_to_publish()
            ref = self._program.next_ref()
            waiting[ref] = self._program.publish(PeerPublish(ref, topic, line, lifespan_seconds, given_id))
        return waiting

    # Subscribing

    @overload
    def subscribe(
        self,
        topic: str,
        condition: str,
        on_event: Callable[[Event[Attributes]], Any] | None = ...,
        *,
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
        qos: Requested = ...,
        on_notice: Callable[[Notice], object] | None = ...,
    ) -> PeerSubscription[T]: ...

    def subscribe(
        self,
        topic: str,
        condition: str,
        on_event: Callable[[Event[Any]], Any] | None = None,
        *,
        type: Any = None,  # noqa: A002 - as msgspec calls it
        qos: Requested = DEFAULT,
        on_notice: Callable[[Notice], object] | None = None,
    ) -> PeerSubscription[Any]:
        """Subscribe to the events of a topic that satisfy a condition: iterate over the result, or give a callback.

        Await the result: from then on every such event comes. A callback is a function or a coroutine; if it fails,
        that is logged, and it is called for the next event. With a `type`, a msgspec.Struct or a dataclass, the events'
        attributes are of that type. `on_notice` is called when events had to be dropped.
        """
        self._check_open()
        _check_name("topic", topic, is_setting=False)
        check_requested(self._reliability(topic), qos)
        _check_condition(condition)
        subscription = PeerSubscription(
            PeerSubscribe(self._program.next_ref(), topic, condition),
            _attributes if type is None else msgspec.json.Decoder(type),
            bound=WaitingBound(qos.keep_last or self.options.waiting_max, is_wanted=qos.keep_last is not None),
            on_event=on_event,
            on_notice=on_notice,
            on_end=self._program.unsubscribe,
        )
        self._program.subscribe(subscription)
        return subscription

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


def _checked_ids(ids: Sequence[str] | None, event_count: int) -> Sequence[str]:
    if ids is None:
        return [""] * event_count
    if len(ids) != event_count:
        raise RefusedError("invalid", f"there are {event_count:,} events and {len(ids):,} ids: give one for each")
    try:
        return msgspec.convert(list(ids), list[Text])
    except msgspec.ValidationError as error:
        raise RefusedError("invalid", in_words(error, "ids")) from error
