from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.placement.oracles import SlowTree

from fieldfare.placement.grape import Grape
from fieldfare.placement.options import UNDAMPED, GrapeOptions
from fieldfare.placement.passages import MeasureDelays, Passage, ToNeighbour
from fieldfare.placement.placement_frames import (
    AnyPlacementFrame,
    BrokerDelays,
    BrokerReport,
    ReportRequest,
    SessionReport,
    SessionTag,
    TraceId,
)
from fieldfare.simulation.placement_tree import PlacementPorts, PlacementTree, TreeShape

# The main office at `main` wants everything, two branches behind `b` one in ten; the publisher begins at `far`.
LINKS = [("far", "hub"), ("hub", "main"), ("hub", "b"), ("b", "b1"), ("b", "b2")]
DELAYS = BrokerDelays(matching_seconds=0.01)
TEN = GrapeOptions(session_publications=10)


def deliveries_of(number: int) -> dict[str, int]:
    return {"main": 1, "b1": 8, "b2": 8} if number % 10 == 0 else {"main": 1}


def grape_tree(
    options: GrapeOptions,
    loses: Callable[[str, str, AnyPlacementFrame], bool] = lambda _source, _target, _frame: False,
    publisher_seconds: Callable[[str, str], float | None] = lambda _publisher, _broker: 0.0,
) -> PlacementTree:
    ports = PlacementPorts(lambda broker: Grape(broker, options, lambda: DELAYS), publisher_seconds, loses)
    return PlacementTree(TreeShape(LINKS), {"p": "far"}, ports, UNDAMPED)


@pytest.mark.parametrize(
    ("options", "target"), [(TEN, "main"), (GrapeOptions(session_publications=10, priority="delay"), "b")]
)
def test_a_session_ends_with_one_request_and_one_report_over_each_link(options: GrapeOptions, target: str) -> None:
    tree = grape_tree(options)
    for number in range(10):
        assert not tree.counts.frames
        tree.publish("p", deliveries_of(number), float(number))
    assert tree.counts.frames == {"ReportRequest": 5, "SessionReport": 5}
    assert tree.places["p"] == target
    assert tree.counts.pings == (6 if options.needs_delays else 0)


def test_what_is_promised_is_what_comes() -> None:
    tree = grape_tree(TEN)
    for number in range(20):
        tree.publish("p", deliveries_of(number), float(number))
    relocation = tree.counts.relocated[0].relocation
    assert relocation.cost_now == pytest.approx(1 + 1 + 1 + 0.3)  # far, hub, main; b, b1 and b2 a tenth
    assert relocation.cost_then == pytest.approx(1 + 0.4)
    assert relocation.publications_per_second == 1.0
    assert len(tree.counts.relocated) == 1  # it is best there
    assert tree.counts.own_costs["p"]["messages"] == pytest.approx(relocation.cost_then)  # as the next session shows


def test_unreachable_brokers_are_no_candidates() -> None:
    options = GrapeOptions(session_publications=10, priority="delay")
    tree = grape_tree(options, publisher_seconds=lambda _, broker: None if broker == "b" else 0.0)
    for number in range(10):
        tree.publish("p", deliveries_of(number), float(number))
    assert tree.places["p"] in {"b1", "b2", "hub"}


def test_a_broker_that_is_far_for_the_publisher_is_worse_for_delay() -> None:
    options = GrapeOptions(session_publications=10, priority="delay")
    tree = grape_tree(options, publisher_seconds=lambda _, broker: 0.0 if broker == "far" else 60.0)
    for number in range(10):
        tree.publish("p", deliveries_of(number), float(number))
    assert tree.places["p"] == "far"
    assert tree.counts.decisions == 1


@given(
    st.lists(st.dictionaries(st.sampled_from(("far", "hub", "main", "b", "b1", "b2")), st.integers(1, 3)), min_size=1)
)
def test_reports_tell_what_was_delivered(publications: list[dict[str, int]]) -> None:
    options = GrapeOptions(session_publications=len(publications))
    found: list[SessionReport] = []
    tree = grape_tree(options)
    root = tree.machines["far"]
    assert isinstance(root, Grape)
    root._tracer._traced = found.append
    for number, deliveries in enumerate(publications):
        tree.publish("p", deliveries, float(number))
    (report,) = found
    assert report.is_complete
    by_broker = {each.broker: each for each in report.reports}
    for broker in tree.shape.neighbours:
        expected = [deliveries.get(broker, 0) for deliveries in publications]
        if broker not in by_broker:
            assert not any(expected)
            continue
        bits = int.from_bytes(by_broker[broker].delivered, "little")
        assert [bool(bits >> place & 1) for place in range(len(expected))] == [bool(many) for many in expected]
        assert by_broker[broker].deliveries == sum(expected)
    slow = SlowTree(report.reports, len(publications))  # what was sent in fact, with the publisher where it is
    sent = sum(len(tree.shape.ways("far", frozenset(deliveries))) for deliveries in publications)
    assert slow.total_messages("far") == sent


@pytest.mark.parametrize("lost", [ReportRequest, SessionReport])
def test_a_session_whose_reports_are_lost_times_out_and_the_next_one_counts(lost: type) -> None:
    losing = True
    options = GrapeOptions(session_publications=10, timeout_seconds=5.0)
    tree = grape_tree(options, lambda *passed: losing and isinstance(passed[2], lost) and passed[0] in {"b", "b1"})
    for number in range(20):
        tree.publish("p", deliveries_of(number), number * 0.1)
    assert not tree.counts.decisions
    losing = False
    tree.expire(60.0)
    for number in range(20, 30):
        tree.publish("p", deliveries_of(number), 60.0 + number)
    assert tree.places["p"] == "main"


def test_a_broker_that_restarted_spoils_the_session_at_once() -> None:
    tree = grape_tree(TEN)
    for number in range(9):
        tree.publish("p", deliveries_of(number), float(number))
    tree.restart("b")
    tree.publish("p", deliveries_of(9), 9.0)  # only the first and no later one has passed b
    assert not tree.counts.decisions
    for number in range(10, 20):  # no time has to pass
        tree.publish("p", deliveries_of(number), float(number))
    assert tree.places["p"] == "main"


@pytest.mark.parametrize("restarted", ["far", "hub", "main", "b"])
def test_a_broker_that_restarted_amid_a_session_does_not_report_the_rest_as_all(restarted: str) -> None:
    tree = grape_tree(TEN)
    for number in range(7):
        tree.publish("p", {"main": 1, "b1": 1}, float(number))
    tree.restart(restarted)
    for number in range(7, 10):
        tree.publish("p", {"main": 1, "b1": 1}, float(number))
    assert not tree.counts.decisions


def test_a_publication_that_passes_twice_is_counted_once() -> None:
    grape = Grape("a", GrapeOptions(session_publications=2), BrokerDelays)
    session = TraceId("p", "z", 1)
    for place in (0, 0, 1):
        grape.handled(SessionTag(session, place), Passage("c", (), 3), 0.0)
    (answer,) = grape.received("c", ReportRequest(session, 2), 0.0)
    assert isinstance(answer, ToNeighbour)
    assert isinstance(answer.frame, SessionReport)
    assert answer.frame.reports[0].deliveries == 6


def test_a_session_whose_last_publication_never_passes_is_given_up() -> None:
    grape = Grape("a", GrapeOptions(session_publications=1, timeout_seconds=5.0), BrokerDelays)
    assert grape.tag("p", 0.0) is not None
    assert grape.tag("p", 1.0) is None
    grape.expire(20.0)
    assert grape.tag("p", 20.0) == SessionTag(TraceId("p", "a", 1), 0)


def test_brokers_keep_nothing_of_a_session_that_is_over() -> None:
    tree = grape_tree(TEN)
    for number in range(9):
        tree.publish("p", deliveries_of(number), float(number))
    tracers = [machine._tracer for machine in tree.machines.values() if isinstance(machine, Grape)]
    assert sum(map(len, tracers)) == 6
    tree.publish("p", deliveries_of(9), 9.0)
    assert sum(map(len, tracers)) == 0
    for number in range(5):  # and what nobody asks for is forgotten
        tree.publish("p", deliveries_of(number), float(number))
    tree.expire(1e6)
    assert sum(map(len, tracers)) == 0


def test_none_is_traced_while_a_session_is_fetched_or_delays_are_measured() -> None:
    grape = Grape("a", GrapeOptions(session_publications=1, priority="delay"), BrokerDelays)
    tag = grape.tag("p", 0.0)
    assert tag == SessionTag(TraceId("p", "a", 0), 0)
    (request,) = grape.handled(tag, Passage(None, ("b",), 0), 0.0)
    assert request == ToNeighbour("b", ReportRequest(tag.session, 1))
    assert grape.tag("p", 0.0) is None
    report = BrokerReport("b", ("a",), b"\x01", 1, BrokerDelays())
    (asked,) = grape.received("b", SessionReport(tag.session, (report,)), 1.0)
    assert asked == MeasureDelays("p", tag.session, ("a", "b"))
    assert grape.tag("p", 1.0) is None
    grape.expire(100.0)  # the publisher did not answer
    assert not grape.measured(tag.session, {"a": 0.1, "b": 0.0})
    assert grape.tag("p", 100.0) == SessionTag(TraceId("p", "a", 1), 0)


def test_sessions_of_a_publisher_that_stays_get_longer_and_begin_short_elsewhere() -> None:
    grape = Grape("a", GrapeOptions(session_publications=2, calm_factor_max=4), BrokerDelays)

    def session_length() -> int:
        length = 0
        while True:
            tag = grape.tag("p", float(length))
            assert tag is not None
            length += 1
            assert tag.place == length - 1
            if grape.handled(tag, Passage(None, (), 1), float(length)):
                return length

    lengths = []
    for _ in range(4):
        lengths.append(session_length())
        grape.stayed("p")
    assert lengths == [2, 4, 8, 8]
    grape.forget("p")
    assert session_length() == 2


def test_a_publisher_that_has_left_is_forgotten() -> None:
    grape = Grape("a", GrapeOptions(session_publications=1), BrokerDelays)
    tag = grape.tag("p", 0.0)
    assert tag is not None
    grape.handled(tag, Passage(None, ("b",), 0), 0.0)
    grape.forget("p")
    report = BrokerReport("b", ("a",), b"\x01", 1, BrokerDelays())
    assert not grape.received("b", SessionReport(tag.session, (report,)), 1.0)


def test_a_session_without_deliveries_decides_nothing() -> None:
    grape = Grape("a", GrapeOptions(session_publications=1), BrokerDelays)
    tag = grape.tag("p", 0.0)
    assert tag is not None
    assert not grape.handled(tag, Passage(None, (), 0), 0.0)
    assert grape.tag("p", 1.0) is not None


def test_frames_of_strangers_do_no_harm() -> None:
    grape = Grape("a", TEN, BrokerDelays)
    session = TraceId("p", "z", 1)
    unknown = ToNeighbour("b", SessionReport(session, (), is_complete=False))
    assert grape.received("b", ReportRequest(session, 1), 0.0) == [unknown]
    assert not grape.received("b", SessionReport(session, ()), 0.0)
    grape.handled(SessionTag(session, 0), Passage("c", (), 1), 0.0)
    assert grape.received("b", ReportRequest(session, 1), 0.0) == [unknown]  # it came from c


def test_frames_survive_the_wire() -> None:
    codec = msgspec.msgpack.Decoder(AnyPlacementFrame)
    report = BrokerReport("b", ("a",), b"\x01\xff", 3, BrokerDelays(0.1, 0.2, {"a": 0.3}, 0.4))
    frames: list[AnyPlacementFrame] = [
        SessionReport(TraceId("p", "a", 1), (report,)),
        ReportRequest(TraceId("p", "a", 1), 5),
    ]
    for frame in frames:
        assert codec.decode(msgspec.msgpack.encode(frame)) == frame
