"""Why a request is not carried out."""

from __future__ import annotations

from fieldfare.messages import Identity, RefusalCode, Right


class Refusal(Exception):  # noqa: N818 - it is an answer, not an error of the broker
    """Ends the work on a request, and becomes the answer Refused."""

    def __init__(self, code: RefusalCode, reason: str, expected: int | None = None, *, home: str | None = None) -> None:
        super().__init__(reason)
        self.code, self.reason, self.expected, self.home = code, reason, expected, home


def require(identity: Identity, right: Right, topic: str) -> None:
    """Refuse who has no right."""
    if not identity.may(right, topic):
        raise Refusal("forbidden", f"this token has no right to {right} in topic {topic!r}")


def may_see(identity: Identity, topic: str) -> bool:
    """Whether a client may know that a topic exists."""
    return any(identity.may(right, topic) for right in ("publish", "subscribe", "manage"))
