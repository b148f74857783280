"""Whether a publisher goes to a better broker: if it is better by enough, pays its cost, and was not left just now.

The paper moves a publisher whenever another broker looks better, and leaves damping to future work. Two brokers that
are nearly alike then exchange a publisher at every session, since each session sees other publications.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from fieldfare.placement.options import DampingOptions
from fieldfare.placement.passages import Relocation
from fieldfare.placement.placement_frames import BrokerName


class Refusal(Enum):
    """Why a publisher does not go to a better broker."""

    TOO_LITTLE = "it would save too little"
    TOO_UNSURE = "what it would save may be chance"
    TOO_DEAR = "the relocation would not pay in time"
    LEFT_LATELY = "it left that broker, or failed to reach it, a short time ago"
    TOO_MANY = "too many publishers go there at once"


class Departure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broker that a publisher left, or could not reach. It goes with the publisher, so it carries no clock."""

    broker: BrokerName
    ago_seconds: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a publisher goes; if nowhere, why not to the best broker."""

    relocation: Relocation | None
    refusal: Refusal | None = None


def decide(
    choices: Sequence[Relocation],
    departures: Sequence[Departure],
    options: DampingOptions,
    admits: Callable[[BrokerName], bool],
) -> Verdict:
    """The first of the choices, the best first, that nothing speaks against. `admits` asks a target's arrival gate."""
    first_refusal = None
    for choice in choices:
        refusal = refuses(choice, departures, options)
        if refusal is None:
            if admits(choice.target):
                return Verdict(choice)
            refusal = Refusal.TOO_MANY
        first_refusal = first_refusal or refusal
    return Verdict(None, first_refusal)


def refuses(choice: Relocation, departures: Sequence[Departure], options: DampingOptions) -> Refusal | None:
    """What speaks against a relocation, as far as its publisher knows."""
    saved = choice.cost_now - choice.cost_then
    if saved <= 0.0 or saved < options.gain_share_min * choice.cost_now:
        return Refusal.TOO_LITTLE
    if saved < options.errors_min * choice.saving_error:
        return Refusal.TOO_UNSURE
    if saved * choice.publications_per_second * options.payback_seconds < move_cost(choice, options):
        return Refusal.TOO_DEAR
    if any(left.broker == choice.target and left.ago_seconds < options.return_seconds for left in departures):
        return Refusal.LEFT_LATELY
    return None


def move_cost(choice: Relocation, options: DampingOptions) -> float:
    """What a relocation costs, in its own measure: messages, or the waiting of what is published meanwhile."""
    if choice.measure != "seconds":
        return options.relocation_messages_per_hop * choice.hops
    pause_seconds = options.pause_seconds_per_hop * choice.hops
    waiting_publications = choice.publications_per_second * pause_seconds
    return waiting_publications * choice.deliveries * pause_seconds / 2


class DepartureLog:
    """What one publisher has left, as its broker keeps it."""

    def __init__(self, options: DampingOptions, departures: Sequence[Departure] = (), now: float = 0.0) -> None:
        self._options = options
        self._left_at = {departure.broker: now - departure.ago_seconds for departure in departures}

    def left(self, broker: BrokerName, now: float) -> None:
        """The publisher has left this broker, or could not reach it."""
        self._left_at[broker] = now

    def departures(self, now: float) -> tuple[Departure, ...]:
        """What counts now; older ones are forgotten."""
        self._left_at = {
            broker: left_at for broker, left_at in self._left_at.items() if now - left_at < self._options.return_seconds
        }
        return tuple(Departure(broker, now - left_at) for broker, left_at in self._left_at.items())
