"""Taking events over HTTP: a poll is a short attachment to a subscription, a stream of server-sent events a long one.

Both show positions. What was sent stays unacknowledged until the client names a position: the `after` of its next
poll, the Last-Event-ID of its next stream, or an acknowledgement of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec
from msgspec import Raw
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fieldfare.messages import Ack, Attach, Deliver, Delivery, Detach, EdgeFrame, Notice, Position, Subscribed
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.forms import TAKEN_OVER, Polled, PollQuery
from fieldfare.runtime.gateway.mailbox import first_of
from fieldfare.runtime.gateway.ports import GatewayOptions
from fieldfare.runtime.gateway.problems import ProblemError

STREAM_WINDOW = 256
_READING_SECONDS = 10.0  # the broker may read its log for so long before a poll that does not wait ends without events
_RETRY = b"retry: 1000\n\n"
_HEARTBEAT = b":\n\n"
_delivery = msgspec.json.Decoder(Delivery)


async def poll(exchange: Exchange, subscription: str, query: PollQuery) -> Polled:
    """What there is for a subscription: at once if there is nothing to wait for, else as soon as there is something."""
    after, log = exchange.position(query.after)
    attach = Attach(REF, subscription, after, query.limit, wants_mark=True, log=log, topic=query.topic)
    subscribed, frames = await exchange.ask(attach, Subscribed)
    with suppress(TimeoutError):
        async with asyncio.timeout(query.wait_seconds or _READING_SECONDS):
            while not any(isinstance(frame, Deliver) for frame in frames):
                if not query.wait_seconds and any(map(_is_mark, frames)):
                    break
                frames += await exchange.take()
    events = [_delivery.decode(raw) for raw in _events(frames)]
    exchange.send(Detach(subscription, keeps_events=True))
    position = events[-1].position if events else subscribed.position
    notices = [frame for frame in frames if isinstance(frame, Notice) and not _is_mark(frame)]
    return Polled(events, position, notices, subscribed.log)


def _is_mark(frame: EdgeFrame) -> bool:
    return isinstance(frame, Notice) and frame.kind == "caught_up"


def _events(frames: Iterable[EdgeFrame]) -> Iterator[Raw]:
    return (event for frame in frames if isinstance(frame, Deliver) for event in frame.events)


class EventStream(Response):
    """A subscription's events as they come, until one of the two ends goes away; then it says so."""

    media_type = "text/event-stream"

    def __init__(
        self,
        exchange: Exchange,
        subscribed: Subscribed,
        frames: list[EdgeFrame],
        options: GatewayOptions,
        ended: Callable[[], None],
    ) -> None:
        super().__init__()
        self._exchange = exchange
        self._subscription = subscribed.subscription
        self._log = subscribed.log.encode()  # to which the positions belong, if the client is to know it
        self._frames = frames  # that came with the answer to the attachment
        self._options = options
        self._is_cut_off = False  # the connection to the broker is gone: the reader is to come again
        self._ended = ended
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # some proxies would collect events before they pass them on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002, D102 - as in ASGI
        try:
            with suppress(TimeoutError):  # of a client that takes nothing: the server drops its connection
                await first_of(self._send_all(send), _gone(receive))
        finally:
            self._ended()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._send(send, _RETRY)
        frames, is_open = self._frames, True
        while is_open:
            if frames:
                lines = (_lines(frame, self._log, is_cut_off=self._is_cut_off) for frame in frames)
                await self._send(send, b"".join(lines))
                self._free(frames)
            is_open = not any(isinstance(frame, Notice) and frame.kind in ("detached", "seek") for frame in frames)
            frames = await self._next(send) if is_open else []
        await send({"type": "http.response.body", "body": b""})

    async def _next(self, send: Send) -> list[EdgeFrame]:
        """What came next, with heartbeats until then; a connection that the broker ended looks like one last notice."""
        while True:
            try:
                async with asyncio.timeout(self._options.heartbeat_seconds):
                    return await self._exchange.take()
            except TimeoutError:
                await self._send(send, _HEARTBEAT)
            except ProblemError as error:
                self._is_cut_off = True
                return [Notice(self._subscription, "detached", str(error))]

    async def _send(self, send: Send, chunk: bytes) -> None:
        async with asyncio.timeout(self._options.stall_seconds):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    def _free(self, frames: Iterable[EdgeFrame]) -> None:
        """The bytes have left: let more through, but keep the events for the next stream."""
        *_, last = [None, *_events(frames)]
        if last is not None:
            self._exchange.send(Ack(self._subscription, _delivery.decode(last).position, is_final=False))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _lines(frame: EdgeFrame, log: bytes, *, is_cut_off: bool) -> bytes:
    """A frame as server-sent events."""
    if isinstance(frame, Deliver):
        return b"".join(_event(raw, _delivery.decode(raw).position, log) for raw in frame.events)
    if not isinstance(frame, Notice):
        return b""
    return b"%bevent: notice\ndata: %b\n\n" % (
        b"" if is_cut_off else _next_place(frame, log),
        msgspec.json.encode(frame),
    )


def _next_place(notice: Notice, log: bytes) -> bytes:
    """With what id a reader comes again: after a seek, with the new place; one that was taken over from, not at all."""
    if notice.kind == "seek" and notice.position is not None:
        return b"id: %d%b\n" % (notice.position, b"@" + log if log else b"")
    return b"id: -1%b\n" % TAKEN_OVER.encode() if notice.kind == "detached" else b""


def _event(raw: Raw, position: Position, log: bytes) -> bytes:
    # A line break may stand between the tokens of JSON, but would end a line of the stream.
    data = bytes(raw).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %d%b\ndata: %b\n\n" % (position, b"@" + log if log else b"", data)
