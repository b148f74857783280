"""Who carries: bridges that see each other late, come and go, and a domain that is divided and one again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.dds.test_held import options

from fieldfare.runtime.dds.announcements import Announcement, Announcements
from fieldfare.runtime.dds.carrying import BridgeCandidate, Duty, next_duty
from fieldfare.runtime.dds.policies import WriterPolicies


def _candidate(name: str, *, is_carrying: bool = False) -> BridgeCandidate:
    return BridgeCandidate(name, f"guid of {name}", is_carrying)


def test_a_new_bridge_listens_first() -> None:
    assert next_duty(Duty.LISTENING, _candidate("a"), [], has_settled=False) is Duty.LISTENING
    assert next_duty(Duty.LISTENING, _candidate("a"), [], has_settled=True) is Duty.CARRYING


def test_who_carries_goes_on() -> None:
    old, new = _candidate("b", is_carrying=True), _candidate("a")
    assert next_duty(Duty.CARRYING, old, [new], has_settled=True) is Duty.CARRYING
    assert next_duty(Duty.LISTENING, new, [old], has_settled=False) is Duty.STANDING_BY


def test_of_two_that_carry_the_smaller_goes_on() -> None:
    one, other = _candidate("a", is_carrying=True), _candidate("b", is_carrying=True)
    assert next_duty(Duty.CARRYING, one, [other], has_settled=True) is Duty.CARRYING
    assert next_duty(Duty.CARRYING, other, [one], has_settled=True) is Duty.STANDING_BY


@given(st.data())
def test_in_the_end_one_carries(data: st.DataObject) -> None:
    """Each bridge knows what it heard last of each other, which may be old; then all hear everything."""
    names = ["a", "b", "c", "d"]
    duties = dict.fromkeys(names, Duty.LISTENING)
    heard: dict[str, dict[str, BridgeCandidate]] = {name: {} for name in names}

    def step(name: str) -> None:
        own = _candidate(name, is_carrying=duties[name] is Duty.CARRYING)
        others = [each for other, each in heard[name].items() if other in duties]
        duties[name] = next_duty(duties[name], own, others, has_settled=True)

    def hear(name: str, other: str) -> None:
        heard[name][other] = _candidate(other, is_carrying=duties[other] is Duty.CARRYING)

    for action in data.draw(st.lists(st.sampled_from(["step", "hear", "leave"]), max_size=30)):
        alive = sorted(duties)
        name, other = data.draw(st.sampled_from(alive)), data.draw(st.sampled_from(alive))
        if action == "step":
            step(name)
        elif action == "hear" and name != other:
            hear(name, other)
        elif action == "leave" and len(alive) > 1:
            del duties[name]
    for _ in range(4):
        for name in sorted(duties):
            for other in duties.keys() - {name}:
                hear(name, other)
            step(name)
    assert list(duties.values()).count(Duty.CARRYING) == 1


def test_announcements_are_forgotten_when_they_are_not_repeated() -> None:
    announcements = Announcements(heard_seconds=options.held_seconds)
    announcements.hear(Announcement(topic="t", writer="w", bridge="b", depth=7), now=0.0)
    announcements.hear(Announcement(topic="t", writer="v", bridge="c"), now=10.0)
    assert list(announcements.of("t", lambda heard: heard.bridge == "b")) == [WriterPolicies(depth=7)]
    assert announcements.forget_old(options.held_seconds + 5) == {"t"}
    assert len(list(announcements.of("t", lambda _: True))) == 1
    assert announcements.forget_old(options.held_seconds + 15) == {"t"}
    assert list(announcements.of("t", lambda _: True)) == []
