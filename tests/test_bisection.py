from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.bisection import Bisection


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_exactly_the_bad_items_are_found_and_the_others_pass_in_order(are_bad: list[bool]) -> None:
    passed: list[int] = []
    bad: list[int] = []
    attempts = 0
    parts = Bisection(len(are_bad))
    for part in parts:
        attempts += 1
        if not any(are_bad[part]):
            passed += range(part.start, part.stop)
        elif not parts.halve(part):
            bad.append(part.start)
    assert passed == [number for number, is_bad in enumerate(are_bad) if not is_bad]
    assert bad == [number for number, is_bad in enumerate(are_bad) if is_bad]
    assert attempts <= 1 + 2 * len(bad) * (len(are_bad) - 1).bit_length()


def test_a_batch_without_items_is_tried_once() -> None:
    assert list(Bisection(0)) == [slice(0, 0)]
