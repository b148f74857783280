"""Comparing what two members know, and sending what either lacks (anti-entropy).

A member whose hash is another one sends what it knows, in short: a digest of all while that fits a datagram, else the
hashes of its buckets, which are answered with digests of those that differ. A digest is answered with what is newer,
and with a question for what is older. In a quiet gossip all hashes are the same, and none of this happens.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from fieldfare.coordination.gossip_messages import Compare, Digest, Known, KnownOffer, News, Tell
from fieldfare.coordination.member_table import ALL_BUCKETS, BUCKETS, MemberState, MemberTable
from fieldfare.coordination.packing import PART_BYTES, news_of, parts, size_of
from fieldfare.messages import SendDatagram

_DATAGRAMS_MAX = 16  # in answer to one digest
_DIGESTS_MAX = 3  # in answer to one Compare
_LINES_MAX = 48  # more never fit a datagram
_STARTS_MAX = 4.0  # comparisons that may be begun in one round, after quiet ones
_STARTS_EACH_ROUND = 0.5


class Comparing:
    """One member's part in it. `name` is its own."""

    def __init__(self, name: str, table: MemberTable, rng: random.Random) -> None:
        self._name, self._table, self._rng = name, table, rng
        self._starts_left = _STARTS_MAX

    @property
    def hash(self) -> int:
        """Of all that is known here; never 0, which stands for none."""
        return self._table.hash or 1

    def round_begins(self) -> None:
        """Comparing has its price, and rumours still under way make hashes differ: so it is not begun too often."""
        self._starts_left = min(_STARTS_MAX, self._starts_left + _STARTS_EACH_ROUND)

    def was_useful(self) -> None:
        """A comparison has brought something: there may be more to find."""
        self._starts_left = min(_STARTS_MAX, self._starts_left + _STARTS_EACH_ROUND)

    def compare(self, address: str, other_hash: int, *, is_stranger: bool) -> Sequence[SendDatagram]:
        """Begin, if another one knows something else; with somebody who joins always."""
        if other_hash in (0, self.hash):
            return ()
        if not is_stranger:
            if self._starts_left < 1.0:
                return ()
            self._starts_left -= 1.0
        return (SendDatagram(address, self._digest_of_all() or Compare(self._name, self._table.hashes)),)

    def digests(self, address: str, message: Compare) -> list[SendDatagram]:
        """Of the buckets that differ, or of some of them, if that is too much at once."""
        pairs = zip(message.hashes, self._table.hashes, strict=False)  # a later release may have more buckets
        differing = [number for number, (theirs, ours) in enumerate(pairs) if theirs != ours]
        self._rng.shuffle(differing)
        digests = self._digests(differing)
        return [SendDatagram(address, digest) for digest in islice(digests, _DIGESTS_MAX)]

    def answer(self, address: str, message: Digest) -> list[SendDatagram]:
        """What the other one lacks; and a question for what we lack, unless it was a question itself."""
        newer, older = self._table.compare(message.buckets, message.members)
        newer_offers, older_offers = self._table.compare_offers(message.buckets, message.offers)
        self._rng.shuffle(newer)  # so that another answer, if this one is too long, brings something else
        news = parts(islice(self._news(newer), _DATAGRAMS_MAX * _LINES_MAX))
        tells = [Tell(self._name, part) for part in islice(news, _DATAGRAMS_MAX)]
        offers = parts(newer_offers)
        tells += [Tell(self._name, [], part) for part in islice(offers, max(1, _DATAGRAMS_MAX - len(tells)))]
        answers = [SendDatagram(address, tell) for tell in tells]
        return answers + self._questions(address, older, older_offers) if message.buckets else answers

    def digests_of_all(self) -> Iterator[Digest]:
        """Of all that is known here, in as many datagrams as that takes."""
        return self._digests(range(BUCKETS))

    def ask(self, address: str, names: Iterable[str]) -> list[SendDatagram]:
        """Ask for what comes after what is known of these members."""
        return self._questions(address, [self._table.members[name].known() for name in names], [])

    def _questions(self, address: str, members: Sequence[Known], offers: Sequence[KnownOffer]) -> list[SendDatagram]:
        questions = [Digest(self._name, 0, part) for part in islice(parts(members), _DIGESTS_MAX)]
        questions += [Digest(self._name, 0, [], part) for part in islice(parts(offers), _DIGESTS_MAX)]
        return [SendDatagram(address, question) for question in questions]

    @staticmethod
    def _news(states: Iterable[tuple[MemberState, int]]) -> Iterator[News]:
        return (news for state, after in states for news in news_of(state, after, _DATAGRAMS_MAX))

    def _digest_of_all(self) -> Digest | None:
        """Everything, if it fits a datagram."""
        if len(self._table.members) + len(self._table.offers) > _LINES_MAX:
            return None
        digest = next(self._digests(range(BUCKETS)))
        return digest if digest.buckets == ALL_BUCKETS else None

    def _digests(self, buckets: Iterable[int]) -> Iterator[Digest]:
        bits = size = 0
        members: list[Known] = []
        offers: list[KnownOffer] = []
        for number in buckets:
            bucket_members = list(self._table.known(1 << number))
            bucket_offers = list(self._table.known_offers(1 << number))
            bucket_bytes = sum(map(size_of, bucket_members)) + sum(map(size_of, bucket_offers))
            if bits and size + bucket_bytes > PART_BYTES:
                yield Digest(self._name, bits, members, offers)
                bits, size, members, offers = 0, 0, [], []
            bits |= 1 << number
            size += bucket_bytes
            members += bucket_members
            offers += bucket_offers
        if bits:
            yield Digest(self._name, bits, members, offers)
