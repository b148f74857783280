"""What may be asked of a subscription, when it is made and when it is changed, and where it begins."""

from __future__ import annotations

from fieldfare.messages import Change, LogId, Position, Start, Subscribe
from fieldfare.qos import unmet
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.subscription import Subscription
from fieldfare.routing.topic import Topic


def start_position(start: Start, topic: Topic, log: LogId, last: Position) -> Position:
    """After which position to begin; for a time, the few events of before are passed over as they are read."""
    if start.time is not None:
        return max(topic.times.before(start.time), topic.begins_after)
    if start.position is None:
        return topic.begins_after
    if start.log and start.log != log:
        raise Refusal("invalid", "this position belongs to another log: name a time, which means the same everywhere")
    return min(max(start.position, topic.begins_after), last)


def check_consuming(frame: Subscribe, topic: Topic) -> None:
    """Refuse what cannot be done for a subscription without a name, or in a topic that keeps nothing."""
    if frame.webhook is not None and frame.name is None:
        raise Refusal("invalid", "a webhook needs a name: it outlives the connection")
    if frame.consuming.is_shared and frame.name is None:
        raise Refusal("invalid", "a shared subscription needs a name, by which its consumers find it")
    if frame.consuming.is_shared and frame.webhook is not None:
        raise Refusal("invalid", "a webhook is the one consumer of its subscription: it cannot be shared")
    if frame.start is not None and frame.after is not None:
        raise Refusal("invalid", "`after` and `start` both say where it begins: give one of them")
    if frame.start is not None and not topic.can_be_read_by(frame.qos):
        raise Refusal("qos", "its topic keeps no events, or it asks for best effort: it can begin only with new ones")


def check_change(frame: Change, made: Subscription, topic: Topic) -> None:
    """Refuse a change that cannot be made to a subscription that exists."""
    if frame.qos is not None and (reason := unmet(topic.offered, frame.qos)):
        raise Refusal("qos", reason)
    if topic.matching == "spark" and frame.condition not in (None, made.condition):
        raise Refusal("invalid", "the pipeline has its condition: end it, and make another one")
    if (frame.webhook is None) != (made.webhook is None) and frame.webhook is not None:
        raise Refusal("invalid", "it is taken by clients: end it, and make another one with a webhook")
    if frame.consuming is not None and frame.consuming.is_shared and made.webhook is not None:
        raise Refusal("invalid", "a webhook is the one consumer of its subscription: it cannot be shared")
