"""Which news go into which datagrams: about 1,200 bytes each, so that no network on the way divides them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from fieldfare.coordination.gossip_messages import News
from fieldfare.coordination.member_table import MemberState
from fieldfare.messages import SEAL_BYTES

T = TypeVar("T")

DATAGRAM_BYTES = 1200
_HEAD_BYTES = 200  # a message's sender, hash and addresses
_NEWS_BYTES = 190  # the longest name, and a claim
PART_BYTES = DATAGRAM_BYTES - SEAL_BYTES - _HEAD_BYTES  # of all news in one datagram
_encode = msgspec.msgpack.Encoder().encode


def size_of(part: Any) -> int:
    """The bytes that a part of a message takes."""
    return len(_encode(part))


def parts(items: Iterable[T], bytes_max: int = PART_BYTES) -> Iterator[list[T]]:
    """The items in lists that fit a datagram each. What is too large for any goes alone."""
    part: list[T] = []
    size = 0
    for item in items:
        item_bytes = size_of(item)
        if part and size + item_bytes > bytes_max:
            yield part
            part, size = [], 0
        part.append(item)
        size += item_bytes
    if part:
        yield part


def news_of(state: MemberState, after: int, pieces_max: int, bytes_max: int = PART_BYTES) -> list[News]:
    """What is known of a member after a version, in pieces that fit a datagram each.

    If that is more than so many pieces, the last one says that there is more.
    """
    facts = state.facts_after(after)
    if not facts:
        return [News(state.name, state.claim, after, state.version, latest=state.version)]
    pieces: list[News] = []
    left = len(facts)
    for piece in parts(facts, max(1, bytes_max - _NEWS_BYTES)):
        left -= len(piece)
        is_last = not left or len(pieces) + 1 == pieces_max
        upto = piece[-1][0] if left else state.version
        pieces.append(News(state.name, state.claim, after, upto, piece, state.version if is_last else upto))
        after = upto
        if is_last:
            break
    return pieces
