"""A peer as a process: until it is told to stop, it publishes standard input, and prints the events that come."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from fieldfare.client.events import Event
from fieldfare.errors import RefusedError
from fieldfare.runtime.peers.lines import standard_input_lines
from fieldfare.runtime.peers.outcome import Outcome
from fieldfare.runtime.peers.peer import Peer
from fieldfare.runtime.peers.qos_words import DEFAULT
from fieldfare.runtime.peers.status_server import StatusServer


@dataclass(frozen=True, slots=True)
class PeerWork:
    """What a process does beside being a peer."""

    publish: str | None = None  # events of standard input go to this topic
    subscribe: tuple[str, str] | None = None  # a topic and a condition
    durable_name: str | None = None  # of that subscription, if it is to survive a restart
    status_port: int | None = None  # None: the port that it listens on, or any where that is taken

    @property
    def ends_by_itself(self) -> bool:
        """Whether it is done when standard input has ended."""
        return self.publish is not None and self.subscribe is None


class Reports:
    """What a process tells: for people a sentence, for programs a JSON object on each line of standard output."""

    def __init__(self, *, is_json: bool, say: Callable[[str], None]) -> None:
        self._is_json, self._say = is_json, say

    def tell(self, kind: str, sentence: str, **fields: Any) -> None:
        """Something happened."""
        if self._is_json:
            self._line(msgspec.json.encode({"type": kind, **fields}))
        elif sentence:
            self._say(sentence)

    def event(self, event: Event[Any]) -> None:
        """An event came."""
        line = event.json.replace(b"\r", b" ").replace(b"\n", b" ")
        if self._is_json:
            fields = {"topic": event.topic, "id": event.id, "at": event.at, "publisher": event.publisher}
            self._line(msgspec.json.encode({"type": "event", **fields, "event": msgspec.Raw(line)}))
        else:
            self._line(line)

    def _line(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


async def run_peer(peer: Peer, work: PeerWork, reports: Reports) -> bool:
    """Be a peer until SIGTERM or SIGINT, or until all input is published; whether all that it published arrived."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    entering: asyncio.Future[Any] = asyncio.ensure_future(peer.__aenter__())
    stopping: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
    await asyncio.wait([entering, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        await asyncio.wait([entering])
        return True
    await entering
    try:
        port = int(peer.address.rpartition(":")[2]) if work.status_port is None else work.status_port
        async with StatusServer(peer.status, port, 0 if work.status_port is None else None) as server:
            reports.tell(
                "ready",
                f"Peer {peer.name} is ready: others join it with --join {peer.address}. Its status: {server.url}",
                name=peer.name,
                address=peer.address,
                status=server.url,
            )
            return await _work(peer, work, reports, stopping)
    finally:
        await peer.leave()
        stopping.cancel()
        reports.tell("left", "")


async def _work(peer: Peer, work: PeerWork, reports: Reports, stopping: asyncio.Future[Any]) -> bool:
    if work.subscribe is not None:
        topic, condition = work.subscribe
        best_effort = msgspec.structs.replace(DEFAULT, reliability="best_effort")  # which every topic offers
        await peer.subscribe(topic, condition, reports.event, name=work.durable_name, qos=best_effort)
        reports.tell("subscribed", f"Subscribed to {topic}: {condition}", topic=topic, condition=condition)
    if work.publish is None:
        await stopping
        return True
    input_publisher = _InputPublisher(peer, work.publish, reports)
    publishing: asyncio.Future[Any] = asyncio.ensure_future(input_publisher.run())
    await asyncio.wait([publishing, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not publishing.done():
        publishing.cancel()
    elif work.ends_by_itself:
        publishing.result()
        settling: asyncio.Future[Any] = asyncio.ensure_future(input_publisher.settled())
        await asyncio.wait([stopping, settling], return_when=asyncio.FIRST_COMPLETED)
    else:
        publishing.result()
        await stopping
    return input_publisher.report()


class _InputPublisher:
    """Publishes lines of standard input, and keeps account of what became of them."""

    def __init__(self, peer: Peer, topic: str, reports: Reports) -> None:
        self._peer, self._topic, self._reports = peer, topic, reports
        self._unsettled: set[asyncio.Future[Outcome]] = set()
        self._published = self._incomplete = self._refused = 0

    async def run(self) -> None:
        """Publish until the input ends."""
        number = 0
        async for line in standard_input_lines():
            number += 1
            try:
                future = await self._peer.publish_soon(self._topic, line, on_accepted=partial(self._accepted, number))
            except RefusedError as error:
                self._refused += 1
                self._reports.tell(
                    "refused", f"line {number} is not published: {error}", line=number, reason=str(error)
                )
                continue
            self._published += 1
            self._unsettled.add(future)
            future.add_done_callback(partial(self._settled_one, number))

    def _accepted(self, number: int) -> None:
        self._reports.tell("accepted", "", line=number)

    def _settled_one(self, number: int, future: asyncio.Future[Outcome]) -> None:
        self._unsettled.discard(future)
        if future.cancelled() or future.exception() is not None:
            return
        outcome = future.result()
        if not outcome.is_complete:
            self._incomplete += 1
        self._reports.tell(
            "published",
            "",
            line=number,
            taken=outcome.taken,
            missed=outcome.missed,
            is_vouched=outcome.is_vouched,
        )

    async def settled(self) -> None:
        """Wait until everything is settled, for a while."""
        if self._unsettled:
            await asyncio.wait(self._unsettled, timeout=self._peer.options.settle_seconds)

    def report(self) -> bool:
        """Say what became of all of it; whether nothing is missing."""
        outstanding = self._peer.outstanding
        not_there = self._incomplete + len(self._unsettled)
        text = f"{self._published:,} published"
        is_reliable = self._topic not in self._peer.options.best_effort
        if self._refused:
            text += f", {self._refused:,} refused"
        if not_there:
            whom = f" ({', '.join(outstanding)} did not confirm)" if outstanding else ""
            text += f", of which {not_there:,} are not known to have reached all who want them{whom}"
        elif self._published and is_reliable:
            text += ": all who want them have them" if not self._refused else "; all who want the others have them"
        self._reports.tell("ended", text, published=self._published, refused=self._refused, incomplete=not_there)
        return not not_there and not self._refused
