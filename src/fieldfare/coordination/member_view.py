"""The members as a broker is told of them: seen, or gone.

A table may say that a member is dead before it could object: after a partition each side claims that of all of the
other. So a member that was seen stays so for as long as a suspicion lasts, by this member's own clock, and is gone only
if it has not returned with a higher incarnation by then. Who says goodbye is gone at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from fieldfare.coordination.gossip_messages import Health
from fieldfare.coordination.member_table import MemberState
from fieldfare.messages import Input, Member, MemberGone, MemberSeen


class MemberView:
    """Who is seen. `seen` is what the broker has been told, by name."""

    def __init__(self) -> None:
        self.seen: dict[str, Member] = {}
        self._unwell: dict[str, float] = {}  # suspected or dead, and since when that is known here

    def review(self, state: MemberState, now: float) -> Iterator[Input]:
        """Something about a member has changed."""
        match state.claim.health:
            case Health.ALIVE:
                self._unwell.pop(state.name, None)
                member = state.member
                if member is not None and self.seen.get(state.name) != member:
                    self.seen[state.name] = member
                    yield MemberSeen(member)
            case Health.SUSPECTED | Health.DEAD:
                if state.name in self.seen or state.claim.health is Health.SUSPECTED:
                    self._unwell.setdefault(state.name, now)
            case _:
                yield from self.lose(state.name)

    def lose(self, name: str) -> Iterator[Input]:
        """A member is gone."""
        self._unwell.pop(name, None)
        if self.seen.pop(name, None) is not None:
            yield MemberGone(name)

    def overdue(self, now: float, suspicion_seconds: float) -> list[str]:
        """Those that had time enough to object."""
        return [name for name, since in self._unwell.items() if now >= since + suspicion_seconds]

    def slept(self, seconds: float) -> None:
        """We did nothing for a while: give the others that time again."""
        self._unwell = {name: since + seconds for name, since in self._unwell.items()}

    def waits(self) -> list[str]:
        """What is waited for, for people who look at a failed run."""
        return [f"{name!r} to object, since {since:.3f}" for name, since in self._unwell.items()]
