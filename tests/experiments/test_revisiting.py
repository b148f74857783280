"""The parts of `fieldfare experiments revisiting`; of what is run for real, the program itself and one edge."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from fieldfare.commands.experiments import app
from fieldfare.experiments.revisiting import figures as experiment
from fieldfare.experiments.revisiting.comparison import WAYS, Clients, Compared, choices, predicted, score
from fieldfare.experiments.revisiting.curves import popularity, replicas_and_hops, skipping
from fieldfare.experiments.revisiting.in_process import run_in_process
from fieldfare.experiments.revisiting.live import run_live
from fieldfare.experiments.revisiting.measured import Middle, Run
from fieldfare.experiments.revisiting.settings import QUICK
from fieldfare.experiments.revisiting.walks import Walks
from fieldfare.experiments.revisiting.workloads import workload_of
from fieldfare.forwarding import Visits
from fieldfare.matching.oracle import match
from fieldfare.planning.costs import reference_costs
from fieldfare.planning.presets import PRESETS
from fieldfare.planning.ways import WayKind

TINY = replace(
    QUICK,
    subscriptions_max=200,
    connections_max=4,
    pool_events=64,
    saturating_seconds=0.05,
    pacing_seconds=0.2,
    matchers=4,
    simulated_events=400,
    sizes=(100, 400),
)


@pytest.mark.parametrize("name", PRESETS)
def test_a_workload_matches_what_it_says(name: str) -> None:
    workload = workload_of(PRESETS[name].application, TINY)
    load, some = workload.load, workload.events.slice(0, 8).to_pylist()
    if name in {"games", "quotes", "places"}:  # the oracle knows no lists
        conditions: dict[str | int, str] = dict(enumerate(workload.conditions))
        assert load.deliveries(len(some)) == sum([len(match(conditions, row)) for row in some])
    assert load.deliveries(64) / 64 == pytest.approx(workload.application.matches_per_event)
    if name in {"games", "places"}:
        assert workload.application.matches_per_event == pytest.approx(
            PRESETS[name].application.matches_per_event, rel=0.5
        )
    sizes = [len(tail) + 30 for tail in workload.tails]
    assert max(sizes) > 0.8 * PRESETS[name].application.event_bytes
    assert json.loads(b"{" + workload.tails[0])["padding"] == workload.padding


def test_a_walk_waits_at_every_matcher() -> None:
    """Two events that come at once: the second waits at the first matcher, and not at the second one any more."""
    events, matchers = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 1], np.int32)
    walks = Walks(Visits(events, matchers, matchers), np.array([2.0, 1.0, 2.0, 1.0]), 2)
    assert walks.hops.tolist() == [2, 2]
    assert walks.throughput == pytest.approx(0.5)
    at_once = walks.latencies(1e12, 0.5, np.random.default_rng(1))
    assert at_once.tolist() == pytest.approx([4.0, 6.0])


def test_curves_have_what_the_theory_says() -> None:
    rh, hops, popular = (part(TINY, lambda _: None) for part in (replicas_and_hops, skipping, popularity))
    for figure in (rh, hops, popular):
        cells = [cell for row in figure.rows.values() for cell in row if isinstance(cell, float)]
        assert np.isfinite(cells).all()
        assert all(len(row) == len(figure.columns) for row in figure.rows.values())
    held, _, one_hop, *_ = rh.rows["scan, R 4, H = 1"]
    assert held == pytest.approx(4.0)
    _, _, all_hops, *_ = rh.rows["scan, R 1, H = X"]
    assert isinstance(one_hop, float)
    assert isinstance(all_hops, float)
    assert all_hops > one_hop
    for name, (asked, mean, worst, without, with_it) in hops.rows.items():
        assert 1.0 <= mean <= worst <= asked, name  # type: ignore[operator]
        assert with_it >= without  # type: ignore[operator]
    carried = {name: row[2] for name, row in popular.rows.items()}
    assert carried["equal matchers, R by popularity"] > carried["equal matchers, uniform R"]  # type: ignore[operator]


def test_a_hit_lies_within_the_aim_beyond_the_spread() -> None:
    steady, noisy = Middle.of([100.0, 100.0, 100.0]), Middle.of([80.0, 100.0, 120.0])
    assert (steady.median, steady.spread) == (100.0, 0.0)
    assert noisy.spread == pytest.approx(0.2)
    assert steady.agrees(129.0, 0.3)
    assert steady.agrees(78.0, 0.3)
    assert not steady.agrees(131.0, 0.3)
    assert noisy.agrees(150.0, 0.3)
    assert not noisy.agrees(math.inf, 0.3)
    assert not steady.agrees(60.0, 0.3)


def test_clients_on_the_same_cores_slow_brokers_down() -> None:
    application = workload_of(PRESETS["games"].application, TINY).application
    for way in WAYS[1:4]:
        alone = predicted(application, way, reference_costs(), 100.0, Clients())
        beside = predicted(application, way, reference_costs(), 100.0, Clients(2e-4, 1e-4))
        assert beside.throughput_events < alone.throughput_events, way
        assert beside.throughput_events * 2e-4 < 2.0
        assert predicted(
            application, way, reference_costs(), 100.0, Clients(1e-2, 1e-2)
        ).throughput_events == pytest.approx(100.0)


def test_a_way_is_better_only_if_it_is_in_everything() -> None:
    application = msgspec.structs.replace(
        workload_of(PRESETS["quotes"].application, TINY).application, events_per_second=100.0
    )

    def compared(number: int, throughput: float, p99: float) -> Compared:
        found = predicted(application, WAYS[number], reference_costs(), 100.0, Clients())
        return Compared(application, WAYS[number], (Run(throughput, 100.0, p99 / 2, p99),), found)

    edge, star = compared(1, 1000.0, 0.01), compared(2, 2000.0, 0.02)
    (choice,) = choices([edge, star])
    assert choice.recommended == WAYS[1]
    assert choice.better == ()
    (choice,) = choices([edge, compared(2, 2000.0, 0.005)])
    assert choice.better == (WAYS[2],)
    assert set(score([edge, star])) == {"throughput", "p50", "p99"}


def test_in_process_and_an_edge_are_run_and_compared(tmp_path: Path) -> None:
    workload = workload_of(PRESETS["games"].application, TINY)
    runs = {WAYS[0]: run_in_process(workload, TINY), WAYS[1]: run_live(WayKind.EDGE, workload, TINY)}
    compared = [
        Compared(
            workload.application,
            way,
            (run,),
            predicted(workload.application, way, reference_costs(), run.rate, Clients()),
        )
        for way, run in runs.items()
    ]
    assert all(0 < run.p50_seconds <= run.p99_seconds and run.throughput > 0 for run in runs.values())
    found = experiment.application_figures(compared)
    assert [figure.name for figure in found] == ["revisiting-games", "revisiting-score"]
    experiment.save(experiment.raw(compared, found, reference_costs()), tmp_path / "raw.json")
    saved = json.loads((tmp_path / "raw.json").read_text())
    assert [one["way"] for one in saved["compared"]] == ["process", "edge"]
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- measured -->\nold")
    experiment.write_page(found, page)
    assert page.read_text().startswith("# Title\n\n<!-- measured -->\n\n## ")
    assert "old" not in page.read_text()
    assert (
        "![predictions against measurements, and what is recommended](figure-revisiting-score.png)" in page.read_text()
    )


def test_a_figure_or_an_application_that_is_not_there_is_refused() -> None:
    runner = CliRunner()
    found = runner.invoke(app, ["revisiting", "--figure", "x"])
    assert "there are applications, rh, hops, popularity" in str(found.exception)
    found = runner.invoke(app, ["revisiting", "--application", "x"])
    assert "there is no preset 'x'" in str(found.exception)
