from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.errors import ApplicationError, CostsError, FieldfareError, NodesError
from fieldfare.planning.application import (
    Application,
    Clustering,
    Destination,
    Durability,
    Shape,
    application_from,
    load_application,
)
from fieldfare.planning.costs import load_costs, reference_costs, save_costs
from fieldfare.planning.nodes import Nodes, NodeSize, load_nodes
from fieldfare.planning.presets import PRESETS, preset

applications = st.builds(
    Application,
    name=st.text(min_size=1, max_size=20),
    subscriptions=st.integers(1_000, 10**9),
    events_per_second=st.floats(1e-3, 1e6),
    latency_seconds_max=st.floats(1e-3, 100.0),
    shape=st.sampled_from(Shape),
    clustering=st.sampled_from(Clustering),
    matches_per_event=st.floats(0, 1_000),
    subscribers=st.integers(1, 1_000),
    connections=st.none() | st.integers(1, 1_000),
    publishers=st.integers(1, 1_000),
    event_bytes=st.integers(1, 10**6),
    changes_per_second=st.floats(0, 1_000),
    durability=st.sampled_from(Durability),
    delivery=st.sampled_from(Destination),
    assumptions=st.lists(st.text(max_size=20), max_size=2).map(tuple),
)


@settings(max_examples=50, deadline=None)
@given(applications)
def test_it_comes_back_from_toml(tmp_path_factory: pytest.TempPathFactory, application: Application) -> None:
    file = tmp_path_factory.mktemp("toml") / "application.toml"
    file.write_text(application.to_toml(), encoding="utf-8")
    assert load_application(file) == application


GOOD = {"name": "a", "subscriptions": 10, "events_per_second": 5, "latency_seconds_max": 1}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"subscriptions": -1}, "subscriptions"),
        ({"subscriptions": True}, "subscriptions"),
        ({"events_per_second": "many"}, "events_per_second"),
        ({"events_per_second": float("nan")}, "events_per_second"),
        ({"events_per_second": float("inf")}, "events_per_second"),
        ({"shape": "boxes"}, "shape"),
        ({"colour": 1}, "there is no setting 'colour'"),
        ({"matches_per_event": 11}, "more than there are subscriptions"),
        ({"subscribers": 11}, "more subscribers than subscriptions"),
        ({"peak_events_per_second": 1}, "peak_events_per_second is less"),
        ({"locality": 0.5}, "only one network"),
        ({"assumptions": "one"}, "assumptions"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ApplicationError, match=told) as raised:
        application_from(GOOD | change, "here")
    assert all(problem.startswith("here: ") for problem in raised.value.problems)


def test_everything_wrong_is_named_at_once_and_python_says_the_same_as_toml() -> None:
    with pytest.raises(ApplicationError) as raised:
        application_from({"subscriptions": 0, "event_bytes": 0}, "here")
    assert len(raised.value.problems) == 5
    with pytest.raises(ApplicationError, match="subscriptions"):
        Application(name="a", subscriptions=0, events_per_second=1, latency_seconds_max=1)


@pytest.mark.parametrize("content", [b"\xff", b"a = ", b"a = " + b"[" * 5_000, b" " * 2_000_000])
def test_what_is_no_description_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    for load in (load_application, load_nodes):
        with pytest.raises((ApplicationError, NodesError)):
            load(file)
    with pytest.raises(CostsError):
        load_costs(file)


@pytest.mark.parametrize("load", [load_application, load_nodes, load_costs])
def test_a_file_that_is_not_there(tmp_path: Path, load: Any) -> None:
    with pytest.raises(FieldfareError, match="cannot be read"):
        load(tmp_path / "absent")


def test_presets_say_how_they_were_read() -> None:
    assert list(PRESETS) == ["games", "feeds", "quotes", "alerts", "places"]
    assert all(each.application.assumptions for each in PRESETS.values())
    with pytest.raises(ApplicationError, match="games, feeds"):
        preset("chess")


def test_costs_come_back(tmp_path: Path) -> None:
    save_costs(reference_costs(), tmp_path / "of" / "this" / "machine.json")
    assert load_costs(tmp_path / "of" / "this" / "machine.json") == reference_costs()
    (tmp_path / "other.json").write_text('{"format": 99}')
    with pytest.raises(CostsError, match="--calibrate"):
        load_costs(tmp_path / "other.json")


def test_nodes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "nodes.toml"
    file.write_text('[[nodes]]\nname = "a"\nspeed = 2.0\n[[nodes]]\nname = "b"\ncores = 8\n')
    assert load_nodes(file) == Nodes((NodeSize(name="a", speed=2.0), NodeSize(name="b", cores=8)), may_grow=False)
    for wrong in ('[[nodes]]\nspeed = 0\nname = "a"', "nodes = 3", '[[nodes]]\nname="a"\n[[nodes]]\nname="a"\n'):
        file.write_text(wrong)
        with pytest.raises(NodesError):
            load_nodes(file)
