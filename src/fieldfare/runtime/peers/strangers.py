"""Datagrams of a peer. A newcomer with another secret is told so: else it could not tell it from an empty address.

What cannot be read is answered by a few fixed bytes, fewer than any sealed packet has, and not often: nobody can be
flooded by that. The bytes prove nothing. They only make the error better that a newcomer ends with anyway.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from fieldfare.messages.packets import SEAL_BYTES
from fieldfare.runtime.datagrams import Datagrams

_UNREAD = b"fieldfare:unread"
_ANSWERS_PER_SECOND = 10
_STRANGERS_MAX = 100

assert len(_UNREAD) <= SEAL_BYTES  # noqa: S101 - an answer is not longer than what it answers


class PeerDatagrams(Datagrams):
    """Sends and receives at a socket that is bound already."""

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any], opened: socket.socket) -> None:
        super().__init__(encode, decode, opened)
        self.strangers: set[str] = set()  # addresses that could not read what this peer sent
        self._second, self._answers = 0, 0

    def _unreadable(self, packet: bytes, address: str) -> None:
        if packet == _UNREAD:
            if len(self.strangers) < _STRANGERS_MAX:
                self.strangers.add(address)
        elif len(packet) > SEAL_BYTES and self._may_answer():
            self._send_packet(_UNREAD, address)

    def _may_answer(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._answers = second, 0
        self._answers += 1
        return self._answers <= _ANSWERS_PER_SECOND
