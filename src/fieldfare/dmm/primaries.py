"""Which attribute of a space of several attributes is its primary one: chosen by the peer that has the space's root.

Events find such a space through its primary attribute, so the best one is that which fewest events satisfy. The leaves
of the space tell the root now and then where their entries lie; the root asks the leaves of each single attribute how
many events come there, and takes the attribute with the fewest. It changes its mind only where that saves a lot. A
choice has a version. The leaves of the space follow it: first they place their links by the new attribute, and only
then let those by the old one expire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.dmm.messages import Answer, AskPrimary, LookWork, Primary, encode
from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.regions import Extent
from fieldfare.dmm.spaces import Space, Spaces
from fieldfare.dmm.walks import Walks
from fieldfare.dmm.zcodes import ZCode
from fieldfare.pastry.ports import Contact, Ring

_GAIN_MIN = 2.0  # another attribute is chosen if so many times fewer events satisfy it
_CHOICE_ROUNDS = 4  # of refreshing, after which a choice is looked at again
_SPACES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class RateWalk:
    """A walk's purpose: ask the leaves of one attribute how many events come there."""

    space: Space
    attribute: str


@dataclass(slots=True)
class _Choice:
    attribute: str
    version: int
    chosen_at: float
    hulls: dict[ZCode, tuple[Extent, float]] = field(default_factory=dict)  # of leaves, and when they told
    rates: dict[str, float] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)  # attributes whose leaves have not all answered


class Primaries:
    """The choices of one peer, for the spaces whose roots it has."""

    def __init__(self, ring: Ring, spaces: Spaces, walks: Walks, options: DmmOptions) -> None:
        self._ring, self._spaces, self._walks, self._options = ring, spaces, walks, options
        self._choices: dict[Space, _Choice] = {}

    def asked(self, source: Contact, message: AskPrimary, now: float) -> None:
        """A leaf tells where its entries lie, and asks for the primary attribute."""
        space = message.region.space
        attributes = space.attributes
        if message.attribute not in attributes or len(message.hull) != len(attributes):
            return
        choice = self._choices.get(space)
        if choice is None or message.version > choice.version:
            if len(self._choices) >= _SPACES_MAX:
                return
            choice = self._choices[space] = _Choice(message.attribute, message.version, now)
        choice.hulls[message.region.code] = message.hull, now
        answer = Primary(message.number, choice.attribute, choice.version)
        self._ring.send(source, encode(answer), now)
        if now - choice.chosen_at >= _CHOICE_ROUNDS * self._options.refresh_seconds and not choice.awaited:
            self._look(space, choice, now)

    def _look(self, space: Space, choice: _Choice, now: float) -> None:
        choice.chosen_at = now
        oldest = now - 2 * _CHOICE_ROUNDS * self._options.refresh_seconds
        choice.hulls = {code: told for code, told in choice.hulls.items() if told[1] >= oldest}
        choice.rates = dict.fromkeys(space.attributes, 0.0)
        choice.awaited = set(space.attributes)
        for place, attribute in enumerate(space.attributes):
            target = tuple((hull[place],) for hull, _ in choice.hulls.values())
            until = now + self._options.refresh_seconds
            single = Space(space.topic, (attribute,))
            self._walks.begin(RateWalk(space, attribute), single, target, LookWork(), until, now)

    def leaf_answered(self, purpose: RateWalk, answer: Answer) -> None:
        """A leaf says how many events come there; those where the space's entries lie count."""
        choice = self._choices.get(purpose.space)
        if choice is None:
            return
        place = purpose.space.attributes.index(purpose.attribute)
        (low, high), *_ = self._spaces.grid(Space(purpose.space.topic, (purpose.attribute,))).cell(answer.region.code)
        first = min(hull[place][0] for hull, _ in choice.hulls.values())
        last = max(hull[place][1] for hull, _ in choice.hulls.values())
        share = max(0, min(high, last) - max(low, first) + 1) / (high - low + 1)
        choice.rates[purpose.attribute] += share * answer.events_per_second

    def walk_over(self, purpose: RateWalk, is_complete: bool) -> None:  # noqa: FBT001 - a walk's outcome
        """All leaves of an attribute have answered, or not in time: then nothing is chosen."""
        choice = self._choices.get(purpose.space)
        if choice is None:
            return
        choice.awaited.discard(purpose.attribute)
        if not is_complete:
            choice.rates.pop(purpose.attribute, None)
        if choice.awaited or len(choice.rates) < len(purpose.space.attributes):
            return
        best = min(choice.rates, key=lambda attribute: (choice.rates[attribute], attribute))
        if choice.rates[choice.attribute] > _GAIN_MIN * choice.rates[best]:
            choice.attribute = best
            choice.version += 1
