"""A covering wants every event that any of its conditions wants; few conditions it covers exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.matching.strategies import Event, conditions, events, range_conditions, range_events

from fieldfare.language import compile, compile_many  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.matching.requirements import required_intervals
from fieldfare.matching.rows import cuts_of
from fieldfare.model import Box, Condition
from fieldfare.overlay.covering import EVERYTHING, Covering, CoveringBuilder
from fieldfare.overlay.covering_format import COVERING_BYTES_MAX
from fieldfare.partitioning import few_boxes
from fieldfare.routing.interest import CompiledConditions, Interest

SOME = settings(suppress_health_check=list(HealthCheck), deadline=None, max_examples=40)
texts = st.lists(conditions(), min_size=1, max_size=12)
rows = st.lists(events(), min_size=1, max_size=6)


def takes(box: Box, event: Event) -> bool:
    """Whether an event is in a box: on every attribute, one of its points is. Residual tests do not count."""
    for name, interval in box.intervals.items():
        low, high = cuts_of(event.get(name), name)
        if high < interval.low or interval.high <= low:
            return False
    return True


def wants(boxes: Iterable[Box], event: Event) -> bool:
    return any(takes(box, event) for box in boxes)


def wanted_by_index(covering: Covering, rows: Sequence[Event]) -> list[bool]:
    """The same by an index, as an origin asks it."""
    interest = Interest()
    interest.add(CompiledConditions({}, [(7, covering.condition)], None))
    found = dict(interest.match(rows)).get(7, [])
    return [number in found for number in range(len(rows))]


def built(compiled: Iterable[Condition], boxes_max: int) -> CoveringBuilder:
    builder = CoveringBuilder(boxes_max)
    for condition in compiled:
        builder.add(condition)
    return builder


@pytest.fixture(params=["merged", "split and merged", "split"])
def grouping(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups from below; or, as of many boxes, first from the top, or only from there."""
    if "split" in request.param:
        monkeypatch.setattr(few_boxes, "_MERGED_QUICKLY", 1)
    if request.param == "split":
        monkeypatch.setattr(few_boxes, "_MERGED_MAX", 1)


@pytest.mark.usefixtures("grouping")
@given(texts, rows, st.integers(1, 6))
@SOME
def test_it_wants_what_any_condition_wants(texts: list[str], rows: list[Event], boxes_max: int) -> None:
    compiled = [compile(text) for text in texts]
    for covering in (
        Covering.of(compiled, boxes_max),
        Covering.of_table(compile_many(texts).table, boxes_max),
        built(compiled, boxes_max).covering,
    ):
        assert len(covering.boxes) <= boxes_max
        for row in rows:
            assert wants(covering.boxes, row) or not any(oracle.holds(text, row) for text in texts)
        assert wanted_by_index(covering, rows) == [wants(covering.boxes, row) for row in rows]


@pytest.mark.usefixtures("grouping")
@given(
    st.lists(range_conditions(), min_size=1, max_size=10),
    st.lists(range_events(), min_size=1, max_size=6),
    st.integers(1, 4),
)
@SOME
def test_it_wants_ranges_that_any_condition_wants(texts: list[str], rows: list[Event], boxes_max: int) -> None:
    compiled = [compile(text) for text in texts]
    for covering in (Covering.of(compiled, boxes_max), built(compiled, boxes_max).covering):
        for row in rows:
            assert wants(covering.boxes, row) or not any(oracle.holds(text, row) for text in texts)
        assert wanted_by_index(covering, rows) == [wants(covering.boxes, row) for row in rows]


@given(texts, rows)
@example(["price = 0 AND -a.b = 0"], [{"price": 0, "a.b": ""}])
@SOME
def test_few_boxes_are_covered_exactly(texts: list[str], rows: list[Event]) -> None:
    compiled = [compile(text) for text in texts]
    boxes = [Box(required_intervals(box)) for condition in compiled for box in condition.boxes]
    for covering in (Covering.of(compiled, len(boxes) or 1), built(compiled, len(boxes) or 1).covering):
        for row in rows:
            assert wants(covering.boxes, row) == wants(boxes, row)


@given(texts, rows, st.integers(1, 6))
@SOME
def test_what_does_not_grow_wants_the_same(texts: list[str], rows: list[Event], boxes_max: int) -> None:
    builder = CoveringBuilder(boxes_max)
    for text in texts:
        before, condition = builder.covering, compile(text)
        if builder.add(condition):
            assert not all(before.covers(box) for box in condition.boxes)
        else:
            assert builder.covering is before
        assert not builder.add(condition)
        grown = (*before.boxes, *builder.covering.beyond(before).boxes)
        for row in rows:
            assert wants(grown, row) == wants(builder.covering.boxes, row)


@given(texts, conditions(), rows, st.integers(1, 6))
@SOME
def test_covered_boxes_are_wanted(texts: list[str], other: str, rows: list[Event], boxes_max: int) -> None:
    covering = Covering.of(map(compile, texts), boxes_max)
    for box in compile(other).boxes:
        if covering.covers(box):
            assert all(wants(covering.boxes, row) for row in rows if takes(box, row))


def test_nothing_and_everything() -> None:
    assert Covering.of([]) == Covering() == CoveringBuilder().covering
    assert wanted_by_index(Covering(), [{"x": 1}, {}]) == [False, False]
    assert (
        Covering.of([compile("x > 1"), compile("x IS NULL OR x IS NOT NULL OR y > 1"), compile("TRUE")]) == EVERYTHING
    )
    assert wanted_by_index(EVERYTHING, [{"x": 1}, {}]) == [True, True]
    builder = built(map(compile, ["x > 1", "y > 1", "TRUE"]), 10)
    assert builder.covering == EVERYTHING
    assert EVERYTHING.is_everything
    assert not builder.add(compile("z = 3"))


@pytest.mark.parametrize(
    ("known", "added", "grows"),
    [
        (["x > 1"], "x > 2 AND y = 'a'", False),
        (["x > 1"], "x >= 1", True),
        (["x > 1", "x < 5"], "x = 3 OR x = 7", False),
        (["x < 5", "x >= 3"], "x BETWEEN 1 AND 9", False),  # not in one of them, but in both together
        (["x < 3", "x > 3"], "x BETWEEN 1 AND 9", True),
        (["x < 5 AND y > 1", "x >= 5 AND y > 0"], "x BETWEEN 1 AND 9 AND y > 1", False),
        (["x < 5 AND y > 1", "x >= 5 AND y > 0"], "x BETWEEN 1 AND 9 AND y > 0", True),
        (["x > 1 AND y IS NULL", "x > 1 AND y IS NOT NULL"], "x > 1 AND y = 3", False),
        (["x > 1"], "y > 1", True),
    ],
)
def test_it_grows_only_by_what_is_not_covered(known: list[str], added: str, grows: bool) -> None:
    builder = built(map(compile, known), 10)
    assert builder.covering.covers(compile(added).boxes[0]) is not grows
    assert builder.add(compile(added)) is grows


def test_a_box_takes_the_place_of_those_inside_it() -> None:
    builder = built((compile(f"x > {10 - number} AND x < {10 + number}") for number in range(1, 9)), 4)
    assert [box.intervals for box in builder.covering.boxes] == [compile("x > 2 AND x < 18").boxes[0].intervals]


def test_it_shrinks_by_what_is_left() -> None:
    builder = built(map(compile, ["x > 1", "x < -1", "y = 2"]), 10)
    builder.replace(Covering.of([compile("x > 1")]))
    assert not wants(builder.covering.boxes, {"x": -5, "y": 2})
    assert builder.add(compile("y = 2"))
    assert not builder.add(compile("x > 3"))
    assert wants(builder.covering.boxes, {"y": 2})


@pytest.mark.usefixtures("grouping")
@pytest.mark.parametrize("is_in_bulk", [True, False])
def test_groups_are_those_that_lie_together(is_in_bulk: bool) -> None:
    texts = [
        *(f"x BETWEEN {n} AND {n + 5} AND y BETWEEN {n} AND {n + 5}" for n in range(100)),
        *(f"x BETWEEN {n} AND {n + 5} AND y BETWEEN {n - 900} AND {n - 895}" for n in range(900, 1000)),
        *(f"room = 'r{n}' AND degrees > {n % 7}" for n in range(100)),
    ]
    compiled = [compile(text) for text in texts]
    covering = Covering.of(compiled, 12) if is_in_bulk else built(compiled, 16).covering
    unwanted: list[Event] = [{"x": 500, "y": 50}, {"x": 50, "y": 500}, {"x": 50}, {}, {"room": "s"}, {"room": "r1"}]
    wanted: list[Event] = [{"x": 50, "y": 50}, {"x": 950, "y": 50}, {"room": "r1", "degrees": 8}]
    assert not any(wants(covering.boxes, event) for event in unwanted)
    assert all(wants(covering.boxes, event) for event in wanted)


def test_many_conditions_and_many_attributes() -> None:
    texts = [f"a{n % 90} > {n} AND b < {n % 7} AND name = 'n{n % 50}'" for n in range(300)]
    compiled = [compile(text) for text in texts]
    for boxes_max in (10, 50):
        for covering in (Covering.of(compiled, boxes_max), built(compiled, boxes_max).covering):
            assert len(covering.boxes) <= boxes_max
            for n in range(0, 300, 7):
                assert wants(covering.boxes, {f"a{n % 90}": n + 1, "b": n % 7 - 1, "name": f"n{n % 50}"})


def test_a_condition_of_many_boxes() -> None:
    builder = CoveringBuilder(8)
    assert builder.add(compile("x IN (" + ", ".join(str(3 * n) for n in range(500)) + ")"))
    assert len(builder.covering.boxes) <= 8
    assert all(wants(builder.covering.boxes, {"x": 3 * n}) for n in range(500))


@pytest.mark.parametrize("boxes", [1, 100])
def test_its_size_is_bounded(boxes: int) -> None:
    """Fewer boxes, at last a single one without intervals, in place of an encoding that would be too long."""
    letters = 40_000 if boxes > 1 else COVERING_BYTES_MAX
    compiled = [_equal_to(f"{n}" * letters) for n in range(boxes)]
    for covering in (Covering.of(compiled), built(compiled, 1_024).covering):
        assert len(covering.encode()) <= COVERING_BYTES_MAX
        assert Covering.decode(covering.encode()) == covering
        assert all(wants(covering.boxes, {"x": f"{n}" * letters}) for n in range(boxes))
        assert covering.is_everything is (boxes == 1)


def _equal_to(text: str) -> Condition:
    interval = compile("x = 'a'").boxes[0].intervals["x"]
    section = interval.low[0]
    low = (section, text.encode())
    return Condition("", (Box({"x": type(interval)(low, (section, text.encode() + b"\x00"))}),), disjoint=True)


def test_it_needs_a_box() -> None:
    with pytest.raises(ValueError, match="boxes_max"):
        Covering.of([], 0)
