"""Whether subscribers were told of gaps exactly when there were any.

Events may be missing for good: they expired before they could be delivered, or left a log that had become too large.
Then their subscriber is told; and it is told nothing of the kind without such a loss. An edge does not know the content
of what has left a log, so it may warn of events of the topic that the subscriber would not have wanted. Nor does it
know what was in a log that is gone with its disk: a subscriber that begins with what is alive is warned of that log.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from fieldfare.errors import BrokenPromiseError
from fieldfare.simulation.history import History, Reception
from fieldfare.simulation.promised import Promise, Scope, subscriptions

_BEGINNING_SECONDS = 1.0  # within which a subscriber hears that it is in force, and what could not be read for it


def check_gaps(
    history: History, now: float, among: Collection[str] | None = None, clock_error_seconds: float = 0.0
) -> None:
    """Raise if a subscriber was not told of a loss, or was told of one that cannot have been. Asked when all is quiet.

    The arguments are those of `checkers.check_liveness`. Webhooks are told of no gaps, and best effort has them anyway.
    """
    scope = Scope(now, among, clock_error_seconds)
    for lives, request in subscriptions(history):
        promise = Promise(lives, request, history, scope)
        if request.webhook is None and request.qos.reliability == "reliable":
            _check_told(promise)
            for life in lives:
                if life.gaps_told_at:
                    _check_true(promise, life, history)


def _check_told(promise: Promise) -> None:
    """Events that were published after the subscription was confirmed, and never came: it was told later."""
    if not promise.is_given or promise.request.qos.keep_last is not None or promise.confirmed_at is None:
        return
    for publication, event in promise.missing(promise.due(promise.confirmed_at)):
        told_at = [at for life in promise.lives for at in life.gaps_told_at if at > publication.published_at]
        if not told_at and not promise.was_on_lost_disk(publication):
            detail = f"{event!r} of {publication.publisher!r} is missing for subscription {promise.name!r}"
            raise BrokenPromiseError("untold", promise.client, detail)


def _check_true(promise: Promise, life: Reception, history: History) -> None:
    """For each gap that was told, there is an event of the topic that may have been lost until then.

    It may have arrived nevertheless: an edge that crashed, or whose client came back, does not know that for sure.
    """
    published = [
        publication
        for publication in history.publications
        if (publication.tenant, publication.topic) == promise.topic and publication.outcome != "refused"
    ]
    for told_at in life.gaps_told_at:
        if _is_of_lost_log(promise, life, told_at, history):
            continue
        is_restarted = any(restart.at <= told_at for restart in life.restarts)
        if not is_restarted and not any(
            publication.published_at <= told_at
            and (
                promise.may_be_expired(publication, told_at)
                or promise.may_be_removed(publication, told_at)
                or promise.was_on_lost_disk(publication, told_at)
            )
            for publication in published
        ):
            detail = f"subscription {promise.name!r} was told of a gap at {told_at}, but nothing can have been lost"
            raise BrokenPromiseError("untrue", life.client, detail)


def _is_of_lost_log(promise: Promise, life: Reception, told_at: float, history: History) -> bool:
    """Whether a subscription that begins with what is alive was told, when it began, of a log that cannot be read."""
    is_beginning = life.confirmed_at is not None and told_at - life.confirmed_at < _BEGINNING_SECONDS
    is_any_log_lost = any(lost.since == -math.inf and lost.at <= told_at for lost in history.lost_disks)
    return is_beginning and is_any_log_lost and promise.request.qos.durability == "transient"
