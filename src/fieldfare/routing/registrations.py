"""Subscriptions to topics that Spark matches at another edge, their home: what they want is registered there.

For such a topic this edge wants nothing of other logs but what the home's pipeline finds for its subscriptions. Each
change of them is a version of its interest; the home confirms the versions that its pipeline has. It is told the
changes since the last of these, or everything where this edge does not know them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fieldfare.messages import LogId, Register, Send, TopicKey, Version
from fieldfare.routing.exported_interest import ExportedInterest
from fieldfare.routing.origin import Origin
from fieldfare.routing.ports import Emit
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import Topic

_PART_BYTES = 256 * 1024  # of one message, about
_PATIENCE_SECONDS = 5.0  # after that, what the home has not confirmed is sent again

_Change: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A subscription, and the version since which it has this condition; None: it has ended."""

    condition: str | None
    version: Version


@dataclass(slots=True, eq=False)
class _TopicRegistrations:
    topic: Topic
    first_version: Version = 0  # changes are known since this one
    listed: dict[str, _Listed] = field(default_factory=dict)  # by subscription
    confirmed: Version | None = None  # by the home; None: it has not said
    sent: tuple[Version, str] | None = None  # the last version that was sent, and the link
    sent_at: float | None = None  # about when; None: since `tidy` was called


class Registrations:
    """Those of all topics. `home_of` gives the home as an origin, if it is known."""

    def __init__(self, emit: Emit, wanted: ExportedInterest, home_of: Callable[[Topic], Origin | None]) -> None:
        self.log_id: LogId = ""
        self._emit, self._wanted, self._home_of = emit, wanted, home_of
        self._topics: dict[TopicKey, _TopicRegistrations] = {}

    def begin(self, topic: Topic) -> None:
        """A topic is matched elsewhere from now on, or this edge has just started."""
        version = self._wanted.renew(topic)
        listed = {taker.id: _Listed(taker.subscription.condition, version) for taker in topic.takers.values()}
        self._topics[topic.key] = _TopicRegistrations(topic, version, listed)

    def add(self, topic: Topic, subscription: Subscription) -> None:
        """A subscription is being made."""
        listed = _Listed(subscription.condition, self._wanted.renew(topic))
        self._topics[topic.key].listed[subscription.id] = listed

    def remove(self, topic: Topic, subscription: str) -> None:
        """A subscription has ended, or was not made after all."""
        if (known := self._topics.get(topic.key)) is not None and subscription in known.listed:
            known.listed[subscription] = _Listed(None, self._wanted.renew(topic))

    # What the home is told

    def met(self, topic: Topic) -> None:
        """The home has joined: what was sent before may not have come there."""
        if (known := self._topics.get(topic.key)) is not None:
            known.sent = known.confirmed = None

    def confirmed(self, topic: Topic, version: Version) -> None:
        """The home's pipeline has this version."""
        if (known := self._topics.get(topic.key)) is not None:
            known.confirmed = version
            for subscription, listed in list(known.listed.items()):
                if listed.condition is None and listed.version <= version:
                    del known.listed[subscription]
            self.tell(topic)

    def tell(self, topic: Topic) -> None:
        """Tell the home what it does not know yet, if it has said what it knows."""
        known, home = self._topics.get(topic.key), self._home_of(topic)
        if known is None or known.confirmed is None or home is None or not home.links:
            return
        version, link = self._wanted.of(topic).stored_version, home.links[-1]
        if version <= known.confirmed or known.sent == (version, link):
            return
        known.sent, known.sent_at = (version, link), None
        since = known.confirmed if known.confirmed >= known.first_version else None
        parts = _parts(list(_changes(known, since)))
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            frame = Register(topic.key, home.log, self.log_id, version, since, part, number, is_last)
            self._emit(Send(link, frame))

    def tidy(self, now: float) -> None:
        """Send again what was not confirmed for a while."""
        for known in self._topics.values():
            if known.sent is None or known.confirmed is None or known.confirmed >= known.sent[0]:
                continue
            if known.sent_at is None:
                known.sent_at = now
            elif now - known.sent_at > _PATIENCE_SECONDS:
                known.sent = None
                self.tell(known.topic)


def _changes(known: _TopicRegistrations, since: Version | None) -> Iterator[_Change]:
    for subscription, listed in known.listed.items():
        if listed.version > since if since is not None else listed.condition is not None:
            yield subscription, listed.condition


def _parts(changes: Sequence[_Change]) -> list[list[_Change]]:
    """Changes in parts that are not too long for a message; at least one."""
    parts: list[list[_Change]] = [[]]
    size_bytes = 0
    for change in changes:
        size_bytes += len(change[0]) + 4 * len(change[1] or "")
        if size_bytes > _PART_BYTES and parts[-1]:
            parts.append([])
            size_bytes = 0
        parts[-1].append(change)
    return parts
