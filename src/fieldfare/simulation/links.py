"""The links and datagrams of a simulated node: streams of a virtual network, under the names that the node knows.

Frames travel as bytes, so that a run proves that they can. The frames that a round sends over a link are written
together at its end, and those that arrive in one message are handled in one round, as on a real host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from fieldfare.kernel import Kernel
from fieldfare.messages import (
    Close,
    Closed,
    DatagramReceived,
    Dial,
    Input,
    LinkIdentity,
    Opened,
    Received,
    Send,
    SendDatagram,
    Unreachable,
)
from fieldfare.messages.frame_codec import FrameCodec
from fieldfare.messages.lines import LineCodec
from fieldfare.simulation.network import Network
from fieldfare.simulation.streams import Stream


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How the links and datagrams of a node work."""

    identify: Callable[[str], LinkIdentity]  # who is at a place, at the other end of a link
    lines: FrameCodec[Any, Any]  # the wire protocol of links,
    codecs: Mapping[type[LinkIdentity], FrameCodec[Any, Any]]  # but for those to identities of these types
    datagram_lines: LineCodec[Any, Any] | None  # that of datagrams; None: they pass as objects


class _Link(NamedTuple):
    stream: Stream
    codec: FrameCodec[Any, Any]


class SimulatedLinks:
    """All links of one node, from its start to its crash. `tell` takes inputs that are handled in one round."""

    __slots__ = ("_is_over", "_links", "_name", "_network", "_opened", "_options", "_outgoing", "_tell")

    def __init__(self, name: str, network: Network, options: LinkOptions, tell: Callable[[list[Input]], None]) -> None:
        self._name = name
        self._network = network
        self._options = options
        self._tell = tell
        self._links: dict[str, _Link] = {}
        self._outgoing: dict[str, list[Any]] = {}  # frames of this round
        self._opened = 0
        self._is_over = False

    def provide(self, kernel: Kernel) -> None:
        """Perform what a node does with links and datagrams."""
        kernel.provide(Send, self._send)
        kernel.provide(Close, self._close)
        kernel.provide(Dial, self._dial)
        kernel.provide(SendDatagram, self._send_datagram)
        kernel.at_round_end(self._flush)

    def open(self) -> None:
        """Let others connect to this place, and send datagrams to it."""
        self._network.listen(self._name, self._accept)
        self._network.receive(self._name, self._receive_datagram)

    def crash(self) -> None:
        """The machine stopped: nothing is sent, received or told any more."""
        self._is_over = True
        self._network.crash(self._name)
        self._links.clear()
        self._outgoing.clear()

    # Links come and go

    def _accept(self, stream: Stream) -> None:
        self._opened += 1
        self._add(f"{stream.there}-{self._opened}", stream)

    def _dial(self, effect: Dial) -> None:
        opened, failed = partial(self._dialled, effect.link), partial(self._not_dialled, effect.link)
        self._network.connect(self._name, effect.address, opened, failed)

    def _dialled(self, link: str, stream: Stream) -> None:
        if self._is_over:
            stream.abandon()
        else:
            self._add(link, stream)

    def _not_dialled(self, link: str, reason: str) -> None:
        if not self._is_over:
            self._tell([Unreachable(link, reason)])

    def _add(self, link: str, stream: Stream) -> None:
        if link in self._links:
            raise RuntimeError(f"{self._name!r} has dialled a link by a name that is in use: {link!r}")
        identity = self._options.identify(stream.there)
        codec = self._options.codecs.get(type(identity), self._options.lines)
        self._links[link] = _Link(stream, codec)
        stream.on_message = partial(self._receive, link, codec)
        stream.on_close = partial(self._closed, link)
        self._tell([Opened(link, identity)])

    def _close(self, effect: Close) -> None:
        if frames := self._outgoing.pop(effect.link, None):
            self._write(effect.link, frames)
        closing = self._links.pop(effect.link, None)
        if closing is not None:
            closing.stream.close(effect.reason)
            self._tell([Closed(effect.link)])

    def _closed(self, link: str, _reason: str) -> None:
        if self._links.pop(link, None) is not None:
            self._tell([Closed(link)])

    # Frames

    def _receive(self, link: str, codec: FrameCodec[Any, Any], message: bytes) -> None:
        self._tell([Received(link, frame) for frame in codec.decode(message)])

    def _send(self, effect: Send) -> None:
        link = effect.link
        if link in self._links:
            frames = self._outgoing.get(link)
            if frames is None:
                self._outgoing[link] = [effect.frame]
            else:
                frames.append(effect.frame)

    def _flush(self) -> None:
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, {}
            for link, frames in outgoing.items():
                self._write(link, frames)

    def _write(self, link: str, frames: list[Any]) -> None:
        open_link = self._links.get(link)
        if open_link is not None:
            for message in open_link.codec.encode(frames):
                open_link.stream.send(message)

    # Datagrams

    def _send_datagram(self, effect: SendDatagram) -> None:
        lines = self._options.datagram_lines
        message = effect.message if lines is None else lines.encode_line(effect.message)
        self._network.send(self._name, effect.address, message)

    def _receive_datagram(self, source: str, message: Any) -> None:
        lines = self._options.datagram_lines
        messages = (message,) if lines is None else lines.decode(message)
        self._tell([DatagramReceived(source, each) for each in messages])
