"""Answers of the log. Each object that waited for one is passed to the part for its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from fieldfare.messages import NotStored, Stored
from fieldfare.routing.edge_parts import EdgeParts
from fieldfare.routing.exported_interest import ExportedVersion
from fieldfare.routing.home_conditions import RegisteredPart
from fieldfare.routing.moved_publisher import AdoptionOfPublisher, SealOfPublisher, SettlingPublisher
from fieldfare.routing.origin import Arrival
from fieldfare.routing.overlay import EdgeOverlay
from fieldfare.routing.pending import PendingSubscription
from fieldfare.routing.pipeline_batches import PendingBatch
from fieldfare.routing.publication import PassedNumbers, Publication, Repetition
from fieldfare.routing.replay import ReplayedEvents
from fieldfare.routing.replaying_own_log import PausedPublishers
from fieldfare.routing.subscribing import EndingSubscription
from fieldfare.routing.subscription_requests import LettersUpdate, SubscriptionUpdate
from fieldfare.routing.topic import TopicChange
from fieldfare.routing.topic_deleting import EndingTopic
from fieldfare.routing.topic_homes import GapAtHome

WhenStored: TypeAlias = Callable[[Any, float], None]
WhenNotStored: TypeAlias = Callable[[Any, str], None]


class LogAnswers:
    """Passes objects that waited for the log to their parts: they are stored, or could not be stored."""

    def __init__(self, parts: EdgeParts) -> None:
        self._log, self._topics = parts.log, parts.topics
        self._publishing, self._overlay = parts.publishing, parts.overlay
        self._when_stored, self._when_not_stored = _when_stored(parts), _when_not_stored(parts)

    def stored(self, message: Stored, now: float) -> None:
        """All records up to a number are in the log."""
        self._topics.kept_from = message.kept_from
        for waiter in self._log.answered(message.number):
            self._when_stored[type(waiter)](waiter, now)
        self._publishing.match_ready(now)
        if self._overlay is not None:
            self._overlay.stored(now)

    def not_stored(self, message: NotStored, now: float) -> None:
        """All records up to a number could not be stored."""
        for waiter in self._log.answered(message.number):
            self._when_not_stored[type(waiter)](waiter, message.reason)
        self._publishing.match_ready(now)  # what needs no log may have waited for what does


def _when_stored(parts: EdgeParts) -> dict[type, WhenStored]:
    return {
        Publication: parts.publishing.stored,
        Repetition: lambda waiter, _: parts.publishing.repetition_stored(waiter),
        PassedNumbers: lambda waiter, _: parts.publishing.passed_stored(waiter),
        PendingBatch: parts.batches.stored,
        PendingSubscription: parts.subscribing.pending.stored,
        EndingSubscription: lambda waiter, _: parts.subscribing.ended(waiter),
        SubscriptionUpdate: parts.requests.stored,
        LettersUpdate: parts.requests.letters_stored,
        TopicChange: lambda waiter, _: parts.declaring.declared(waiter),
        EndingTopic: lambda waiter, _: parts.deleting.deleted(waiter),
        SettlingPublisher: parts.moves.settled,
        SealOfPublisher: parts.moves.seal_stored,
        AdoptionOfPublisher: parts.moves.adoption_stored,
        **({} if parts.overlay is None else _stored_of_overlay(parts.overlay)),
    }


def _when_not_stored(parts: EdgeParts) -> dict[type, WhenNotStored]:
    return {
        Publication: parts.publishing.not_stored,
        Repetition: parts.publishing.repetition_failed,
        PassedNumbers: parts.publishing.passed_failed,
        PendingBatch: lambda waiter, _: parts.batches.not_stored(waiter),
        PendingSubscription: parts.subscribing.pending.not_stored,
        EndingSubscription: parts.subscribing.not_ended,
        SubscriptionUpdate: parts.requests.not_stored,
        LettersUpdate: parts.requests.not_stored,
        TopicChange: parts.declaring.not_declared,
        EndingTopic: parts.deleting.not_deleted,
        SettlingPublisher: parts.moves.not_settled,
        SealOfPublisher: parts.moves.seal_failed,
        AdoptionOfPublisher: parts.moves.adoption_failed,
        **({} if parts.overlay is None else _failed_of_overlay(parts.overlay)),
    }


def _stored_of_overlay(overlay: EdgeOverlay) -> dict[type, WhenStored]:
    return {
        Arrival: overlay.imports.stored,
        ReplayedEvents: overlay.replays.stored,
        PausedPublishers: overlay.replays.publishers_paused,
        RegisteredPart: overlay.home_conditions.stored,
        GapAtHome: lambda waiter, _: overlay.homes.gap_known(waiter),
        ExportedVersion: overlay.confirming.stored,
    }


def _failed_of_overlay(overlay: EdgeOverlay) -> dict[type, WhenNotStored]:
    return {
        Arrival: lambda waiter, _: overlay.imports.not_stored(waiter),
        ReplayedEvents: lambda waiter, _: overlay.replays.not_stored(waiter),
        PausedPublishers: lambda waiter, _: overlay.replays.publishers_not_paused(waiter),
        RegisteredPart: lambda waiter, _: overlay.home_conditions.not_stored(waiter),
        GapAtHome: lambda waiter, _: overlay.homes.gap_known(waiter),
        ExportedVersion: lambda waiter, _: overlay.wanted.not_stored(waiter),
    }
