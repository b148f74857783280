"""Dead letters: events of a subscription that were refused too often, with the reason; they are sent again or dropped.

They are kept with their bytes: the log may have let go of the events. One that is sent again is kept until it is
acknowledged, so that a crash does not lose it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from fieldfare.messages import DeadLetter, DeadLettersDropped, DeadLettersRedriven, Position
from fieldfare.routing.options import EdgeOptions
from fieldfare.routing.ports import LogPort

SubscriptionKey: TypeAlias = tuple[str, str]  # the tenant and the id


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter."""

    position: Position
    at: float
    reason: str
    delivery: bytes
    attempts: int = 0
    is_redriven: bool = False  # it is being sent again

    @property
    def id(self) -> str:
        """Its name in lists and requests."""
        return str(self.position)


class _Positioned(msgspec.Struct):
    position: Position = -1


_positioned = msgspec.json.Decoder(_Positioned)


class DeadLetters:
    """The dead letters of all subscriptions of an edge: of each the latest, within bounds of number and bytes."""

    def __init__(self, options: EdgeOptions, log: LogPort) -> None:
        self.buried_count = 0  # since the start
        self._options, self._log = options, log
        self._letters: dict[SubscriptionKey, dict[Position, Letter]] = {}

    def of(self, key: SubscriptionKey) -> list[Letter]:
        """Those of a subscription, but for those that are being sent again."""
        return [letter for letter in self._letters.get(key, {}).values() if not letter.is_redriven]

    def positions(self, key: SubscriptionKey) -> list[Position]:
        """Of all that a subscription has."""
        return list(self._letters.get(key, {}))

    def redriven(self, key: SubscriptionKey) -> list[Letter]:
        """Those of a subscription that are being sent again."""
        return [letter for letter in self._letters.get(key, {}).values() if letter.is_redriven]

    def chosen(self, key: SubscriptionKey, ids: Collection[str] | None) -> list[Position]:
        """The positions of those that a request means."""
        wanted = None if ids is None else set(ids)
        return [letter.position for letter in self.of(key) if wanted is None or letter.id in wanted]

    def bury(self, key: SubscriptionKey, deliveries: list[bytes], reason: str, attempts: int, now: float) -> None:
        """Events are given up."""
        letter = DeadLetter(*key, now, reason, deliveries, attempts)
        self.buried_count += len(deliveries)
        self.keep(letter)
        self._log.append_lazily(letter)

    def keep(self, record: DeadLetter) -> None:
        """Keep events that were given up, of many the latest. To be told twice does no harm."""
        letters = self._letters.setdefault((record.tenant, record.subscription), {})
        for delivery in record.deliveries:
            position = _positioned.decode(delivery).position
            letters.pop(position, None)
            letters[position] = Letter(position, record.at, record.reason, delivery, record.attempts)
        size_bytes = sum(len(letter.delivery) for letter in letters.values())
        for position, letter in list(letters.items()):
            is_too_large = size_bytes > self._options.dead_letter_bytes_max and len(letters) > 1
            if len(letters) <= self._options.dead_letters_max and not is_too_large:
                break
            if not letter.is_redriven:
                del letters[position]
                size_bytes -= len(letter.delivery)

    def redrive(self, key: SubscriptionKey, positions: Collection[Position]) -> list[Letter]:
        """Some are being sent again. Returns them."""
        letters = self._letters.get(key, {})
        for position in positions:
            if position in letters:
                letters[position] = replace(letters[position], is_redriven=True)
        return [letters[position] for position in positions if position in letters]

    def drop(self, key: SubscriptionKey, positions: Collection[Position]) -> None:
        """Forget some."""
        letters = self._letters.get(key, {})
        for position in positions:
            letters.pop(position, None)

    def settled(self, key: SubscriptionKey, position: Position) -> None:
        """One that was sent again has been acknowledged."""
        self.drop(key, [position])
        self._log.append_lazily(DeadLettersDropped(*key, [position]))

    def forget(self, key: SubscriptionKey) -> None:
        """A subscription has ended."""
        self._letters.pop(key, None)

    def state(self) -> Iterator[DeadLetter | DeadLettersRedriven]:
        """Records that stand for all of them."""
        for key, letters in self._letters.items():
            for each in letters.values():
                yield DeadLetter(*key, each.at, each.reason, [each.delivery], each.attempts)
            if redriven := [each.position for each in letters.values() if each.is_redriven]:
                yield DeadLettersRedriven(*key, redriven)
