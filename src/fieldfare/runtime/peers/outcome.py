"""What became of a publication, as far as it is known when its publisher is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec


class Outcome(msgspec.Struct, frozen=True):
    """Of one event, or of several together. `is_complete` says that nobody is left who wants it and has it not."""

    taken: int  # how many peers have confirmed that they have it, for each event
    missed: tuple[str, ...] = ()  # peers that wanted it, and did not confirm it while it lived
    outstanding: tuple[str, ...] = ()  # peers that have not confirmed it yet: it is sent to them again while it lives
    is_settled: bool = True  # nothing more is done for it
    is_stored: bool = False  # it is in this peer's folder: while it lives, a restart does not change what becomes of it
    is_vouched: bool = True  # everybody who wants it is known: else somebody may be asked for still, or be left out

    @property
    def is_complete(self) -> bool:
        """Whether every peer that wants it has it."""
        return self.is_vouched and not self.missed and not self.outstanding


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """One outcome for several events."""
    if len(outcomes) == 1:
        return outcomes[0]
    return Outcome(
        sum(each.taken for each in outcomes),
        tuple(dict.fromkeys(name for each in outcomes for name in each.missed)),
        tuple(dict.fromkeys(name for each in outcomes for name in each.outstanding)),
        all(each.is_settled for each in outcomes),
        all(each.is_stored for each in outcomes),
        all(each.is_vouched for each in outcomes),
    )


async def final_outcome(outcomes: Sequence[asyncio.Future[Outcome]]) -> Outcome:
    """One outcome for several events, when all of them are settled."""
    return together(await asyncio.gather(*outcomes))
