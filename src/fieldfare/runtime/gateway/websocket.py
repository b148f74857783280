"""Frames over a WebSocket: a text message is one or more frames, one on each line, in both directions.

A frame that cannot be read is refused and the connection goes on. What the client reads too slowly waits in a bounded
mailbox; when that overflows the connection is closed, and the client comes back to where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from fieldfare.messages import FRAME_BYTES_MAX, PROTOCOL, ClientFrame, EdgeFrame, List, Refused
from fieldfare.runtime.gateway.mailbox import OVERFLOW, Mailbox, MailboxClosedError, first_of
from fieldfare.runtime.gateway.ports import Connection, Gateway
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.requests import identify

_CLOSE_SECONDS = 5.0
_REASON_BYTES_MAX = 120  # what fits in a close frame
# What the broker is given of one message at a time, so that it can serve others in between. A list, which is short to
# ask for and long to answer, and a frame that is long itself, such as one with a long condition, end a turn.
_TURN_CHARACTERS = 128 * 1024
_LONG_CHARACTERS = 8 * 1024
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ClientFrame)


class _Ref(msgspec.Struct):
    ref: int | None = None


_ref_decoder = msgspec.json.Decoder(_Ref)


class Closing(NamedTuple):
    """How a connection ends."""

    code: int  # 1001 the broker ends, 1003 not text, 1009 too large, 1013 read too slowly: resume
    reason: str


async def serve(websocket: WebSocket, gateway: Gateway) -> None:
    """One client, from its handshake on."""
    try:
        identity = identify(websocket, gateway.authenticator)
        if PROTOCOL not in websocket.scope["subprotocols"]:
            raise ProblemError(400, "invalid", f"offer the subprotocol {PROTOCOL}")
    except ProblemError as error:
        await websocket.send_denial_response(error.response())
        return
    await websocket.accept(subprotocol=PROTOCOL)
    mailbox: Mailbox[bytes] = Mailbox(gateway.options.waiting_bytes_max)

    def put(frames: list[EdgeFrame]) -> None:
        for message in messages(frames):
            mailbox.put(message, len(message))
            if mailbox.is_closed:
                break  # the rest need not even be encoded

    connection = gateway.broker.connect(identity, put, mailbox.close)
    try:
        closing = await first_of(_read(websocket, connection, mailbox), _write(websocket, mailbox), _overflow(mailbox))
    finally:
        connection.close()
    if closing is not None:
        await _close(websocket, closing)


async def _read(websocket: WebSocket, connection: Connection, mailbox: Mailbox[bytes]) -> Closing | None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text = message.get("text")
        if text is None:
            return Closing(1003, "frames are text")
        if len(text) > FRAME_BYTES_MAX:
            return Closing(1009, f"a message has at most {FRAME_BYTES_MAX:,} bytes")
        turn = 0
        for line in text.split("\n"):
            if mailbox.is_closed:
                break
            try:
                frame = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                refused = _encoder.encode(_refusal(line, error))
                mailbox.put(refused, len(refused))
                continue
            connection.send(frame)
            turn += len(line)
            if isinstance(frame, List) or len(line) > _LONG_CHARACTERS or turn > _TURN_CHARACTERS:
                await asyncio.sleep(0)  # the broker answers, and others have their turn
                turn = 0


def _refusal(line: str, error: Exception) -> Refused:
    """Why a frame cannot be read; with the number of the request, where at least that can be."""
    try:
        ref = _ref_decoder.decode(line).ref
    except (msgspec.DecodeError, RecursionError):
        ref = None
    return Refused(ref, "invalid", "nested too deep" if isinstance(error, RecursionError) else str(error))


async def _write(websocket: WebSocket, mailbox: Mailbox[bytes]) -> Closing | None:
    try:
        while True:
            for message in await mailbox.take():
                await websocket.send_text(message.decode())
    except MailboxClosedError as error:
        return Closing(1013 if mailbox.overflowed.is_set() else 1001, str(error))
    except WebSocketDisconnect:
        return None


async def _overflow(mailbox: Mailbox[bytes]) -> Closing | None:
    """The end of a client that reads nothing at all, while the writer waits for it."""
    await mailbox.overflowed.wait()
    return Closing(1013, OVERFLOW)


async def _close(websocket: WebSocket, closing: Closing) -> None:
    reason = closing.reason.encode()[:_REASON_BYTES_MAX].decode(errors="ignore")
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):  # a client that reads nothing would not read this either
            await websocket.close(closing.code, reason)
    except (TimeoutError, WebSocketDisconnect, RuntimeError):
        return  # it is gone already; the server drops the connection


def messages(frames: Iterable[EdgeFrame]) -> Iterator[bytes]:
    """Frames joined into as few messages as their size allows."""
    lines: list[bytes] = []
    size = 0
    for frame in frames:
        line = _encoder.encode(frame)
        if b"\n" in line:  # between the tokens of an event: inside a string JSON has no line break
            line = line.replace(b"\n", b" ")
        if lines and size + len(line) >= FRAME_BYTES_MAX:
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield b"\n".join(lines)
