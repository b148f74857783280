"""Requests that wait for their answers: repeated with growing pauses, and given up in the end.

It is the one place where a peer waits for others. What a request was for is a typed object, its purpose, which comes
back with the answer, or when the request is given up.

An answer counts if it comes from the peer that was asked. Who is closest to a key is not known beforehand: there an
answer proves by its number that its sender has seen the request, so live peers draw numbers that nobody can guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec

from fieldfare.dmm.messages import AnyPeerMessage, Request, encode
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Contact, Key, Ring


@dataclass(frozen=True, slots=True)
class RequestDue:
    """A timer: a request has not been answered in time."""

    number: int


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer is waited for, and how often a request is sent."""

    first_seconds: float = 1.0
    seconds_max: float = 10.0
    sendings_max: int = 6


@dataclass(slots=True)
class _Open:
    message: Request
    purpose: Any
    key: Key | None
    contact: Contact | None
    sendings: int = 1


class Requests:
    """The requests of one peer."""

    def __init__(self, ring: Ring, patience: Patience, numbers: Iterator[int] | None = None) -> None:
        self.false_answers = 0  # so far, from peers that were not asked
        self._ring, self._patience = ring, patience
        self._numbers = count(1) if numbers is None else numbers
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(
        self, message: Request, purpose: Any, now: float, *, key: Key | None = None, contact: Contact | None = None
    ) -> None:
        """Send a request, whose number is set here, to a peer, or to whoever is closest to a key.

        With both, the key is used if the peer does not answer.
        """
        number = next(self._numbers)
        request = _Open(msgspec.structs.replace(message, number=number), purpose, key, contact)
        self._open[number] = request
        self._ring.perform(SetTimer(RequestDue(number), now + self._patience.first_seconds))
        self._send(request, now)

    def take(self, number: int, source: Contact) -> Any | None:
        """The purpose of the request that an answer belongs to; None if it was answered or given up before."""
        request = self._open.get(number)
        if request is None:
            return None
        if request.contact is not None and request.contact.name != source.name:
            self.false_answers += 1
            return None
        return self._open.pop(number).purpose

    def due(self, number: int, now: float) -> Any | None:
        """Repeat a request, or give it up: then its purpose is returned."""
        request = self._open.get(number)
        if request is None:
            return None
        if request.sendings >= self._patience.sendings_max:
            return self._open.pop(number).purpose
        pause = min(self._patience.first_seconds * 2**request.sendings, self._patience.seconds_max)
        request.sendings += 1
        if request.key is not None:
            request.contact = None
        self._ring.perform(SetTimer(RequestDue(number), now + pause))
        self._send(request, now)
        return None

    def undelivered(self, number: int, now: float) -> None:
        """A request did not reach its peer: whoever is closest to its key is asked at once, if it has one."""
        request = self._open.get(number)
        if request is not None and request.contact is not None and request.key is not None:
            request.contact = None
            self._send(request, now)

    def _send(self, request: _Open, now: float) -> None:
        message: AnyPeerMessage = request.message  # type: ignore[assignment]  # requests are some of them
        if request.contact is not None:
            self._ring.send(request.contact, encode(message), now)
        elif request.key is not None:
            self._ring.route(request.key, encode(message), now)

    def waits(self) -> list[str]:
        """What is waited for, for people who look at a run that failed."""
        return [f"request {number}: {request.purpose!r}" for number, request in self._open.items()]
