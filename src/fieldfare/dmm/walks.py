"""Walks of a peer over search trees, to all active leaves that something touches.

A walk asks region after region by visits, uses what the tree cache knows, waits a little where a tree is just changing,
and asks again where nobody answers, until it has found every leaf or its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from typing import Any

from fieldfare.dmm.leaf_walk import LeafWalk, Probe, RegionKind
from fieldfare.dmm.messages import Answer, PlaceWork, Visit, Work
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.regions import Target
from fieldfare.dmm.requests import Requests
from fieldfare.dmm.spaces import RegionName, Space, Spaces
from fieldfare.dmm.tree_cache import TreeCache
from fieldfare.dmm.zcodes import ZCode
from fieldfare.messages import SetTimer
from fieldfare.pastry.ports import Contact, Ring


@dataclass(frozen=True, slots=True)
class VisitFor:
    """A purpose: a walk visits a region."""

    walk: int
    probe: Probe


@dataclass(frozen=True, slots=True)
class WalkDue:
    """A timer: a walk goes on where the tree was changing."""

    walk: int


@dataclass(slots=True)
class _Walk:
    purpose: Any
    space: Space
    work: Work
    steps: LeafWalk
    until: float
    answers: list[Answer]


class Walks:
    """The walks of one peer.

    `answered` is called with a walk's purpose and a leaf's answer, `over` with its purpose and all of them; without
    answers, the time was over before all leaves were found.
    """

    def __init__(
        self,
        ring: Ring,
        requests: Requests,
        spaces: Spaces,
        options: DmmOptions,
        answered: Callable[[Any, Answer, float], None],
        over: Callable[[Any, list[Answer] | None, float], None],
    ) -> None:
        self._ring, self._requests, self._spaces, self._options = ring, requests, spaces, options
        self._answered, self._over = answered, over
        self.cache = TreeCache(options.cache_leaves_max, options.cache_seconds)
        self.visits = 0  # so far
        self._walks: dict[int, _Walk] = {}
        self._numbers = count()

    def begin(  # noqa: PLR0913 - what to do, where, and until when
        self,
        purpose: Any,
        space: Space,
        target: Target,
        work: Work,
        until: float,
        now: float,
        *,
        leaves: Collection[ZCode] = (),
    ) -> None:
        """Do some work at all leaves that a target touches. `leaves` are some that somebody knows of."""
        grid = self._spaces.grid(space)

        def guess_depth(path: ZCode) -> int | None:
            known = next((len(leaf) for leaf in leaves if path.startswith(leaf)), None)
            return self.cache.depth(space, path, now) if known is None else known

        steps = LeafWalk(grid, target, guess_depth, self._options.strategy)
        number = next(self._numbers)
        self._walks[number] = _Walk(purpose, space, work, steps, until, [])
        self._go_on(number, now)

    def _go_on(self, number: int, now: float) -> None:
        walk = self._walks[number]
        for probe in walk.steps.probes():
            self._visit(number, walk, probe, now)
        if walk.steps.is_over:
            del self._walks[number]
            self._over(walk.purpose, walk.answers, now)

    def _visit(self, number: int, walk: _Walk, probe: Probe, now: float) -> None:
        name = RegionName(walk.space, probe.region)
        # Where events come back by the way of subscriptions, these must go by the ring.
        is_by_ring = isinstance(walk.work, PlaceWork) and not self._spaces.scheme(walk.space.topic).is_reliable
        card = None if is_by_ring else self.cache.card(name, now)
        contact = None if card is None else self._ring.contact(card)
        self.visits += 1
        visit = Visit(0, name, walk.work, probe.missing)
        self._requests.ask(visit, VisitFor(number, probe), now, key=self._spaces.key(name), contact=contact)

    def visited(self, purpose: VisitFor, source: Contact | None, answer: Answer | None, now: float) -> None:
        """A region has answered; without an answer, the visit was given up."""
        walk = self._walks.get(purpose.walk)
        if walk is None:
            return
        region = purpose.probe.region
        name = RegionName(walk.space, region)
        if answer is None or answer.found is None or source is None:
            had_moved = self.cache.card(name, now) is not None
            self.cache.forget(name)
            if now >= walk.until:
                del self._walks[purpose.walk]
                self._over(walk.purpose, None, now)
            elif had_moved or answer is None:
                self._visit(purpose.walk, walk, purpose.probe, now)
            else:  # the ring is changing
                self._ring.perform(SetTimer(purpose, now + self._options.retry_seconds))
            return
        is_empty_root = answer.found is RegionKind.NOTHING and not region
        is_end = answer.found is RegionKind.LEAF or is_empty_root
        if is_end:
            self.cache.learn(name, source.card, now)
        else:
            self.cache.forget(name)
        is_changing = walk.steps.answer(region, answer.found)
        if is_end:
            walk.answers.append(answer)
            self._answered(walk.purpose, answer, now)
        if purpose.walk not in self._walks:
            return
        if is_changing:
            self._ring.perform(SetTimer(WalkDue(purpose.walk), now + self._options.retry_seconds))
        else:
            self._go_on(purpose.walk, now)

    def visit_again(self, purpose: VisitFor, now: float) -> None:
        """Go on where the ring was changing."""
        walk = self._walks.get(purpose.walk)
        if walk is not None:
            self._visit(purpose.walk, walk, purpose.probe, now)

    def due(self, timer: WalkDue, now: float) -> None:
        """Go on with a walk, unless its time is over."""
        walk = self._walks.get(timer.walk)
        if walk is None:
            return
        if now >= walk.until:
            del self._walks[timer.walk]
            self._over(walk.purpose, None, now)
        else:
            self._go_on(timer.walk, now)

    def waits(self) -> list[str]:
        """What is being looked for, for people who look at a run that failed."""
        return [f"walk {walk.purpose!r}: {sorted(walk.steps.asked())}" for walk in self._walks.values()]
