from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fieldfare.forwarding import Policy
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.pipeline import control as control_module
from fieldfare.pipeline.control import Control, Elasticity
from fieldfare.pipeline.reports import BatchReport, PartReport, TaskReport
from fieldfare.store.base import ALL, Order
from fieldfare.store.catalog import Catalog
from fieldfare.store.subscription_store import open_store

ELASTIC = Elasticity(matchers_min=2, matchers_max=4, interval_seconds=1.0)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_store(tmp_path / "s.db") as store:
        store.add({number: f"x >= {number} AND x < {number + 3}" for number in range(50)}, now_seconds=0.0)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, LayoutPlan(LayoutKind.MULTI, 2)))
        catalog.open()
        yield catalog
        catalog.close()


def report(*seconds: float, events: int = 10_000) -> BatchReport:
    """A batch in which each matcher worked for so long, on as many events."""
    parts = [PartReport(number, number, events // len(seconds), 1, spent) for number, spent in enumerate(seconds)]
    return BatchReport([TaskReport(events=events, parts=parts)])


def wait_for_build(catalog: Catalog) -> None:
    deadline = time.monotonic() + 120
    while catalog.is_building:
        catalog.version(0.0)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_most_loaded_matcher_is_split_when_batches_are_late(catalog: Catalog) -> None:
    control = Control(catalog, Policy.ADAPTIVE, ELASTIC, auto=False)
    assert control.observe(report(0.4, 1.9), seconds=2.0) == []  # one late batch is no trend
    (decision,) = control.observe(report(0.4, 1.9), seconds=2.0)
    assert "splitting matcher 1" in decision
    wait_for_build(catalog)
    assert len(catalog.layout.matchers) == 3


def test_batches_that_are_late_for_other_reasons_split_nobody(catalog: Catalog) -> None:
    control = Control(catalog, Policy.ADAPTIVE, ELASTIC, auto=False)
    assert [control.observe(report(0.1, 0.2), seconds=5.0) for _ in range(5)] == [[]] * 5


def test_idle_matchers_are_merged_down_to_the_least_number(catalog: Catalog) -> None:
    control = Control(catalog, Policy.ADAPTIVE, Elasticity(1, 4, 1.0), auto=False)
    decisions = [text for _ in range(10) for text in control.observe(report(0.02, 0.01), seconds=0.05)]
    assert len(decisions) == 1
    assert "merging matcher 1" in decisions[0]
    wait_for_build(catalog)
    assert list(catalog.layout.matchers) == [0]
    assert [control.observe(report(0.01), seconds=0.05) for _ in range(15)] == [[]] * 15


def test_a_fixed_number_of_matchers_stays(catalog: Catalog) -> None:
    control = Control(catalog, Policy.ADAPTIVE, Elasticity(2, 2, 1.0), auto=False)
    assert [control.observe(report(1.0, 1.9), seconds=2.0) for _ in range(5)] == [[]] * 5
    assert [control.observe(report(0.01, 0.01), seconds=0.02) for _ in range(15)] == [[]] * 15


def test_dispatchers_learn_how_fast_parts_are(catalog: Catalog) -> None:
    control = Control(catalog, Policy.ADAPTIVE, ELASTIC, auto=False)
    assert not control.forwarding(0).load.matching_rate.any()
    control.observe(report(0.5, 0.1), seconds=0.6)
    load = control.forwarding(1).load
    assert load.matching_rate[:2].tolist() == [10_000, 50_000]
    control.observe(report(0.25, 0.1), seconds=0.6)
    assert 10_000 < control.forwarding(2).load.matching_rate[0] < 20_000


@pytest.mark.parametrize(("partitioned_seconds", "kept"), [(0.2, "multi"), (0.9, "replicated")])
def test_auto_measures_both_layouts_and_keeps_the_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitioned_seconds: float, kept: str
) -> None:
    monkeypatch.setattr(control_module, "_INDEX_BYTES_MIN", 0)
    with open_store(tmp_path / "s.db") as store:
        store.add({number: f"x >= {number} AND x < {number + 3}" for number in range(50)}, now_seconds=0.0)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, LayoutPlan(LayoutKind.REPLICATED, 2)))
        catalog.open()
        control = Control(catalog, Policy.ADAPTIVE, Elasticity(2, 2, 1.0), auto=True)
        told = [text for _ in range(3) for text in control.observe(report(0.1), seconds=0.5)]
        assert "trying the layout multi" in told[0]
        wait_for_build(catalog)
        assert catalog.layout.kind == "multi"
        told = [text for _ in range(3) for text in control.observe(report(0.1, 0.1), seconds=partitioned_seconds)]
        assert f"layout {kept}: microseconds per event, as measured" in told[0]
        wait_for_build(catalog)
        assert catalog.layout.kind == kept
        assert [control.observe(report(0.1), seconds=0.5) for _ in range(5)] == [[]] * 5


def test_clusters_that_have_more_to_do_get_more_replicas(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        store.add({number: f"x >= {number} AND x < {number + 3}" for number in range(50)}, now_seconds=0.0)
        plan = LayoutPlan(LayoutKind.CLUSTERS, 6, replicas=3)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, plan))
        catalog.open()
        control = Control(catalog, Policy.ADAPTIVE, Elasticity(6, 6, 1.0), auto=False)
        assert [control.observe(report(0.5, 0.4), seconds=1.0) for _ in range(5)] == [[]] * 5
        control = Control(catalog, Policy.ADAPTIVE, Elasticity(6, 6, 1.0), auto=False)
        told = [text for _ in range(3) for text in control.observe(report(2.5, 0.1), seconds=1.0)]
        assert told == ["replicas by load: the busiest matcher gets 60% of what it has now"]
        wait_for_build(catalog)
        assert [len(group) for group in catalog.layout.dimensions[0].matchers] == [5, 1]
        assert [control.observe(report(2.5, 0.1), seconds=1.0) for _ in range(5)] == [[]] * 5
        catalog.close()


def test_auto_leaves_a_small_index_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        store.add({1: "x > 1"}, now_seconds=0.0)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, LayoutPlan(LayoutKind.REPLICATED, 2)))
        catalog.open()
        control = Control(catalog, Policy.ADAPTIVE, ELASTIC, auto=True)
        assert [control.observe(report(0.1), seconds=0.5) for _ in range(9)] == [[]] * 9
