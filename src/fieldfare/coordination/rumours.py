"""What a member has heard recently and sends on: each rumour so many times, the freshest first.

A rumour that comes back is known by others already, and is sent once less (Demers et al., "Epidemic algorithms for
replicated database maintenance", 1.4). The few members that a rumour misses find out by comparing hashes.
"""

from __future__ import annotations

import heapq

from fieldfare.coordination.gossip_messages import News, OfferNews
from fieldfare.coordination.member_table import MemberTable
from fieldfare.coordination.packing import PART_BYTES, news_of, size_of
from fieldfare.messages import TopicKey

_PICKED_MAX = 32  # more never fit a datagram


class _Rumour:
    """About a member: its facts after this version are new; about an offer: nothing more."""

    __slots__ = ("after", "sends_left")

    def __init__(self, after: int, sends_left: int) -> None:
        self.after, self.sends_left = after, sends_left


class Rumours:
    """Rumours by the name of the member or topic that they are about; so there are never more than these."""

    def __init__(self, table: MemberTable) -> None:
        self._table = table
        self._about: dict[str | TopicKey, _Rumour] = {}

    def __len__(self) -> int:
        return len(self._about)

    def add(self, about: str | TopicKey, sends: int, after: int = 0) -> None:
        """Something is new; of a member, its claim and its facts after this version."""
        known = self._about.get(about)
        self._about[about] = _Rumour(after if known is None else min(after, known.after), sends)

    def came_again(self, about: str | TopicKey) -> None:
        """Somebody else spreads it too."""
        if (rumour := self._about.get(about)) is not None:
            self._sent(about, rumour)

    def all_came_again(self) -> None:
        """Somebody else knows all that is known here."""
        for about, rumour in list(self._about.items()):
            self._sent(about, rumour)

    def pick(self, bytes_left: int = PART_BYTES) -> tuple[list[News], list[OfferNews]]:
        """The freshest rumours, as many as fit a datagram; they count as sent once more."""
        news: list[News] = []
        offers: list[OfferNews] = []
        for about in heapq.nlargest(_PICKED_MAX, self._about, key=self._freshness):
            rumour = self._about[about]
            if isinstance(about, str):
                if (state := self._table.members.get(about)) is None:
                    del self._about[about]
                    continue
                part: News | OfferNews = news_of(state, min(rumour.after, state.version), 1, bytes_left)[0]
            else:
                part = OfferNews(about, self._table.offers[about])
            bytes_left -= size_of(part)
            if bytes_left < 0 and (news or offers):
                break
            if isinstance(part, News):
                news.append(part)
            else:
                offers.append(part)
            self._sent(about, rumour)
        return news, offers

    def _freshness(self, about: str | TopicKey) -> int:
        return self._about[about].sends_left

    def _sent(self, about: str | TopicKey, rumour: _Rumour) -> None:
        rumour.sends_left -= 1
        if rumour.sends_left <= 0:
            del self._about[about]
