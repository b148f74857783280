"""How a publisher says what it will publish, and moves from one edge, the source, to another, the target.

    client ── Advertise ─▶ target     so that the overlay knows of the publisher there
    client ── Seal ──────▶ source     from now on it publishes nothing there; Sealed says what it takes along
    client ── Adopt ─────▶ target     what it takes along is in the log there, and it goes on with its next numbers

Every step may be repeated. A publisher that has moved n times is of generation n: by that, what is late is known.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from fieldfare.messages.frames import ConditionText, Frame, Name, Position, Ref, Text

IDS_MAX = 4096  # of a sealed publisher, the latest
Generation: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number: TypeAlias = Annotated[int, Meta(ge=-1, le=2**63 - 1)]  # of a publisher's event; -1 is before the first
SourceLog: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Url: TypeAlias = Annotated[str, Meta(max_length=2048)]  # of an edge; empty: it has none for clients


class _Part(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Earlier(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Up to where a log has earlier events of a publisher, and whose log it is."""

    position: Position
    edge: str  # its name: if it has another log by now, this one is gone


Follows: TypeAlias = dict[str, Earlier]  # of an event, by log: it comes after these


class Predecessor(_Part, frozen=True):
    """A log with earlier events of a publisher in a topic: what it publishes elsewhere comes after them."""

    log: SourceLog
    edge: Text  # whose log it is
    position: Position  # none of its events lies beyond it
    seconds_left: float  # until the last of them has expired


class SealedTopic(_Part, frozen=True):
    """What a publisher takes along of one topic."""

    topic: Name
    last: Number = -1  # its last number, if it numbers its events
    ids: list[Text] = []  # recent ones, by which a repetition is known
    predecessors: list[Predecessor] = []


class SealedPublisher(_Part, frozen=True):
    """What a publisher takes along to another edge, which is where it is to go."""

    publisher: Text
    generation: Generation  # from now on
    target: Text  # the name of the edge
    url: Url
    topics: list[SealedTopic] = []


# What a client sends


class Advertise(Frame, frozen=True, tag="advertise"):
    """What a publisher of this connection will publish in a topic; answered by Done when the overlay knows of it.

    From then on an event that does not satisfy the condition is refused. Advertising again replaces the condition.
    """

    ref: Ref
    topic: Name
    publisher: Text
    condition: ConditionText | None = None  # None: anything
    generation: Generation = 0


class Unadvertise(Frame, frozen=True, tag="unadvertise"):
    """A publisher takes back what it advertised, as it does when its connection ends; answered by Done."""

    ref: Ref
    topic: Name
    publisher: Text


class Seal(Frame, frozen=True, tag="seal"):
    """A publisher leaves for another edge; answered by Sealed. It can publish here again only when it comes back.

    If it was sealed before, for another target, the first one counts.
    """

    ref: Ref
    publisher: Text
    generation: Generation  # the next one
    target: Text
    url: Url = ""


class Adopt(Frame, frozen=True, tag="adopt"):
    """A publisher comes from another edge; answered by Done when it may go on here."""

    ref: Ref
    sealed: SealedPublisher


class EdgesPinged(Frame, frozen=True, tag="edges_pinged"):
    """The answer to PingEdges: seconds for a request and its answer, None where none came. Not answered."""

    number: Ref
    round_trip_seconds: list[float | None]


# What an edge sends


class Sealed(Frame, frozen=True, tag="sealed"):
    """A publisher publishes nothing here any more; this is what it takes along."""

    ref: Ref
    sealed: SealedPublisher


class MovePublisher(Frame, frozen=True, tag="move_publisher"):
    """The edge asks a publisher to move to another edge. Only for clients that advertise. Not answered."""

    publisher: Text
    generation: Generation  # the next one
    target: Text
    url: Url


class Candidate(_Part, frozen=True):
    """An edge that a publisher may move to."""

    name: Text
    url: Url


class PingEdges(Frame, frozen=True, tag="ping_edges"):
    """The edge asks how far other edges are from the client; answered by EdgesPinged. As MovePublisher."""

    number: Ref
    candidates: list[Candidate]
