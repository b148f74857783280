"""How a bridge behaves in its DDS domain, and how much it lets wait."""

from __future__ import annotations

import re
import secrets
import socket
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class DdsOptions:
    """The options of one bridge. `name` is unique among the bridges of a deployment."""

    domain: int
    name: str
    deployment: str = "fieldfare"  # bridges of one deployment in one domain stand by for each other
    topics: tuple[str, ...] = ("*",)  # patterns of the names of DDS topics that are bridged
    lease_seconds: float = 5.0  # a bridge that was killed is missed, and replaced, after so long
    settle_seconds: float = 1.0  # a new bridge first listens for others for so long
    waiting_max: int = 4096  # samples of a kind of writers that wait for the edge; beyond it none are taken from DDS,
    waiting_bytes_max: int = 16 * 1024 * 1024  # nor beyond this, but for the last that were taken
    held_max: int = 50_000  # samples of a topic that a bridge which stands by remembers, each way,
    held_bytes_max: int = 16 * 1024 * 1024  # and their size
    announce_seconds: float = 900.0  # how often the writers of the domain are announced to the other bridges

    def is_bridged(self, topic: str) -> bool:
        """Whether a DDS topic may be bridged. Those of DDS itself never are."""
        return not topic.startswith("DCPS") and any(fnmatchcase(topic, pattern) for pattern in self.topics)

    @property
    def held_seconds(self) -> float:
        """After this time whoever carries has dealt with a sample in one way or another."""
        return 3 * self.lease_seconds + 5.0


def some_name() -> str:
    """A name for a bridge that was given none; no other bridge has it, not even on the same machine."""
    return f"{re.sub('[^A-Za-z0-9]', '-', socket.gethostname())}-{secrets.token_hex(4)}"
