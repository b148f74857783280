"""The interleavings and the seeds are worth something only if they find what is broken: each bug here turns them red.

Every bug names what finds it: an interleaving, or one of a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
from tests.overlay import test_interleavings as interleavings
from tests.overlay import test_overlay_seeds as seeds
from tests.overlay import test_two_networks as two_networks

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import EventsStored, Ranges, Record, Resume, Share
from fieldfare.routing.exported_interest import ExportedInterest
from fieldfare.routing.exporting import TopicExports
from fieldfare.routing.importing import Imports
from fieldfare.routing.origin import Arrival, Origin
from fieldfare.simulation.disk import SimulatedLog

Bug = Callable[[pytest.MonkeyPatch], None]


def cursor_before_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiving edge says that it has taken a range before its log has it."""
    arrive = Origin.arrive

    def hasty(origin: Origin, arrival: Arrival) -> None:
        arrive(origin, arrival)
        arrival.is_safe = True

    monkeypatch.setattr(Origin, "arrive", hasty)
    store = Imports._store

    def store_and_settle(imports: Imports, origin: Origin, *args: Any) -> None:
        store(imports, origin, *args)
        imports._settle(origin)

    monkeypatch.setattr(Imports, "_store", store_and_settle)


def version_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiving edge takes ranges whatever they were matched with."""
    monkeypatch.setattr(Origin, "accepts", lambda _self, _upto, _version: True)


def interest_withdrawn_at_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a subscription wanted is not wanted any more as soon as its connection is gone."""
    tidy = ExportedInterest.tidy

    def hasty(wanted: ExportedInterest, now: float) -> None:
        wanted._return_seconds = -1.0
        tidy(wanted, now)

    monkeypatch.setattr(ExportedInterest, "tidy", hasty)


def take_over_with_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """An origin goes on with what is new, wherever it is told to resume."""
    resume = TopicExports.resume

    def from_now(exports: TopicExports, link: str, frame: Resume, now: float) -> None:
        position = max(frame.position, exports.topic.matched)
        resume(exports, link, msgspec.structs.replace(frame, position=position), now)

    monkeypatch.setattr(TopicExports, "resume", from_now)


def no_origin_in_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge sends on what it has from other edges as if it had been published there."""
    read_matches = TopicExports._read_matches

    def all_of(exports: TopicExports, records: Iterable[EventsStored]) -> Any:
        return read_matches(exports, [msgspec.structs.replace(record, origin=None) for record in records])

    monkeypatch.setattr(TopicExports, "_read_matches", all_of)


def ranges_taken_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiving edge takes whatever range comes, also one that it has."""
    ranges = Imports.ranges

    def take_again(imports: Imports, link: str, frame: Ranges, share: Share, now: float) -> None:
        origin = imports._origins.get(frame.topic, {}).get(frame.origin)
        if origin is not None and origin.cursor is not None and frame.events and share.after < origin.taking:
            origin.taking = share.after
        ranges(imports, link, frame, share, now)

    monkeypatch.setattr(Imports, "ranges", take_again)


def nothing_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs say that they have a record as soon as it is written."""
    append = SimulatedLog.append

    def hasty(log: SimulatedLog, number: int, record: Record, *, is_durable: bool) -> None:  # noqa: ARG001 - the bug
        append(log, number, record, is_durable=False)

    monkeypatch.setattr(SimulatedLog, "append", hasty)


def some_seeds() -> None:
    seeds.run(range(12))


def the_routing_broker_is_away() -> None:
    two_networks.test_nothing_is_lost_while_the_routing_broker_is_away(two_networks.TwoNetworks())


@pytest.mark.parametrize(
    ("plant", "find"),
    [
        (cursor_before_flush, interleavings.test_a_range_that_a_full_disk_could_not_take_comes_again),
        (version_ignored, interleavings.test_what_an_origin_passed_over_before_it_heard_of_a_condition_comes_again),
        (
            interest_withdrawn_at_reset,
            interleavings.test_a_connection_that_resets_comes_back_with_after_and_has_missed_nothing,
        ),
        (take_over_with_now, the_routing_broker_is_away),
        (no_origin_in_records, some_seeds),
        (ranges_taken_twice, some_seeds),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_broken_is_found(plant: Bug, find: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((BrokenPromiseError, AssertionError)):
        find()


@pytest.mark.parametrize(
    ("plant", "kind"),
    [(cursor_before_flush, "unstored"), (nothing_flushed, "unflushed"), (interest_withdrawn_at_reset, "uncovered")],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_which_rule_is_broken_is_said_at_once(plant: Bug, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(BrokenPromiseError) as found:
        some_seeds()
    assert found.value.kind == kind
