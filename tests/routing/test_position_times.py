"""The sparse table of times: against a list of all events, and after restarts."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from tests.routing.frames import accepted
from tests.routing.harness import TENANT, Harness

from fieldfare.messages import TimesKept
from fieldfare.routing.position_times import PositionTimes

KEY = (TENANT, "roads")
BEGAN = 1_000_000.0

# Of each publication: positions that other topics take before it, its events, and seconds since the one before;
# some of them negative, as when somebody sets the clock back.
_publications = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(1, 5),
        st.one_of(st.floats(0, 3), st.floats(0, 500), st.sampled_from([0.0, 100_000.0, -5.0])),
    ),
    min_size=1,
    max_size=300,
)


@dataclass
class AllEvents:
    """The oracle: every position with the latest time up to it."""

    times: dict[int, float] = field(default_factory=dict)
    now: float = BEGAN
    last: int = -1

    def fill(self, table: PositionTimes, publications: list[tuple[int, int, float]]) -> None:
        latest = 0.0
        for others, count, seconds in publications:
            self.now += seconds
            latest = max(latest, self.now)
            first = self.last + 1 + others
            table.note(first, count, 10 * count, self.now)
            self.last = first + count - 1
            self.times |= dict.fromkeys(range(first, self.last + 1), latest)


@given(_publications, st.data())
def test_a_time_leads_before_all_that_came_then_or_later(
    publications: list[tuple[int, int, float]], data: st.DataObject
) -> None:
    table, every = PositionTimes(), AllEvents()
    every.fill(table, publications)
    latest = max(every.times.values())
    time = data.draw(st.one_of(st.floats(BEGAN - 10, latest + 10), st.just(1.7e308)))  # in milliseconds infinite
    position = table.before(time)
    assert all(at < time for place, at in every.times.items() if place <= position)
    early = [at for place, at in every.times.items() if place > position and at < time]
    assert all(time - at <= 1.01 + (latest - at) / 64 for at in early), "it begins too early"


@given(_publications, st.data())
def test_the_first_event_after_a_position_came_at_about_its_time(
    publications: list[tuple[int, int, float]], data: st.DataObject
) -> None:
    table, every = PositionTimes(), AllEvents()
    every.fill(table, publications)
    position = data.draw(st.integers(-1, every.last + 1))
    later = [at for place, at in every.times.items() if place > position]
    found = table.time_after(position)
    if not later:
        assert found is None
        return
    assert found is not None
    assert found <= min(later) + 0.002
    assert min(later) - found <= 1.01 + (max(later) - found) / 64
    totals = table.totals_after(position)
    assert totals.events >= len(later)
    assert totals.size_bytes == 10 * totals.events


@given(_publications)
def test_it_comes_back_from_a_checkpoint_as_it_was(publications: list[tuple[int, int, float]]) -> None:
    table, every = PositionTimes(), AllEvents()
    every.fill(table, publications)
    again = PositionTimes()
    again.recover(table.state(KEY))
    assert again.state(KEY) == table.state(KEY)
    table.note(every.last + 1, 1, 10, every.now)
    again.note(every.last + 1, 1, 10, every.now)
    assert again.state(KEY) == table.state(KEY)
    again.note(every.last, 1, 10, every.now + 50)  # what the checkpoint stands for comes again
    assert again.state(KEY) == table.state(KEY)


def test_a_busy_week_has_few_marks() -> None:
    table = PositionTimes()
    for second in range(7 * 86_400):
        table.note(second * 10, 10, 1000, BEGAN + second)
    now = BEGAN + 7 * 86_400
    assert len(table) < 1500
    assert 10 * (now - 5 - BEGAN) - 20 <= table.before(now - 5) < 10 * (now - 5 - BEGAN)
    assert abs(table.events_per_second(now) - 10) < 0.5
    table.forget_before(10 * 6 * 86_400)
    oldest = table.time_after(-1)
    assert oldest is not None
    assert BEGAN + 6 * 86_400 - 3600 < oldest <= BEGAN + 6 * 86_400


def test_an_idle_topic_has_no_rate() -> None:
    table = PositionTimes()
    assert table.events_per_second(BEGAN) == 0
    table.note(0, 30, 1000, BEGAN)
    assert table.events_per_second(BEGAN + 10) == 3
    assert table.events_per_second(BEGAN + 120) == 0


def test_an_edge_knows_times_after_a_crash_with_and_without_a_checkpoint() -> None:
    harness = Harness()
    client = harness.connect()
    for number in range(10):
        accepted(client.publish("roads", {"n": number}, {"n": number}))
        accepted(client.publish("rails", {"n": number}))
        harness.pass_time(10)
        if number == 5:
            harness.checkpoint()
    before = harness.edge.parts.topics[KEY].times.state(KEY)
    assert isinstance(before, TimesKept)
    harness.crash()
    times = harness.edge.parts.topics[KEY].times
    assert times.state(KEY) == before
    assert times.before(harness.now - 50.5) == 3 * 4 + 1  # the fifth one; five lie after it, of two events each
    assert times.totals_after(3 * 4 + 1).events == 10
