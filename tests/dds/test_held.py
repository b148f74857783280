from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.runtime.dds.held import Held
from fieldfare.runtime.dds.options import DdsOptions

options = DdsOptions(0, "a", lease_seconds=5.0, held_max=4, held_bytes_max=100)


@given(st.lists(st.tuples(st.sampled_from(["sample", "event"]), st.integers(0, 9)), unique=True))
def test_what_was_seen_on_one_side_only_is_left(seen: list[tuple[str, int]]) -> None:
    held: Held[int] = Held(DdsOptions(0, "a"))
    for kind, number in seen:
        if kind == "sample":
            held.add(str(number), number, 1, now=0.0)
        else:
            held.deal_with(str(number), now=0.0)
    dealt_with = {number for kind, number in seen if kind == "event"}
    assert held.take_all(now=0.0) == [number for kind, number in seen if kind == "sample" and number not in dealt_with]
    assert held.take_all(now=0.0) == []


def test_only_so_many_are_held_and_only_for_so_long() -> None:
    held: Held[int] = Held(options)
    for number in range(6):
        held.add(str(number), number, 1, now=0.0)
    assert held.take_all(now=0.0) == [2, 3, 4, 5]
    held.add("old", 1, 1, now=0.0)
    held.add("new", 2, 1, now=options.held_seconds)
    assert held.take_all(now=options.held_seconds + 1) == [2]


def test_what_is_held_has_a_limit_of_size() -> None:
    held: Held[int] = Held(options)
    for number in range(3):
        held.add(str(number), number, 40, now=0.0)
    held.deal_with("1", now=0.0)
    held.add("3", 3, 60, now=0.0)
    assert held.take_all(now=0.0) == [2, 3]
