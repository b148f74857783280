"""What a tenant has at an edge, page by page in the order of names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from fieldfare.messages import Identity, List, Member
from fieldfare.routing.lag import kept_of, lag_of
from fieldfare.routing.refusal import may_see
from fieldfare.routing.taker import Taker
from fieldfare.routing.topic import Topic

if TYPE_CHECKING:
    from fieldfare.routing.edge_parts import EdgeParts


def page(parts: EdgeParts, identity: Identity, frame: List, now: float) -> tuple[list[dict[str, Any]], str | None]:
    """Some items, and after which name the next page begins. Edges are few: they come on one page."""
    if frame.what == "edges":
        return [_edge_item(number, member) for number, member in enumerate(parts.edges())], None
    if frame.what == "placement":
        return [], None  # only a broker of a tree places publishers, and answers itself
    if frame.what == "dead_letters":
        taker = parts.subscribing.own(identity, frame.subscription or "")
        return _dead_letters(parts, taker), None
    if frame.what == "topics":
        topics = (
            topic for topic in parts.topics if topic.tenant == identity.tenant and frame.topic in (None, topic.name)
        )
        seen = {topic.name: topic for topic in topics if may_see(identity, topic.name)}
        chosen, following = _cut(seen, frame)
        return [_topic_item(parts, seen[name], now) for name in chosen], following
    known = {
        taker.subscription.id: taker
        for taker in _takers(parts, identity.tenant, frame.subscription)
        if identity.may("subscribe", taker.subscription.topic)
    }
    chosen, following = _cut(known, frame)
    return [_subscription_item(parts, known[name], now) for name in chosen], following


def _takers(parts: EdgeParts, tenant: str, name: str | None) -> Iterable[Taker]:
    """Those of a tenant, or the one of a name, if there is one."""
    if name is None:
        return parts.takers.of_tenant(tenant)
    taker = parts.takers.get(tenant, name)
    return [] if taker is None else [taker]


def _cut(names: Iterable[str], frame: List) -> tuple[list[str], str | None]:
    later = sorted(name for name in names if name > frame.after)
    chosen = later[: frame.count_max]
    return chosen, chosen[-1] if len(later) > len(chosen) else None


def _edge_item(number: int, member: Member) -> dict[str, Any]:
    return {"edge": member.name, "url": member.url, "load": round(member.load, 2), "is_this": number == 0}


def _topic_item(parts: EdgeParts, topic: Topic, now: float) -> dict[str, Any]:
    kept = kept_of(topic, parts.topics.kept_from, now)
    return {
        "topic": topic.name,
        "matching": topic.matching,
        "offered": msgspec.structs.asdict(topic.offered),
        "events": topic.event_count,
        "counted_since": parts.started_at,
        "events_per_second": round(topic.times.events_per_second(now), 3),
        "kept_events": kept.events,
        "kept_bytes": kept.size_bytes,
        "oldest_seconds": None if kept.oldest_seconds is None else round(kept.oldest_seconds, 3),
        "subscriptions": len(topic.takers),
    }


def _subscription_item(parts: EdgeParts, taker: Taker, now: float) -> dict[str, Any]:
    subscription, topic = taker.subscription, parts.topics.of(taker)
    lag = lag_of(topic, taker, parts.topics.kept_from, now)
    error = taker.last_error
    return {
        "subscription": subscription.id,
        "topic": subscription.topic,
        "condition": subscription.condition,
        "qos": msgspec.structs.asdict(subscription.qos),
        "is_durable": subscription.is_durable,
        "is_attached": taker.is_attached,
        "webhook": subscription.webhook,
        "webhook_form": subscription.webhook_form,
        "consuming": msgspec.structs.asdict(subscription.consuming),
        "is_shared": subscription.consuming.is_shared,
        "consumers": len(taker.links),
        "is_paused": subscription.is_paused,
        "outstanding": len(taker.in_flight) if taker.outstanding is None else len(taker.outstanding),
        "dead_letters": len(parts.dead_letters.of(subscription.key)),
        "behind_events": lag.events,
        "behind_seconds": round(lag.seconds, 3),
        "is_behind_exact": lag.is_exact,
        "in_flight": lag.in_flight,
        "is_taken": taker.is_attached and not subscription.is_paused,
        "last_error": None if error is None else {"at": error[0], "reason": error[1]},
        "position": taker.cursor,
        "counted_since": parts.started_at,
        "accepted": taker.matched_count,
        "expired": taker.expired_count,
        "dropped": taker.dropped_total,
        "rejected": max(0, topic.event_count - taker.first_count - taker.matched_count),
    }


def _dead_letters(parts: EdgeParts, taker: Taker) -> list[dict[str, Any]]:
    return [
        {
            "id": letter.id,
            "at": letter.at,
            "reason": letter.reason,
            "attempts": letter.attempts,
            "event": msgspec.Raw(letter.delivery),
        }
        for letter in parts.dead_letters.of(taker.subscription.key)
    ]
