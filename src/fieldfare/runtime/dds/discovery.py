"""What a bridge finds in its DDS domain by the built-in topics: other bridges, and the endpoints of applications."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec
from cyclonedds.qos import Qos

from fieldfare.qos import Durability, Reliability
from fieldfare.runtime.dds.names import Mark, SampleId
from fieldfare.runtime.dds.policies import WriterPolicies


class IntakeKey(msgspec.Struct, frozen=True):
    """Which writers one DDS reader of a bridge serves.

    A reader gets no more than it requests, and nothing from a writer that offers less: so there is one for each kind.
    """

    topic: str
    type_key: bytes
    reliability: Reliability
    durability: Durability


class Endpoint(NamedTuple):
    """A DDS reader or writer in the domain that is not of this bridge."""

    guid: str
    participant: str
    topic: str
    type_key: bytes
    qos: Qos
    policies: WriterPolicies  # of a reader: what it requests
    is_writer: bool
    is_bridge: bool  # of another bridge's participant
    problem: str | None = None  # why it cannot be bridged

    @property
    def intake_key(self) -> IntakeKey:
        """By which DDS reader of the bridge a writer is read."""
        return IntakeKey(self.topic, self.type_key, self.policies.reliability, self.policies.durability)


class EndpointGone(NamedTuple):
    """A reader or writer is there no longer."""

    guid: str


class BridgeSeen(NamedTuple):
    """Another bridge is in the domain, or says something new of itself."""

    participant: str
    mark: Mark


class BridgeGone(NamedTuple):
    """It is there no longer."""

    participant: str


Discovered: TypeAlias = Endpoint | EndpointGone | BridgeSeen | BridgeGone


class Taken(NamedTuple):
    """A sample that was taken from DDS, as an event."""

    id: SampleId
    event: bytes
    writer: Endpoint


class Outgoing(NamedTuple):
    """A sample that is to be written to DDS."""

    sample: Any
    timestamp_ns: int | None  # None: now
    is_disposed: bool
