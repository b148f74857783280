"""How a carrier between the edge and Kafka is: what it has carried, and what it waits for."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

_log = logging.getLogger(__name__)


class CarrierState(StrEnum):
    """What a carrier does."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # for something that may come back
    STOPPED = "stopped"  # for good: somebody has to do something


@dataclass(slots=True)
class LinkStatus:
    """One carrier. Counts are since the service started."""

    tenant: str
    topic: str
    direction: Literal["in", "out"]
    kafka: str  # the address of the topic
    state: CarrierState = CarrierState.STARTING
    reason: str = ""  # why it waits, or has stopped
    events: int = 0
    quarantined: int = 0  # messages that are no events, or events that Kafka does not take
    lost: int = 0  # what was removed before it was read
    behind: int | None = None  # messages that it has to read; of an outflow the subscription's lag says it
    positions: dict[int, int] = field(default_factory=dict)  # the next offset of each partition

    def runs(self) -> None:
        """It carries."""
        if self.state is CarrierState.WAITING:
            _log.info("Kafka: %s goes on", self)
        self.state, self.reason = CarrierState.RUNNING, ""

    def waits(self, reason: str) -> None:
        """It waits; said once for each reason."""
        if (self.state, self.reason) != (CarrierState.WAITING, reason):
            _log.warning("Kafka: %s waits: %s", self, reason)
        self.state, self.reason = CarrierState.WAITING, reason

    def stops(self, reason: str) -> None:
        """It does nothing any more."""
        _log.error("Kafka: %s has stopped: %s", self, reason)
        self.state, self.reason = CarrierState.STOPPED, reason

    def told(self) -> dict[str, Any]:
        """As people and programs are told."""
        told = asdict(self)
        del told["tenant"]
        return {**told, "state": str(self.state), "reason": self.reason or None}

    def __str__(self) -> str:
        return f"{self.kafka} → {self.topic}" if self.direction == "in" else f"{self.topic} → {self.kafka}"
