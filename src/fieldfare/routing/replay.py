"""The state of a replay: a subscription that begins with what is alive, and how far each log has been read for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fieldfare.messages import Follows, LogId, Position, Subscribe, TopicKey
from fieldfare.model import Condition
from fieldfare.routing.interest import Interest
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.ports import START
from fieldfare.routing.publication import ImportedEvents


@dataclass(slots=True, eq=False)
class OriginReplay:
    """One origin's log, being read for a subscription."""

    replay: Replay
    log: LogId
    link: str | None = None
    taking: Position = START
    has_begun: bool = False  # something came from it
    is_read: bool = False  # up to `taking`, which is beyond what this edge had taken for all
    held: Follows | None = None  # its next event comes after these positions of other logs, which are not read yet

    @property
    def is_held(self) -> bool:
        """Whether it is not read on for now."""
        return self.held is not None


@dataclass(slots=True, eq=False)
class OwnReplay(OriginReplay):
    """The log of this edge itself, of which only events of publishers that came from other edges are read."""

    is_fetching: bool = False
    upto: Position | None = None  # where it ends: such publishers wait meanwhile


@dataclass(frozen=True, slots=True)
class ReplayedEvents:
    """Events of a replay on their way to the log."""

    origin: OriginReplay
    imported: ImportedEvents
    upto: Position


@dataclass(slots=True, eq=False)
class Replay:
    """A subscription that waits for what is alive elsewhere."""

    pending: PendingSubscription
    receiver: LogId
    condition: Condition
    interest: Interest
    until: float = 0.0  # while it is being read: when to give up, if nothing comes
    is_reading: bool = False  # else it waits for its turn
    abandoned_at: float | None = None  # since when nobody is there to be served
    origins: dict[LogId, OriginReplay] = field(default_factory=dict)
    unstored: int = 0  # parts of ranges that are on their way to the log
    left_out: list[LogId] = field(default_factory=list)  # that could not be reached
    own: OwnReplay | None = None  # if publishers that came from other edges have published here
    is_pausing: bool = False  # such publishers wait until it ends

    @property
    def topic(self) -> TopicKey:
        """The topic of the subscription."""
        return self.pending.topic.key

    def is_for(self, tenant: str, frame: Subscribe) -> bool:
        """Whether a request asks for the very subscription of this replay."""
        own = self.pending.frame
        asked = (frame.topic, frame.condition, frame.qos, frame.name, frame.after)
        return self.topic[0] == tenant and (own.topic, own.condition, own.qos, own.name, own.after) == asked
