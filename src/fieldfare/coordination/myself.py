"""What a member of a gossip says of itself, and how it objects to what others claim.

Incarnations are stamps: the time in milliseconds, and ten random bits. So they grow from life to life without a disk.
Where a clock was set back, the others still hold the earlier life and say so, and the member takes a stamp above it.
The random bits tell apart two lives that began at the same reading of a clock that always starts alike: else the facts
of the second would be taken for those of the first.

Stamps are also logical clocks: each is above all that its member has seen, so what follows from a claim is later.
"""

from __future__ import annotations

import random

from fieldfare.coordination.gossip_messages import Announcement, Claim, Fact, Health, News
from fieldfare.coordination.member_table import MemberState, MemberTable

_BEHIND_SECONDS = 10.0  # less is how clocks differ, and how long it takes to join


class Stamps:
    """Numbers that grow with time, and are above all that were seen."""

    def __init__(self, rng: random.Random) -> None:
        self.last = 0
        self._rng = rng

    def next(self, now: float) -> int:
        """A new one."""
        self.last = max((int(now * 1000) << 10) + self._rng.getrandbits(10), self.last + 1)
        return self.last

    def saw(self, claim: Claim) -> None:
        """Somebody else made this."""
        self.last = max(self.last, claim.incarnation, claim.at)


def stamp_at(at: float) -> int:
    """The smallest stamp of a moment."""
    return int(at * 1000) << 10


class Myself:
    """The member's own state in its table. Methods say after which version its facts are new."""

    def __init__(self, name: str, address: str, table: MemberTable, stamps: Stamps) -> None:
        self.address = address
        self.objection_count = 0
        self.state: MemberState = table.add(name)
        self._table = table
        self._stamps = stamps
        self._has_met_others = False

    def begin(self, now: float) -> None:
        """A life begins; the broker may have announced itself already."""
        self._begin_life(now, self._facts() or [Announcement(self.address)])

    def say(self, fact: Fact) -> int:
        """Something is new."""
        self.state.say(fact)
        self._table.rehash(self.state)
        return self.state.version - 1

    def leave(self, now: float) -> None:
        """Claim of oneself to be gone."""
        claim = self.state.claim
        self.state.claim = Claim(claim.incarnation, Health.LEFT, self._stamps.next(now), claim.life)
        self._table.rehash(self.state)

    def meet(self, now: float) -> bool:
        """Somebody else is there. If their stamps are far above ours, our clock is behind: count from theirs.

        So that of a topic whose owner we become the epoch grows for those, too, who hear of it for the first time.
        """
        behind = self._stamps.last - self.state.claim.incarnation
        is_behind = not self._has_met_others and behind > stamp_at(_BEHIND_SECONDS)
        self._has_met_others = True
        if is_behind:
            self._return(self.state.claim.life, now)
        return is_behind

    def object(self, news: News, now: float) -> bool:
        """Return with a higher incarnation if something else is believed of us; whether it is."""
        mine, claim = self.state.claim, news.claim
        has_our_number = claim.life == mine.life and news.upto > self.state.version
        if claim <= mine and not has_our_number:
            return False
        self.objection_count += 1
        if claim.life == mine.life and claim.health is not Health.RETIRED and not has_our_number:
            self._return(mine.life, now)
        else:  # another process has our name, or had it with a later clock; or what we said is forgotten
            self._begin_life(now, self._facts())
        return True

    def _return(self, life: int, now: float) -> None:
        self.state.claim = Claim(self._stamps.next(now), life=life)
        self._table.rehash(self.state)

    def _begin_life(self, now: float, facts: list[Fact]) -> None:
        self.state.begin_life(self._stamps.next(now), facts)
        self._table.rehash(self.state)

    def _facts(self) -> list[Fact]:
        return [fact for _, fact in self.state.facts_after(0)]
