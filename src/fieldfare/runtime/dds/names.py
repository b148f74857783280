"""Names that cross the bridge: of topics, of samples, and the mark by which bridges know each other in a domain."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Self

import msgspec

from fieldfare.messages.frames import NAME_PATTERN

WRITERS_TOPIC = "dds-writers"  # where bridges tell each other which writers their domains have
PREFIX = "dds."
DISPOSED_KEY = "dds.state"  # in an event: the sample is gone; no member of a DDS type can be named so
_ESCAPED = re.compile(r"[^A-Za-z0-9_/]")
_MARK = "fieldfare-bridge"
_name = re.compile(NAME_PATTERN)


def edge_topic(dds_topic: str) -> str | None:
    """The edge's topic for one of DDS, never the same for two: `rt/odom` is `dds.rt.odom`; None if it is too long."""
    escaped = _ESCAPED.sub(lambda found: "".join(f"-{byte:02X}" for byte in found[0].encode()), dds_topic)
    name = PREFIX + escaped.replace("/", ".")
    return name if _name.match(name) else None


class SampleId(msgspec.Struct, frozen=True):
    """What makes a sample one and the same wherever it is seen: its writer, its time of writing, and its content.

    The content is part of it because an application may write several samples with one time of its own.
    """

    writer: str
    timestamp_ns: int
    digest: str

    @classmethod
    def of(cls, writer: str, timestamp_ns: int, text: bytes) -> Self:
        """The id of a sample, whose event is `text`."""
        return cls(writer, timestamp_ns, blake2b(text, digest_size=8).hexdigest())

    @classmethod
    def parse(cls, event_id: str) -> Self | None:
        """The sample that an event was; None if it was not published by a bridge."""
        writer, _, rest = event_id.partition(":")
        timestamp, _, digest = rest.partition(":")
        if len(writer) != 32 or len(digest) != 16 or not re.fullmatch(r"-?\d{1,19}", timestamp):
            return None
        return cls(writer, int(timestamp), digest)

    @property
    def event_id(self) -> str:
        """The id under which it is published."""
        return f"{self.writer}:{self.timestamp_ns}:{self.digest}"


class Mark(msgspec.Struct, frozen=True):
    """What a bridge writes into the user data of its participant."""

    deployment: str
    name: str
    is_carrying: bool = False

    def encode(self) -> bytes:
        """As user data."""
        state = "carrying" if self.is_carrying else "standing-by"
        return f"{_MARK}:{self.deployment}:{self.name}:{state}".encode()

    @classmethod
    def decode(cls, user_data: bytes) -> Self | None:
        """The mark of a participant; None if it is not a bridge's."""
        parts = user_data.decode(errors="replace").split(":")
        if len(parts) != 4 or parts[0] != _MARK:
            return None
        return cls(parts[1], parts[2], parts[3] == "carrying")
