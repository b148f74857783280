"""The tests of the tree are worth something only if they find what is broken: each bug here turns one of them red."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.overlay import test_overlay_seeds as seeds
from tests.overlay import test_tree as named
from tests.overlay import test_tree_parts as parts

from fieldfare.errors import BrokenPromiseError
from fieldfare.messages import Leave, Taken, Version
from fieldfare.routing.tree.advertisements import TreeAdvertisements
from fieldfare.routing.tree.local_edge import _CATCHING_UP, LocalEdge
from fieldfare.routing.tree.streams import TopicStreams
from fieldfare.routing.tree.wants import TopicWants

Bug = Callable[[pytest.MonkeyPatch], None]


def version_mapping_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay says of every range that it was matched with the newest that a side wants."""

    def newest(wants: TopicWants, _link: str, _version: Version, side: str) -> Version:
        return wants.version_of(side)

    monkeypatch.setattr(TopicWants, "included", newest)


def want_met_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A side is told that its want is met before the neighbours have met it."""
    check = TopicWants._check

    def hasty(wants: TopicWants, side: str) -> None:
        wants._sides[side].needs.clear()
        check(wants, side)

    monkeypatch.setattr(TopicWants, "_check", hasty)


def passed_on_before_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events go where nobody knows yet that they may come, and what is wanted of them is not known."""
    monkeypatch.setattr(TreeAdvertisements, "may_pass", lambda *_: True)


def jump_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream goes on later than it came to, and the next range says nothing of that."""
    monkeypatch.setattr(TopicStreams, "_tell_of_jump", lambda *_: None)


def catching_up_ended_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An origin stops to read its log for an edge before that has come to where the stream is."""
    taken = LocalEdge._taken

    def hasty(local: LocalEdge, frame: Taken) -> None:
        taken(local, frame)
        served = local._topics.get(frame.topic)
        if served is not None and frame.origin in served.catching_up:
            served.catching_up.discard(frame.origin)
            local._ports.pass_on(frame.origin, Leave(frame.topic, local.log_id + _CATCHING_UP))

    monkeypatch.setattr(LocalEdge, "_taken", hasty)


def ranges_joined_over_a_full_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a full window did not take is passed over as if nobody had wanted it."""
    skip = TopicStreams._skip

    def forgiving(streams: TopicStreams, stream: Any, side: str) -> None:
        if side not in stream.passed:
            skip(streams, stream, side)

    monkeypatch.setattr(TopicStreams, "_skip", forgiving)


some_seeds = partial(seeds.run, range(6), "tree")


@pytest.mark.parametrize(
    ("plant", "find"),
    [
        (version_mapping_ignored, parts.test_a_stream_is_relied_on_only_for_what_it_was_matched_with),
        (want_met_too_early, parts.test_a_side_is_told_that_its_want_is_met_when_the_neighbour_has_met_it),
        (
            passed_on_before_it_is_known,
            parts.test_no_events_are_passed_on_before_the_neighbour_knows_where_they_come_from,
        ),
        (jump_not_told, named.test_an_inner_broker_crashes_and_comes_back_in_the_middle_of_traffic),
        (jump_not_told, some_seeds),
        (catching_up_ended_too_early, named.test_reading_the_log_for_a_broker_ends_when_that_has_caught_up),
        (
            ranges_joined_over_a_full_window,
            named.test_a_neighbour_whose_window_is_full_gets_the_rest_later_and_the_others_do_not_wait,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_broken_in_the_tree_is_found(
    plant: Bug, find: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((BrokenPromiseError, AssertionError)):
        find()
