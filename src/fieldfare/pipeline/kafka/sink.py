"""Which topics are the output of a pipeline, and how messages are made for them."""

from __future__ import annotations

from dataclasses import dataclass

from fieldfare.errors import InputError
from fieldfare.kafka.address import KafkaTopic


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """Topics as the place of a pipeline's output. `key` is the event's column that keys its message."""

    topic: KafkaTopic
    key: str | None = None
    message_bytes_max: int = 1_000_000

    def __post_init__(self) -> None:
        if self.message_bytes_max < 1_000:
            raise InputError("messages need a limit of 1,000 bytes at least")
