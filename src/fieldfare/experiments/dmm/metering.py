"""Counts what peers send, by kind, from outside: the network shows every datagram, lost or not.

Publications are counted as `search` (on the way to leaves) and `delivery` (from leaves or publishers to subscribers).
What answers or acknowledges them stands apart. Physical hops are the links that a datagram would pass if nothing were
lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from fieldfare.pastry.pastry_frames import Acknowledge, Arrived, Hop, Note, Piece

SEARCH, DELIVERY = "search", "delivery"
ANSWERS, ACKNOWLEDGED = "answers to publications", "events acknowledged"
SUBSCRIPTIONS, PLACED = "subscriptions", "answers to subscriptions"
COPIES, TREES, LARGE = "copies", "splits, merges and links", "pieces of large messages"
FRAMES_ACKNOWLEDGED, RING = "frames acknowledged", "ring"
PUBLICATION_KINDS = (SEARCH, DELIVERY)

_WORKS = {"PlaceWork": SUBSCRIPTIONS, "RemoveWork": SUBSCRIPTIONS, "LookWork": TREES}
_KINDS = {
    "Event": DELIVERY,
    "MulticastEvent": DELIVERY,
    "EventTaken": ACKNOWLEDGED,
    "Copy": COPIES,
    "AskForCopies": COPIES,
    "Done": COPIES,
}
_ANSWER_TO = {SEARCH: ANSWERS, SUBSCRIPTIONS: PLACED, TREES: TREES}


class _Visit(msgspec.Struct, tag="Visit", array_like=True):
    """As much of a visit as is needed to tell its kind."""

    number: int
    region: msgspec.Raw
    work: msgspec.Raw


class _Answer(msgspec.Struct, tag="Answer", array_like=True):
    number: int


_read_visit = msgspec.msgpack.Decoder(_Visit).decode
_read_answer = msgspec.msgpack.Decoder(_Answer).decode


def tag_of(message: bytes | memoryview) -> str:
    """The name of a peer's message, which stands in front: a short array whose first element is a short string."""
    return bytes(message[2 : 2 + (message[1] & 0x1F)]).decode()


class Meter:
    """Datagrams and links by kind, since the beginning. Give `note` to `Network.on_datagram`."""

    def __init__(self, hops: Callable[[str, str], int]) -> None:
        self._hops = hops
        self._hops_known: dict[tuple[str, str], int] = {}
        self._asked: dict[
            tuple[str, int], str
        ] = {}  # kinds of visits without an answer so far, by who asked and the number
        self.overlay: defaultdict[str, int] = defaultdict(int)
        self.physical: defaultdict[str, int] = defaultdict(int)

    def note(self, source: str, target: str, frame: Any) -> None:
        """A datagram is sent."""
        kind = self._kind(source, target, frame)
        pair = source, target
        hops = self._hops_known.get(pair)
        if hops is None:
            hops = self._hops_known[pair] = self._hops(source, target)
        self.overlay[kind] += 1
        self.physical[kind] += hops

    def _kind(self, source: str, target: str, frame: Any) -> str:
        kind = type(frame)
        if kind is Acknowledge or kind is Arrived:
            return FRAMES_ACKNOWLEDGED
        if kind is Hop:
            return self._kind_of_message(frame.source.name, target, frame.message)
        if kind is Note:
            return self._kind_of_message(source, target, frame.message)
        return LARGE if kind is Piece else RING

    def _kind_of_message(self, source: str, target: str, message: bytes) -> str:
        tag = tag_of(message)
        if tag == "Visit":
            visit = _read_visit(message)
            kind = _WORKS.get(tag_of(memoryview(visit.work)), SEARCH)
            self._asked[source, visit.number] = kind
            return kind
        if tag == "Answer":
            return _ANSWER_TO[self._asked.pop((target, _read_answer(message).number), SEARCH)]
        return _KINDS.get(tag, TREES)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Datagrams and links of each kind so far."""
        return {kind: (self.overlay[kind], self.physical[kind]) for kind in sorted(self.overlay)}
