from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.kafka.offsets import Bounds
from fieldfare.pipeline.kafka.ranges import Range, divided, planned, ranges

OFFSETS = st.integers(0, 1000)


@st.composite
def topics(draw: st.DrawFn) -> tuple[dict[int, int], dict[int, Bounds]]:
    """Where a reader is, and what the partitions have: it may be new to some, and retention may be ahead of it."""
    start: dict[int, int] = {}
    bounds: dict[int, Bounds] = {}
    for partition in range(draw(st.integers(1, 5))):
        low, waiting = draw(OFFSETS), draw(OFFSETS)
        bounds[partition] = Bounds(low, low + waiting)
        if draw(st.booleans()):
            start[partition] = draw(st.integers(0, low + waiting))
    return start, bounds


@given(topics(), st.integers(1, 300))
def test_batches_read_every_offset_that_is_there_once_and_tell_of_the_others(
    topic: tuple[dict[int, int], dict[int, Bounds]], batch_max: int
) -> None:
    start, bounds = topic
    read: list[tuple[int, int]] = []
    lost = 0
    place = start
    while (end := planned(place, bounds, batch_max)) != place:
        found = ranges(place, end, bounds)
        assert sum(part.end - part.first for part in found) <= max(batch_max, len(bounds))
        read += [(part.partition, offset) for part in found for offset in range(part.first, part.end)]
        lost += sum(part.lost for part in found)
        place = end
    begins = {partition: start.get(partition, 0) for partition in bounds}
    wanted = [(p, offset) for p, (low, high) in bounds.items() for offset in range(max(low, begins[p]), high)]
    assert sorted(read) == wanted
    assert lost == sum(max(0, low - begins[p]) for p, (low, _) in bounds.items())


def test_a_partition_with_little_does_not_wait_for_one_with_much() -> None:
    bounds = {0: Bounds(0, 1_000_000), 1: Bounds(0, 3), 2: Bounds(0, 50)}
    assert planned({}, bounds, 100) == {0: 48, 1: 3, 2: 48}  # and what does not divide evenly is left for later


def test_a_range_says_how_far_behind_it_is() -> None:
    assert ranges({0: 5}, {0: 8}, {0: Bounds(0, 20)}) == [Range(0, 5, 8, 0, 12)]


@given(st.lists(st.tuples(OFFSETS, st.integers(0, 50), st.integers(0, 3)), max_size=6), st.integers(1, 5))
def test_tasks_divide_ranges_without_a_gap(parts: list[tuple[int, int, int]], tasks: int) -> None:
    given_parts = [
        Range(number, first, first + count, lost, 0)
        for number, (first, count, lost) in enumerate(parts)
        if count or lost
    ]
    groups = divided(given_parts, tasks)
    assert len(groups) == tasks
    for group in groups:  # a task assigns each partition once
        assert len({part.partition for part in group}) == len(group)
    pieces = [part for group in groups for part in group]
    for part in given_parts:
        own = [piece for piece in pieces if piece.partition == part.partition]
        assert [own[0].first, *(piece.end for piece in own)] == [part.first, *(p.first for p in own[1:]), part.end]
        assert sum(piece.lost for piece in own) == part.lost
    sizes = [sum(part.end - part.first for part in group) for group in groups]
    assert max(sizes) - min(sizes) <= 1
