"""What a client says of a durable subscription and its single events: refuse, seek, change, pause, dead letters.

What an edge answers to the requests is Done. Other edges are asked for a subscription that this one does not have, as
for Unsubscribe.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from fieldfare.messages.frames import ConditionText, Frame, Name, Position, PositionLog, Ref, Start
from fieldfare.qos import Consuming, Requested

SETTLED_MAX = 10_000  # positions in one frame
REASON_CHARACTERS_MAX = 1024
Positions: TypeAlias = Annotated[list[Position], Meta(min_length=1, max_length=SETTLED_MAX)]
LetterIds: TypeAlias = Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=SETTLED_MAX)]
Delay: TypeAlias = Annotated[float, Meta(ge=0, le=86_400)]


class AckEach(Frame, frozen=True, tag="ack_each"):
    """Single events of a subscription have been dealt with. Not answered."""

    subscription: str
    positions: Positions


class Nack(Frame, frozen=True, tag="nack"):
    """An event of a subscription could not be dealt with: send it again later. Not answered.

    One that was refused too often becomes a dead letter of the subscription.
    """

    subscription: str
    position: Position
    reason: Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)] = ""
    delay_seconds: Delay | None = None  # None: as the subscription's backoff says
    attempt: Annotated[int, Meta(ge=1)] | None = None  # as its delivery said: of a later one it says nothing


class _SubscriptionRequest(Frame, frozen=True, kw_only=True):
    log: PositionLog | None = None  # of a client that can be told of its home at another edge; empty, or any log
    topic: Name | None = None  # as in Attach


class Seek(_SubscriptionRequest, frozen=True, tag="seek"):
    """Have a subscription go on from another place; what is on its way is forgotten. Answered by Done."""

    ref: Ref
    subscription: str
    start: Start


class Change(_SubscriptionRequest, frozen=True, tag="change"):
    """Change what a subscription asks for, from the next event that is sent on. Answered by Done.

    It keeps its place, and what is on its way stays on its way. What is left out stays as it is.
    """

    ref: Ref
    subscription: str
    condition: ConditionText | None = None
    qos: Requested | None = None
    consuming: Consuming | None = None
    webhook: Annotated[str, Meta(max_length=2048)] | None = None


class PauseDelivery(_SubscriptionRequest, frozen=True, tag="pause"):
    """Deliver no more of a subscription, to whomever, until ResumeDelivery; its events wait. Answered by Done."""

    ref: Ref
    subscription: str


class ResumeDelivery(_SubscriptionRequest, frozen=True, tag="resume"):
    """Go on delivering a subscription. Answered by Done."""

    ref: Ref
    subscription: str


class Redrive(_SubscriptionRequest, frozen=True, tag="redrive"):
    """Send dead letters of a subscription again; answered by Done with their number."""

    ref: Ref
    subscription: str
    ids: LetterIds | None = None  # as List names them; None: all


class DropDeadLetters(_SubscriptionRequest, frozen=True, tag="drop_dead_letters"):
    """Forget dead letters of a subscription; answered by Done with their number."""

    ref: Ref
    subscription: str
    ids: LetterIds | None = None  # as in Redrive


SubscriptionRequest: TypeAlias = Seek | Change | PauseDelivery | ResumeDelivery | Redrive | DropDeadLetters
