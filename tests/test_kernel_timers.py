from __future__ import annotations

from collections.abc import Hashable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.kernel import Kernel
from fieldfare.messages import Effect, Input, SetTimer, Started, TimerDue

Setting = tuple[str, float]


class Timing:
    """A node that sets timers as it is told to, and notes which were due."""

    def __init__(self) -> None:
        self.to_set: list[Setting] = []
        self.due: list[Hashable] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - it is called with it
        if isinstance(message, TimerDue):
            self.due.append(message.key)
            return []
        return [SetTimer(key, at) for key, at in self.to_set]


def tell(kernel: Kernel, node: Timing, settings: Sequence[Setting], now: float) -> None:
    node.to_set = list(settings)
    kernel.tell(Started())
    kernel.run_round(now)


settings = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20).map(float)), max_size=8)


@given(st.lists(st.tuples(settings, st.integers(1, 5)), max_size=20))
def test_timers_are_due_in_the_order_of_their_times_and_then_of_their_setting(
    rounds: list[tuple[list[Setting], int]],
) -> None:
    node = Timing()
    kernel = Kernel(node)
    model: dict[str, tuple[float, int]] = {}
    now, number = 0.0, 0
    for chosen, pause in rounds:
        now += pause
        expected = len(node.due)
        for key, at in chosen:
            number += 1
            if key not in model or model[key][0] != at:
                model[key] = at, number
        due = sorted((key for key in model if model[key][0] <= now), key=lambda key: model[key])
        for key in due:
            del model[key]
        tell(kernel, node, chosen, now)
        assert node.due[expected:] == due
        assert kernel.next_timer_at == min((at for at, _ in model.values()), default=None)


def test_a_timer_that_is_moved_again_and_again_takes_no_more_room() -> None:
    node = Timing()
    kernel = Kernel(node)
    for now in range(1000):
        tell(kernel, node, [("next", 1e5), ("patience", now + 1e6)], float(now))
    assert kernel.next_timer_at == 1e5
    assert len(kernel._timer_heap) < 50


def test_a_host_may_take_timers_itself() -> None:
    node = Timing()
    kernel = Kernel(node)
    tell(kernel, node, [("late", 3.0), ("early", 1.0), ("never", 100.0)], 0.0)
    kernel.run_round(5.0, with_timers=False)
    assert node.due == []
    assert [kernel.take_due_timer(5.0) for _ in range(3)] == [TimerDue("early"), TimerDue("late"), None]
    assert kernel.next_timer_at == 100.0
