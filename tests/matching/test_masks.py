"""Boxes in bit masks: added one by one or made from a table, they answer as the oracle does."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.matching.strategies import Event, conditions, events

from fieldfare import Index
from fieldfare.boxes import BoxTable
from fieldfare.language import compile  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.matching.masks import BoxMasks
from fieldfare.model import SubscriptionId


def added(subscriptions: dict[SubscriptionId, str]) -> BoxMasks:
    masks = BoxMasks()
    for owner, text in subscriptions.items():
        masks.add(owner, compile(text).boxes)
    return masks


@given(
    st.lists(conditions(), min_size=1, max_size=5),
    st.lists(events(), min_size=1, max_size=4),
    st.sets(st.integers(0, 4)),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=100)
def test_equal_the_oracle(texts: list[str], rows: list[Event], removed: set[int]) -> None:
    subscriptions: dict[SubscriptionId, str] = dict(enumerate(texts))
    table = BoxTable.from_conditions([compile(text) for text in texts], range(len(texts)))
    one_by_one, together = added(subscriptions), BoxMasks.of(table, list(subscriptions))
    for owner in removed:
        assert one_by_one.remove(owner) is (owner in subscriptions)
        together.remove(owner)
        subscriptions.pop(owner, None)
    for row in rows:
        answer = oracle.match(subscriptions, row)
        assert one_by_one.match(row) == answer
        assert together.match(row) == answer


def test_a_subscription_with_overlapping_boxes_is_listed_once() -> None:
    masks = added({"a": "x > 1 OR y > 1", "b": "x > 5"})
    assert masks.match({"x": 2, "y": 2}) == ["a"]
    assert masks.match({"x": 6, "y": 2}) == ["a", "b"]


def test_residual_tests_of_few_and_of_many_boxes_that_come_between_events() -> None:
    subscriptions: dict[SubscriptionId, str] = {}
    masks = BoxMasks()
    rows: list[Event] = [{"x": x, "y": 3.5, "name": "bark"} for x in range(-5, 80, 7)]
    forms = ["x > y + {}", "name LIKE '%a_k%' AND x < {}", "name LIKE '%ar%' AND x < {}"]
    for number in range(40):
        text = forms[number % 3].format(number)
        subscriptions[number] = text
        masks.add(number, compile(text).boxes)
        for row in rows:
            assert masks.match(row) == oracle.match(subscriptions, row)


def test_an_index_answers_the_same_before_and_after_it_has_masks() -> None:
    subscriptions: dict[SubscriptionId, str] = {
        number: f"x >= {number} AND x < {number + 9} AND tag != 't{number % 5}'" for number in range(300)
    }
    index = Index(subscriptions)
    for time in range(2):
        for number in range(60):
            x, tag = number * 5 + time, f"t{number % 7}"
            wanted = [n for n in range(max(0, x - 8), min(x, 299) + 1) if tag != f"t{n % 5}"]
            assert index.match({"x": x, "tag": tag}) == wanted
