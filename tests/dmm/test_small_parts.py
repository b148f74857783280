"""The tree cache, numbers of outboxes, spaces, and messages that are none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.dmm.axis_codes import DomainAxis
from fieldfare.dmm.messages import Fulfilled, decode, encode
from fieldfare.dmm.outbox import TakenEvents, TakenNumbers
from fieldfare.dmm.spaces import RegionName, Space, Spaces, TopicScheme
from fieldfare.dmm.tree_cache import TreeCache
from fieldfare.language import compile  # noqa: A004
from fieldfare.pastry.ports import Card

CARD = Card("p", "p", 1)
SPACE = Space("t", ("a",))


def test_the_cache_knows_the_leaf_on_a_path_until_it_is_told_otherwise() -> None:
    cache = TreeCache(leaves_max=3, seconds=10)
    cache.learn(RegionName(SPACE, "01"), CARD, 0)
    cache.learn(RegionName(SPACE, "001"), CARD, 0)
    assert cache.depth(SPACE, "0111", 1) == 2
    assert cache.depth(SPACE, "0011", 1) == 3
    assert cache.card(RegionName(SPACE, "01"), 1) == CARD
    assert cache.depth(Space("t", ("b",)), "0111", 1) == 2, "as long as those of other spaces"
    assert TreeCache(leaves_max=3, seconds=10).depth(SPACE, "0111", 1) is None
    cache.forget(RegionName(SPACE, "01"))
    assert cache.card(RegionName(SPACE, "01"), 1) is None
    assert cache.depth(SPACE, "0111", 1) == 3, "as long as other codes of the space"
    assert cache.depth(SPACE, "0111", 11) == 3
    assert cache.card(RegionName(SPACE, "001"), 11) is None
    assert cache.depth(SPACE, "0111", 11) is None


def test_the_cache_is_bounded() -> None:
    cache = TreeCache(leaves_max=3, seconds=10)
    for number in range(10):
        cache.learn(RegionName(SPACE, f"{number:04b}"), CARD, 0)
    assert len(cache) == 3
    assert cache.card(RegionName(SPACE, "1001"), 0) == CARD
    without = TreeCache(leaves_max=0, seconds=10)
    without.learn(RegionName(SPACE, "1"), CARD, 0)
    assert len(without) == 0


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_each_number_is_taken_once_in_any_order(seed: int, count: int) -> None:
    rng = random.Random(seed)
    given_up = {number for number in range(1, count + 1) if rng.random() < 0.2}
    sent = [number for number in range(1, count + 1) if number not in given_up] * 3
    rng.shuffle(sent)
    taken, seen = TakenNumbers(), set()
    for number in sent:
        pending = [other for other in range(1, count + 1) if other not in seen and other not in given_up]
        lowest = min([number, *pending])  # what the sender has had confirmed is a part of what was taken
        assert taken.take(number, lowest) == (number not in seen)
        seen.add(number)
    assert taken.numbers == {number for number in seen if number >= taken.lowest}


def test_the_numbers_of_others_are_bounded() -> None:
    """Whoever sends numbers without end, and says that all may come again, loses its own events only."""
    events = TakenEvents()
    for number in range(150_000):
        assert events.take("liar", "box", number, 0)
    assert events.take("p", "box", 1, 0)
    ((_, _, numbers), _) = events.items()
    assert len(numbers.numbers) <= 100_000
    assert not events.take("liar", "box", 1, 0)
    assert not events.take("liar", "box", 149_999, 0)
    for number in range(10_000):
        events.take("liar", f"box {number}", 1, 0)
    assert len(list(events.items())) == 10_000


def test_boxes_live_where_events_that_satisfy_them_come_by() -> None:
    spaces = Spaces()
    homes = spaces.homes("t", compile("a > 1 AND b < 3 OR c = 5 OR d IS NULL OR a > 7 AND e IS NULL"))
    assert {space.attributes for space in homes} == {("a", "b"), ("c",), (), ("a",)}
    assert [space.attributes for space in spaces.entrances("t", {"b": 1, "a": None, "c": "x"})] == [(), ("b",), ("c",)]
    assert spaces.homes("t", compile("TRUE")).keys() == {Space("t", ())}
    one = Spaces({"t": TopicScheme(schema=("a", "b"))})
    assert one.homes("t", compile("TRUE")).keys() == {Space("t", ("a", "b"))}


@pytest.mark.parametrize(
    "condition",
    ["TRUE", "a IS NULL", "a <=> NULL", "a + b > 200", "coalesce(a, 0) < 5", "lower(s) = 'x'", "length(s) % 2 = 0"],
)
def test_what_needs_no_attribute_lives_in_the_empty_space_which_every_event_visits(condition: str) -> None:
    spaces, empty = Spaces(), Space("t", ())
    assert spaces.homes("t", compile(condition)).keys() == {empty}
    for event in ({}, {"a": None}, {"a": 1, "s": "x"}):
        assert empty in spaces.entrances("t", event)


def test_keys_depend_on_all_that_is_declared() -> None:
    region = RegionName(SPACE, "01")
    schemes = [TopicScheme(), TopicScheme({"a": DomainAxis(1, 256)}), TopicScheme(schema=("a",))]
    keys = {Spaces({"t": scheme}).key(region) for scheme in schemes}
    keys |= {Spaces().key(RegionName(SPACE, code)) for code in ("", "0", "1", "010")}
    keys.add(Spaces().key(RegionName(Space("u", ("a",)), "01")))
    assert len(keys) == 8
    assert all(0 <= key < 2**128 for key in keys)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_message_are_none(data: bytes) -> None:
    decode(data)
    assert decode(encode(Fulfilled(5)) + data) in (None, Fulfilled(5))
