"""An interest answers as the oracle does, however its conditions came, and whatever is merged meanwhile."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule
from tests.matching.strategies import Event, conditions, events, range_conditions, range_events

from fieldfare.errors import ConditionError, EventError
from fieldfare.matching import oracle
from fieldfare.routing import interest as module
from fieldfare.routing.interest import Interest, Merged, compile_conditions, is_quick

SMALL = {
    "_YOUNG_BOXES_MAX": 3,
    "_BLOCK_BOXES": 5,
    "_BLOCK_EVENTS": 30,
    "FEW_EVENTS": 3,
    "_UNMERGED_MAX": 3,
    "_GONE_MIN": 2,
    "_GONE_MAX": 6,
}
EVENTS: list[Event] = [{"price": 1, "symbol": "a", "flag": True}, {"price": 2.5}, {}]


def answers(interest: Interest, rows: list[Event]) -> dict[int, list[int]]:
    found = list(interest.match(rows))
    assert len(found) == len(dict(found)), "a subscription is listed once"
    return dict(found)


def expected(subscriptions: dict[int, str], rows: list[Event], times: int = 1) -> dict[int, list[int]]:
    """The oracle's answer to `rows * times`."""
    found: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        for handle in oracle.match(subscriptions, row):  # type: ignore[arg-type]
            found.setdefault(handle, []).append(number)  # type: ignore[arg-type]
    return {
        handle: [number + len(rows) * time for time in range(times) for number in numbers]
        for handle, numbers in found.items()
    }


class AnyChanges(RuleBasedStateMachine):
    """Adds by one and by many, removals, and merges that other changes overtake, with every size made small."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name, value in SMALL.items():
            self.patch.setattr(module, name, value)
        self.interest = Interest()
        self.subscriptions: dict[int, str] = {}
        self.handle = 0
        self.for_ranges: set[int] = set()
        self.merged: Merged | None = None

    def teardown(self) -> None:
        self.patch.undo()

    @rule(texts=st.lists(conditions(), min_size=1, max_size=5), target=handles)
    def add(self, texts: list[str]) -> Any:
        handles = range(self.handle, self.handle + len(texts))
        self.handle = handles.stop
        assert not self.interest.add(compile_conditions(handles, texts))
        self.subscriptions.update(zip(handles, texts, strict=True))
        return multiple(*handles)

    @rule(texts=st.lists(range_conditions(), min_size=1, max_size=5), target=handles)
    def add_for_ranges(self, texts: list[str]) -> Any:
        self.for_ranges.update(range(self.handle, self.handle + len(texts)))
        return self.add(texts)

    @rule(text=conditions(), target=handles)
    def add_beside_an_error(self, text: str) -> int:
        self.handle += 2
        errors = self.interest.add(compile_conditions([self.handle - 2, self.handle - 1], ["price <", text]))
        assert list(errors) == [self.handle - 2]
        assert isinstance(errors[self.handle - 2], ConditionError)
        self.subscriptions[self.handle - 1] = text
        return self.handle - 1

    @rule(gone=st.lists(consumes(handles), min_size=1, max_size=4))
    def remove(self, gone: list[int]) -> None:
        for handle in gone:
            self.interest.remove(handle)
            self.subscriptions.pop(handle, None)

    @rule()
    def remove_what_is_not_there(self) -> None:
        self.handle += 1
        self.interest.remove(self.handle - 1)

    @rule()
    def begin_to_merge(self) -> None:
        merge = self.interest.pending_merge()
        self.merged = None if merge is None else merge()

    @precondition(lambda self: self.merged is not None)
    @rule()
    def install(self) -> None:
        """Perhaps long after it began, and perhaps after a merge that was done at once."""
        assert self.merged is not None
        self.interest.install(self.merged)
        self.merged = None

    @rule(rows=st.lists(events(), min_size=1, max_size=2), times=st.sampled_from([1, 1, 20]))
    def match(self, rows: list[Event], times: int) -> None:
        assert answers(self.interest, rows * times) == expected(self.subscriptions, rows, times)

    @rule(rows=st.lists(range_events(), min_size=1, max_size=2), times=st.sampled_from([1, 1, 20]))
    def match_ranges(self, rows: list[Event], times: int) -> None:
        """The oracle is exact only for conditions that were made for ranges."""
        texts = {handle: text for handle, text in self.subscriptions.items() if handle in self.for_ranges}
        found = answers(self.interest, rows * times)
        assert {handle: found[handle] for handle in found.keys() & texts} == expected(texts, rows, times)

    @invariant()
    def answers_are_right(self) -> None:
        assert answers(self.interest, EVENTS[:1]) == expected(self.subscriptions, EVENTS[:1])


TestAnyChanges = AnyChanges.TestCase
TestAnyChanges.settings = settings(
    max_examples=60,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


# What each way of holding conditions must not lose


@pytest.mark.parametrize("merging", [True, False])
def test_thousands_added_one_by_one(merging: bool) -> None:
    interest = Interest()
    for handle in range(6_000):
        interest.add(compile_conditions([handle], [f"price >= {handle} AND price < {handle + 3}"]))
        if merging and handle % 500 == 0 and (merge := interest.pending_merge()) is not None:
            interest.install(merge())
    for handle in range(0, 6_000, 3):
        interest.remove(handle)
    rows: list[Event] = [{"price": price} for price in range(0, 6_000, 7)]
    wanted = {
        handle: [number for number in range(len(rows)) if handle <= 7 * number < handle + 3]
        for handle in range(6_000)
        if handle % 3
    }
    wanted = {handle: numbers for handle, numbers in wanted.items() if numbers}
    assert answers(interest, rows) == wanted
    assert answers(interest, rows[:1]) == {handle: [0] for handle, numbers in wanted.items() if 0 in numbers}


def test_changes_during_a_merge_are_not_lost() -> None:
    interest = Interest()
    many = list(range(100))
    interest.add(compile_conditions(many, ["price > 0"] * 100))
    interest.add(compile_conditions([handle + 100 for handle in many], ["price > 0"] * 100))
    merge = interest.pending_merge()
    assert merge is not None
    merged = merge()
    interest.remove(5)
    interest.add(compile_conditions([500], ["price > 0"]))
    interest.add(compile_conditions(range(600, 700), ["price > 0"] * 100))
    interest.remove(650)
    interest.install(merged)
    left = {*range(200), 500, *range(600, 700)} - {5, 650}
    assert set(answers(interest, [{"price": 1}])) == left
    assert set(answers(interest, [{"price": 1}] * 700)) == left


def test_a_merge_that_another_overtook_is_dropped() -> None:
    interest = Interest()
    for start in (0, 100):
        interest.add(compile_conditions(range(start, start + 100), ["price > 0"] * 100))
    first, second = interest.pending_merge(), interest.pending_merge()
    assert first is not None
    assert second is not None
    interest.install(first())
    interest.remove(3)
    interest.add(compile_conditions(range(200, 300), ["price > 0"] * 100))
    interest.install(second())
    assert set(answers(interest, [{"price": 1}])) == set(range(300)) - {3}


def test_what_was_young_when_a_merge_began_can_be_removed_before_it_ends() -> None:
    interest = Interest()
    for handle in range(1_100):
        interest.add(compile_conditions([handle], ["price > 0"]))
    interest.remove(2)
    merge = interest.pending_merge()
    assert merge is not None
    merged = merge()
    for handle in (3, 600, 1_090):  # of every block
        interest.remove(handle)
    for _ in range(2):
        assert set(answers(interest, [{"price": 1}])) == set(range(1_100)) - {2, 3, 600, 1_090}
        interest.install(merged)


def test_what_was_removed_stays_away_after_a_merge() -> None:
    interest = Interest()
    interest.add(compile_conditions(range(5_000), ["price > 0"] * 5_000))
    for handle in range(2_000):
        interest.remove(handle)
    merge = interest.pending_merge()
    assert merge is not None
    interest.install(merge())
    assert interest.pending_merge() is None
    assert set(answers(interest, [{"price": 1}] * 3)) == set(range(2_000, 5_000))


def test_young_conditions_come_and_go_between_large_batches() -> None:
    interest = Interest()
    many: list[Event] = [{"price": 1}] * 1_000
    live: set[int] = set()
    for handle in range(6):
        interest.add(compile_conditions([handle], ["price > 0"]))
        live.add(handle)
        assert set(answers(interest, many)) == live
        if handle % 2:
            interest.remove(handle - 1)
            live.remove(handle - 1)
            assert set(answers(interest, many)) == live


def test_nothing_to_merge() -> None:
    interest = Interest()
    assert interest.pending_merge() is None
    interest.add(compile_conditions([1], ["price > 0"]))
    assert interest.pending_merge() is None


@pytest.mark.parametrize("times", [1, 30, 600])
def test_what_cannot_be_matched_is_an_error_in_every_way(times: int) -> None:
    interest = Interest()
    interest.add(compile_conditions([1], ["price > 0 AND symbol = 'a'"]))
    with pytest.raises(EventError, match="price"):
        list(interest.match([{"price": b"1", "symbol": "b"}] * times))
    assert list(interest.match([{"other": b"1"}] * times)) == []


def test_a_large_batch_when_all_that_was_young_is_gone() -> None:
    interest = Interest()
    interest.add(compile_conditions([1], ["price > 0"]))
    interest.remove(1)
    assert answers(interest, [{"price": 1}] * 1_000) == {}
    interest.add(compile_conditions([2], ["price > 0"]))
    assert answers(interest, [{"price": 1}]) == {2: [0]}


# Compiling


def test_an_unknown_shape_is_not_quick() -> None:
    text = "never_seen_before > 3 AND nor_this = 'x'"
    assert not is_quick([text])
    compile_conditions([1], [text])
    assert is_quick([text.replace("3", "4")])


@pytest.mark.parametrize(
    "text",
    [
        "price <",
        " AND ".join(f"(a{n} = {n} OR b{n} = {n})" for n in range(8)),
        f"symbol IN ({', '.join(map(repr, map(str, range(500))))})",
    ],
)
def test_what_cannot_be_told_or_takes_long_is_not_quick(text: str) -> None:
    compile_conditions([1], [text])
    assert not is_quick([text])


@pytest.mark.parametrize("text", ["a = 'x' AND b = 'y' AND c IN ('u', 'v') AND d = 'w'", "at > '2024-01-01'"])
def test_ordinary_conditions_are_quick(text: str) -> None:
    compile_conditions([1], [text])
    assert is_quick([text])


def test_many_are_not_quick() -> None:
    compile_conditions([1], ["price > 1"])
    assert is_quick(["price > 1"] * 5)
    assert not is_quick(["price > 1"] * 500)


# Warming up

PROGRAM = """
import sys
from numba.core.dispatcher import Dispatcher
from fieldfare.routing.interest import Interest, compile_conditions, warm_up

def compiled():
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("fieldfare.matching")]
    values = {id(value): value for module in modules for value in module.values()}
    return sum(len(value.signatures) for value in values.values() if isinstance(value, Dispatcher))

warm_up()
before = compiled()
forms = ["x > {} AND y < 5", "s = 'a{}'", "s LIKE 'a{}%' OR z", "x + y > {}", "s LIKE '%b{}%'", "s < '2024-01-0{}'"]
interest = Interest()
handle = 0
for count in (1, 50, 3_000, 40):
    texts = [forms[number % len(forms)].format(1 + number % 9) for number in range(count)]
    interest.add(compile_conditions(range(handle, handle + count), texts))
    handle += count
    for events in (1, 5, 1_000):
        row = {"x": 1 if count % 2 else 2.5, "y": 0.5, "s": "a1", "r": "b", "z": True}
        list(interest.match([row] * events + [{"x": None}]))
    for gone in range(0, handle, 7):
        interest.remove(gone)
    merge = interest.pending_merge()
    if merge is not None:
        interest.install(merge())
print(before, compiled())
"""


def test_warming_up_leaves_no_kernel_to_compile() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    before, after = map(int, ended.stdout.split())
    assert before == after
    assert before > 0
