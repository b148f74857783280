"""Rounds, timers and the order of effects, which all hosts share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldfare.kernel import Kernel
from fieldfare.messages import Effect, Input, SetTimer, TimerDue


class Say(Effect, frozen=True):
    text: str


class Ask(Effect, frozen=True):
    text: str


class Heard(Input, frozen=True):
    text: str


class Recorder:
    """A node that answers inputs with the effects that a test gives, and keeps what it was told."""

    def __init__(self, answer: Callable[[Input], Sequence[Effect]] = lambda _: ()) -> None:
        self.answer = answer
        self.told: list[Input] = []

    def handle(self, message: Input, now: float) -> Sequence[Effect]:  # noqa: ARG002 - as a node's
        self.told.append(message)
        return self.answer(message)


def test_effects_are_performed_in_order_and_hooks_at_the_end() -> None:
    happened: list[str] = []
    node = Recorder(lambda message: [Say(f"{message.text}1"), Say(f"{message.text}2")])  # type: ignore[attr-defined]
    kernel = Kernel(node)
    kernel.provide(Say, lambda effect: happened.append(effect.text))
    kernel.at_round_end(lambda: happened.append("end"))
    kernel.at_round_end(lambda: happened.append("very end"))
    kernel.tell(Heard("a"))
    kernel.tell(Heard("b"))
    kernel.run_round(0.0)
    assert happened == ["a1", "a2", "b1", "b2", "end", "very end"]


def test_an_answer_that_comes_at_once_is_handled_in_the_same_round() -> None:
    node = Recorder(lambda message: [Ask("?")] if message == Heard("a") else [])
    kernel = Kernel(node)
    kernel.provide(Ask, lambda _: kernel.tell(Heard("answer")))
    kernel.tell(Heard("a"))
    kernel.tell(Heard("b"))
    kernel.run_round(0.0)
    assert node.told == [Heard("a"), Heard("b"), Heard("answer")]


def test_what_is_told_first_is_handled_before_all_that_waits() -> None:
    node = Recorder()
    kernel = Kernel(node)
    kernel.tell(Heard("a"))
    kernel.tell_first(Heard("stored"))
    kernel.run_round(0.0)
    assert node.told == [Heard("stored"), Heard("a")]


def test_a_hook_may_tell_what_is_handled_in_the_next_round() -> None:
    node = Recorder()
    kernel = Kernel(node)
    kernel.at_round_end(lambda: kernel.tell(Heard("late")) if not node.told else None)
    kernel.run_round(0.0)
    assert (node.told, kernel.has_inputs) == ([], True)
    kernel.run_round(0.0)
    assert (node.told, kernel.has_inputs) == ([Heard("late")], False)


def test_an_effect_that_nobody_performs_is_an_error() -> None:
    kernel = Kernel(Recorder(lambda _: [Say("x")]))
    kernel.tell(Heard("a"))
    with pytest.raises(KeyError):
        kernel.run_round(0.0)


def test_a_timer_that_is_due_at_once_is_due_at_the_end_of_the_round() -> None:
    node = Recorder(lambda message: [SetTimer("step", 5.0)] if message == Heard("a") else [])
    kernel = Kernel(node)
    kernel.tell(Heard("a"))
    kernel.tell(Heard("b"))
    kernel.run_round(5.0)
    assert node.told == [Heard("a"), Heard("b"), TimerDue("step")]
    assert kernel.next_timer_at is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=30), st.integers(0, 20))
def test_timers_are_due_once_at_their_last_time_in_order(settings: list[tuple[int, int]], now: int) -> None:
    effects = [SetTimer(key, float(at)) for key, at in settings]
    node = Recorder(lambda message: effects if message == Heard("set") else [])
    kernel = Kernel(node)
    kernel.tell(Heard("set"))
    kernel.run_round(-1.0)
    last: dict[int, tuple[int, int]] = {}
    for number, (key, at) in enumerate(settings):
        if key not in last or last[key][0] != at:
            last[key] = at, number
    expected = [key for key, _ in sorted(last.items(), key=lambda item: item[1])]
    assert kernel.next_timer_at == min((at for at, _ in last.values()), default=None)
    assert len(kernel.waits()) == len(last)
    kernel.run_round(float(now))
    due = [key for key in expected if last[key][0] <= now]
    assert node.told[1:] == [TimerDue(key) for key in due]
    kernel.run_round(100.0)
    assert node.told[1:] == [TimerDue(key) for key in expected]
