"""All frames of the protocol between clients and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from fieldfare.messages.consuming_frames import (
    AckEach,
    Change,
    DropDeadLetters,
    Nack,
    PauseDelivery,
    Redrive,
    ResumeDelivery,
    Seek,
)
from fieldfare.messages.frames import (
    Accepted,
    Ack,
    Attach,
    DeclareTopic,
    DeleteTopic,
    Deliver,
    Detach,
    Done,
    List,
    Listed,
    Notice,
    Publish,
    Refused,
    SetWindow,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fieldfare.messages.move_frames import (
    Adopt,
    Advertise,
    EdgesPinged,
    MovePublisher,
    PingEdges,
    Seal,
    Sealed,
    Unadvertise,
)

MoveRequest: TypeAlias = Advertise | Unadvertise | Seal | Adopt
ClientFrame: TypeAlias = (
    Publish
    | Subscribe
    | Attach
    | Ack
    | SetWindow
    | Detach
    | Unsubscribe
    | DeclareTopic
    | DeleteTopic
    | List
    | Advertise
    | Unadvertise
    | Seal
    | Adopt
    | EdgesPinged
    | AckEach
    | Nack
    | Seek
    | Change
    | PauseDelivery
    | ResumeDelivery
    | Redrive
    | DropDeadLetters
)
EdgeFrame: TypeAlias = (
    Accepted
    | Subscribed
    | Deliver
    | Notice
    | Unsubscribed
    | Done
    | Listed
    | Refused
    | Sealed
    | MovePublisher
    | PingEdges
)
# The answer to each request; any may be answered by Refused instead. Frames without a ref are not answered.
ANSWERS: Mapping[type[msgspec.Struct], type[msgspec.Struct]] = {
    Publish: Accepted,
    Subscribe: Subscribed,
    Attach: Subscribed,
    Unsubscribe: Unsubscribed,
    List: Listed,
    Seal: Sealed,
    **dict.fromkeys(
        (
            Adopt,
            Advertise,
            Change,
            DeclareTopic,
            DeleteTopic,
            DropDeadLetters,
            PauseDelivery,
            Redrive,
            ResumeDelivery,
            Seek,
            SetWindow,
            Unadvertise,
        ),
        Done,
    ),
}
