"""Auditing: who made, changed or ended what, told to the host when it has happened.

A request is noted when it comes, with who asked, and told when it is answered, unless it is refused. What it says of
events, such as a condition, and where a webhook lies, is nobody else's: only names are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from fieldfare.messages import (
    Audit,
    Change,
    DeclareTopic,
    DeleteTopic,
    DropDeadLetters,
    Identity,
    PauseDelivery,
    Redrive,
    ResumeDelivery,
    Seek,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from fieldfare.routing.ports import Emit, Replies
from fieldfare.routing.topic import Topics

_WAITING_MAX = 100_000  # requests that have not been answered: of more, the oldest are not told


class _Noted(NamedTuple):
    action: str
    kind: str
    name: str
    topic: str | None = None


_ACTIONS: Mapping[type, str] = {
    Seek: "moved",
    Change: "changed",
    PauseDelivery: "paused",
    ResumeDelivery: "resumed",
    Redrive: "redriven",
    DropDeadLetters: "dropped",
    Unsubscribe: "deleted",
}


class Auditing:
    """Tells of all that one broker is asked to change."""

    def __init__(self, emit: Emit, topics: Topics, replies: Replies) -> None:
        self._emit, self._topics, self._replies = emit, topics, replies
        self._now = 0.0
        topics.on_created = self._created

    def asked(self, link: str, identity: Identity, frame: Any, now: float) -> None:
        """A client asks for something."""
        self._now = now
        noted = self._noted(identity, frame)
        if noted is not None:
            waiting = self._replies.awaited
            if len(waiting) >= _WAITING_MAX:
                del waiting[next(iter(waiting))]
            waiting[link, frame.ref] = partial(self._answered, identity, noted, now)

    def _noted(self, identity: Identity, frame: Any) -> _Noted | None:
        match frame:
            case Subscribe(name=str(name), topic=topic):
                return _Noted("created", "subscription", name, topic)
            case DeclareTopic(topic=topic):
                is_there = (identity.tenant, topic) in self._topics
                return _Noted("changed" if is_there else "created", "topic", topic)
            case DeleteTopic(topic=topic):
                return _Noted("deleted", "topic", topic)
        action = _ACTIONS.get(type(frame))
        if action is None:
            return None
        kind = "dead_letters" if isinstance(frame, Redrive | DropDeadLetters) else "subscription"
        return _Noted(action, kind, frame.subscription)

    def _answered(self, identity: Identity, noted: _Noted, now: float, answer: Any) -> None:
        if not isinstance(answer, Subscribed) or answer.is_new:
            self._emit(Audit(now, identity.tenant, identity.token, *noted))

    def _created(self, identity: Identity, topic: str) -> None:
        self._emit(Audit(self._now, identity.tenant, identity.token, "created", "topic", topic))
