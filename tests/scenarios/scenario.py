"""A scenario: who is there, what they do, and what goes wrong, as data that can be printed. It names no host.

Seconds count from the beginning. A stage may let them pass faster, and stops their clock while a step waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fieldfare.qos import Offered, Requested

Mood: TypeAlias = Literal["takes", "fails", "hangs", "refuses"]  # of a webhook; it fails for now, and refuses for good

ROADS = ("A1", "A2", "B3")
_OFFERED, _REQUESTED = Offered(), Requested()


@dataclass(frozen=True)
class Participant:
    """A client, and whose it is."""

    name: str
    tenant: str = "one"


@dataclass(frozen=True)
class DeclaredTopic:
    """A topic that is declared before the first step."""

    name: str
    offered: Offered = _OFFERED
    tenant: str = "one"


@dataclass(frozen=True)
class Step:
    """Something that is done after some seconds."""

    after_seconds: float


# What clients do. A client that is down does nothing.


@dataclass(frozen=True)
class PublishStep(Step):
    """A client publishes events in batches, evenly over some seconds, whether or not it has answers."""

    client: str
    topic: str
    count: int
    first: int = 0  # the number of the first event: no publisher has a number twice in a topic
    batch: int = 5
    seconds: float = 0.0


@dataclass(frozen=True)
class SubscribeStep(Step):
    """A client subscribes; `label` is how the scenario calls this subscription."""

    client: str
    topic: str
    condition: str
    label: str
    name: str | None = None
    qos: Requested = _REQUESTED
    window: int = 1024
    webhook: str | None = None  # the webhook's name


@dataclass(frozen=True)
class AttachStep(Step):
    """A client takes over what was subscribed by a name."""

    client: str
    name: str
    label: str
    window: int = 1024


@dataclass(frozen=True)
class UnsubscribeStep(Step):
    """The client that has a subscription ends it."""

    label: str


@dataclass(frozen=True)
class ChurnStep(Step):
    """A client makes many subscriptions that match nothing, and then ends them."""

    client: str
    topic: str
    count: int
    round: int


# What the scenario waits for, so that what follows happens in a state that is known.


@dataclass(frozen=True)
class Settle(Step):
    """Wait until all that was asked has been answered."""


@dataclass(frozen=True)
class Complete(Step):
    """Wait until these subscriptions have got all that they have been promised so far."""

    labels: tuple[str, ...]


@dataclass(frozen=True)
class StillWaiting(Step):
    """A publication of this client has no answer: if it has, the fault before has had no effect."""

    client: str


# What goes wrong. Each lasts some seconds, and then all is as before.


@dataclass(frozen=True)
class Trouble(Step):
    """Something that goes wrong for some seconds."""

    seconds: float


@dataclass(frozen=True)
class EdgeCrash(Trouble):
    """The edge is killed, and started again on its data."""


@dataclass(frozen=True)
class ClientCrash(Trouble):
    """A client is gone, and comes back as the same program, which knows nothing of before."""

    client: str


@dataclass(frozen=True)
class ConnectionCut(Trouble):
    """A client's connection breaks; it comes back as soon as it can, so this has no duration."""

    client: str


@dataclass(frozen=True)
class LostAnswers(Trouble):
    """Answers to a client's publications get lost, each with its connection, up to so many."""

    client: str
    count: int


@dataclass(frozen=True)
class ClientPause(Trouble):
    """A client takes no events."""

    client: str


@dataclass(frozen=True)
class DiskFull(Trouble):
    """The edge's disk has no room."""


@dataclass(frozen=True)
class WebhookTrouble(Trouble):
    """A webhook does not take events."""

    webhook: str
    mood: Mood = "fails"


@dataclass(frozen=True)
class Scenario:
    """Participants, topics and steps, under a name."""

    name: str
    participants: tuple[Participant, ...]
    topics: tuple[DeclaredTopic, ...]
    steps: tuple[Step, ...]

    def has(self, kind: type[Step]) -> bool:
        """Whether such a step is in it."""
        return any(isinstance(step, kind) for step in self.steps)

    def __str__(self) -> str:
        lines = (*self.participants, *self.topics, *sorted(self.steps, key=lambda step: step.after_seconds))
        return "\n".join((self.name, *(f"  {line}" for line in lines)))


@dataclass(frozen=True)
class Moment:
    """A step, a batch of one, or the end of one, and when it happens."""

    at_seconds: float
    step: Step
    events: Sequence[dict[str, object]] = ()
    is_end: bool = False


def timeline(scenario: Scenario) -> list[Moment]:
    """All that happens, in order."""
    moments = [moment for step in scenario.steps for moment in _moments(step)]
    return sorted(moments, key=lambda moment: moment.at_seconds)


def _moments(step: Step) -> Iterator[Moment]:
    if isinstance(step, PublishStep):
        starts = range(0, step.count, step.batch)
        for place, start in enumerate(starts):
            numbers = range(step.first + start, step.first + min(step.count, start + step.batch))
            at_seconds = step.after_seconds + step.seconds * place / len(starts)
            yield Moment(at_seconds, step, [event(number) for number in numbers])
    else:
        yield Moment(step.after_seconds, step)
    if isinstance(step, Trouble):
        yield Moment(step.after_seconds + step.seconds, step, is_end=True)


def event(number: int) -> dict[str, object]:
    """The event of a number: different numbers are different events."""
    made: dict[str, object] = {"number": number, "speed": number * 37 % 101}
    if number % 5:
        made["road"] = ROADS[number % 3]
    return made
