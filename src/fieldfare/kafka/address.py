"""Which topic, at which brokers, and how to connect: `kafka://host:9092,other:9092/topic` and librdkafka's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fieldfare.errors import InputError

SCHEME = "kafka://"
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"([^\s:/@,]+|\[[0-9a-fA-F:]+\]):\d{1,5}")
_OURS = {  # what exactly-once stands on, or what the address says
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "metadata.broker.list",
    "request.required.acks",
    "transactional.id",
}


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic. `settings` are librdkafka's own, such as `security.protocol`; they may hold secrets."""

    brokers: str
    name: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not all(_BROKER.fullmatch(broker) for broker in self.brokers.split(",")):
            raise InputError(f"{self}: brokers are named as host:port, with commas between them")
        if not _TOPIC_NAME.fullmatch(self.name) or self.name in {".", ".."}:
            raise InputError(f"{self}: a topic's name has letters, digits, '.', '_' and '-', at most 249 of them")
        if taken := sorted(_OURS & set(self.settings)):
            raise InputError(f"Kafka's setting {taken[0]!r} is decided by Fieldfare: leave it out")

    def __str__(self) -> str:
        return f"{SCHEME}{self.brokers}/{self.name}"

    @staticmethod
    def parse(url: str, settings: Mapping[str, str] | None = None) -> KafkaTopic:
        """From an address such as kafka://host:9092/topic."""
        brokers, slash, name = url.removeprefix(SCHEME).partition("/")
        if not url.startswith(SCHEME) or not slash or "@" in brokers:
            place = url if "@" not in url else f"{SCHEME}…"  # what stands before an @ may be a password
            raise InputError(
                f"{place}: a topic's address is kafka://host:9092/topic; how to log in stands in a file of settings"
            )
        return KafkaTopic(brokers, name, settings or {})

    def beside(self, suffix: str) -> KafkaTopic:
        """A topic at the same brokers whose name goes on."""
        return KafkaTopic(self.brokers, self.name + suffix, self.settings)


def is_kafka(place: str) -> bool:
    """Whether a place is a Kafka topic's address."""
    return place.startswith(SCHEME)


def read_settings(path: Path) -> dict[str, str]:
    """The settings of a file with lines `name = value`; what follows a # at a line's start is a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: Kafka's settings cannot be read: {error}") from error
    settings = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            name, equals, value = line.partition("=")
            if not equals:
                raise InputError(f"{path}:{number}: a setting is a line such as security.protocol = SASL_SSL")
            settings[name.strip()] = value.strip()
    return settings
