from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fieldfare.runtime.config import is_name
from fieldfare.runtime.dds.names import Mark, SampleId, edge_topic
from fieldfare.runtime.dds.options import DdsOptions, some_name

_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_topics_have_readable_names() -> None:
    assert edge_topic("Square") == "dds.Square"
    assert edge_topic("rt/front_camera/odom") == "dds.rt.front_camera.odom"
    assert edge_topic("a.b-c") == "dds.a-2Eb-2Dc"
    assert edge_topic("x" * 200) is None


@given(_NAMES, _NAMES)
def test_no_two_topics_have_one_name(one: str, other: str) -> None:
    first, second = edge_topic(one), edge_topic(other)
    assert first is None or is_name(first)
    assert first is None or (first == second) == (one == other)


@given(st.integers(-(2**63), 2**63 - 1), st.binary())
def test_the_id_of_an_event_tells_the_sample(timestamp_ns: int, event: bytes) -> None:
    sample_id = SampleId.of("0123456789abcdef" * 2, timestamp_ns, event)
    assert SampleId.parse(sample_id.event_id) == sample_id
    assert sample_id != SampleId.of("0123456789abcdef" * 2, timestamp_ns, event + b" ")


@given(st.text(max_size=80))
def test_other_ids_tell_none(event_id: str) -> None:
    assert SampleId.parse(event_id) is None


def test_bridges_know_each_other_by_their_marks() -> None:
    for mark in (Mark("fieldfare", "a"), Mark("other", "b-1", is_carrying=True)):
        assert Mark.decode(mark.encode()) == mark
    for user_data in (b"", b"\xff", b"fieldfare-bridge", b"somebody:a:b:carrying"):
        assert Mark.decode(user_data) is None


def test_a_name_that_nobody_gave_is_a_name() -> None:
    assert is_name(some_name())
    assert some_name() != some_name()


def test_topics_are_chosen_by_patterns() -> None:
    options = DdsOptions(0, "a", topics=("rt/*", "Square"))
    assert [name for name in ("rt/odom", "Square", "Squares", "rq/x") if options.is_bridged(name)] == [
        "rt/odom",
        "Square",
    ]
