"""Which words of `fieldfare.qos` peers keep. The others are refused with the reason, as a topic refuses them."""

from __future__ import annotations

from fieldfare.errors import IncompatibleQosError
from fieldfare.qos import Offered, Published, Reliability, Requested, broken

DEFAULT = Requested(order="none")
_BEST_EFFORT_TOPIC = (
    "it requests reliability 'reliable', but this peer declares the topic for best effort: request 'best_effort'"
)
_REASONS = {
    "durability": "peers keep no past events for who comes later: request durability 'volatile'",
    "order": "events between peers may overtake each other: request order 'none'",
    "deadline_seconds": "peers do not watch for silence: leave deadline_seconds out",
    "latency_budget_seconds": "peers have no second path for urgent events: leave latency_budget_seconds out",
}


def check_requested(reliability: Reliability, requested: Requested) -> None:
    """Raise an IncompatibleQosError if peers cannot do what a subscription to a topic asks for."""
    if requested.reliability == "reliable" and reliability == "best_effort":
        raise IncompatibleQosError("qos", _BEST_EFFORT_TOPIC)
    for name, reason in _REASONS.items():
        if getattr(requested, name) != getattr(DEFAULT, name):
            raise IncompatibleQosError("qos", reason)


def check_published(reliability: Reliability, lifespan_seconds_max: float, published: Published) -> None:
    """Raise an IncompatibleQosError if peers cannot keep what a publication says of itself."""
    if published.durability == "transient":
        raise IncompatibleQosError("qos", "peers keep no past events for who comes later: leave durability out")
    offered = Offered(reliability, "volatile", lifespan_seconds_max, order="none")
    if (reason := broken(offered, published)) is not None:
        raise IncompatibleQosError("qos", reason)
