"""The evaluation of DMM and DMM-AR at tiny sizes: what must hold whatever the seed and the size."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fieldfare.commands.experiments import app
from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.errors import InputError
from fieldfare.experiments.dmm import figures as experiment
from fieldfare.experiments.dmm.experiment import Experiment, PeerRun
from fieldfare.experiments.dmm.floors import direct_links, shortest_tree_links, spanning_tree_links
from fieldfare.experiments.dmm.metering import DELIVERY, PUBLICATION_KINDS, SEARCH
from fieldfare.experiments.dmm.settings import (
    AR_CACHE,
    BISECTION_CACHE,
    DMM,
    FIFTH,
    HERMES,
    NARROWEST,
    QUICK,
    RELIABLE,
    Algorithm,
    Scale,
)
from fieldfare.experiments.dmm.workload import Oracle, draw_event, draw_subscriptions
from fieldfare.experiments.results import Figure
from fieldfare.language import compile  # noqa: A004 - the product's own word
from fieldfare.routing.interest import Interest, compiled_condition
from fieldfare.simulation.transit_stub import TransitStub, TransitStubOptions

TINY = replace(
    QUICK,
    peers=40,
    publishers=4,
    subscriptions=(20, 40),
    few_subscriptions=20,
    publishing_seconds=10.0,
    dimensions_publishers=4,
    dimensions_publishing_seconds=10.0,
    climbing_tail_seconds=60.0,
    crash_at_seconds=10.0,
    crash_watched_seconds=30.0,
    crash_publications_per_minute=60,
    recovery_peers=30,
    recovery_subscriptions=30,
)
LOSSLESS = replace(TINY, network=replace(TINY.network, loss_per_hop=0.0))
SMALL_NETWORK = TransitStubOptions(transit_domains=3, transit_routers=2, stub_domains=2, stub_routers=4)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    kept = tmp_path_factory.mktemp("kept")
    return {figure.name: figure for figure in experiment.run((), TINY, lambda _: None, kept)}


def test_every_figure_has_its_numbers(figures: dict[str, Figure]) -> None:
    numbered = [str(number) for number in range(8, 18)]
    assert list(figures) == [*numbered, "loss", "replicas"] == list(experiment.FIGURES)
    for figure in figures.values():
        assert figure.rows
        assert all(len(cells) == len(figure.columns) for cells in figure.rows.values())
        assert all(math.isfinite(y) for panel in figure.panels for series in panel.series for y in series.y)


def test_reliable_topics_lose_nothing_not_even_in_a_crash(figures: dict[str, Figure]) -> None:
    columns, cells = list(figures["17"].columns), figures["17"].rows[RELIABLE.name]
    assert cells[columns.index("delivered, of live publishers")] == 1.0
    assert cells[columns.index("whole again after s, at all")] == 0.0
    assert "100.0000%" in figures["8"].conclusion


def test_the_command_prints_json_plots_and_keeps_its_runs(tmp_path: Path) -> None:
    arguments = ["dmm", "--figure", "12", "--quick", "--json", "--plot", str(tmp_path), "--kept", str(tmp_path / "k")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)[0]["name"] == "12"
    assert (tmp_path / "figure-12.png").stat().st_size > 1000
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "k").glob("*.json")}
    assert kept
    again = CliRunner().invoke(app, arguments)
    assert again.stdout == result.stdout
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "k").glob("*.json")} == kept, "nothing is run twice"


def test_an_unknown_figure_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match="there is no figure '7'; there are 8, "):
        experiment.run(["7"], TINY, lambda _: None)


@pytest.mark.parametrize(
    "algorithm", [AR_CACHE, BISECTION_CACHE, NARROWEST, RELIABLE, HERMES], ids=lambda each: each.name
)
def test_all_is_delivered_once_where_nothing_is_lost(algorithm: Algorithm) -> None:
    run = Experiment(PeerRun(algorithm, 40), LOSSLESS)
    outcome = run.run()
    assert outcome.active == 40
    assert outcome.matches >= 10
    assert outcome.delivery_ratio == outcome.kept_ratio == 1.0
    assert outcome.unexpected == outcome.twice == 0
    counted, sent = outcome.messages()[0], run.world.network.datagrams_sent
    assert counted == sent, "every datagram is of some kind"
    assert outcome.messages(DELIVERY)[0] >= sum(len(set(each.wanted.values())) for each in run.published.values())
    assert outcome.messages(*PUBLICATION_KINDS)[1] >= outcome.messages(*PUBLICATION_KINDS)[0]
    assert all(each.delay_seconds is None or each.delay_seconds >= 0.0 for each in outcome.events)


def test_a_run_is_replayed_by_its_seed() -> None:
    one, same = (msgspec.to_builtins(Experiment(PeerRun(BISECTION_CACHE, 20), TINY).run()) for _ in range(2))
    other = msgspec.to_builtins(Experiment(PeerRun(BISECTION_CACHE, 20), replace(TINY, seed=2)).run())
    for outcome in (one, same, other):
        del outcome["cpu_seconds"]
    assert one == same != other


def test_climbing_asks_more_than_bisecting() -> None:
    """The paper's DMM begins at the smallest region, 80 bits deep, of a tree that is not."""
    climbing, bisecting = (
        Experiment(PeerRun(algorithm, 20), LOSSLESS).run().messages(SEARCH)[0]
        for algorithm in (DMM, replace(DMM, strategy=BISECTION_CACHE.strategy))
    )
    assert climbing > 2 * bisecting


def test_a_fifth_is_one() -> None:
    whole = Scale()
    assert [5 * count for count in FIFTH.subscriptions] == list(whole.subscriptions)
    assert (5 * FIFTH.peers, 5 * FIFTH.publishers) == (whole.peers, whole.publishers)
    assert 5 * FIFTH.entries_max == whole.entries_max


def test_conditions_mean_what_the_drawn_ranges_say() -> None:
    rng = random.Random(5)
    subscriptions = draw_subscriptions(60, rng) + draw_subscriptions(20, rng, dimensions=3)
    interest, oracle = Interest(), Oracle(subscriptions)
    for number, each in enumerate(subscriptions):
        interest.add(compiled_condition(number, compile(each.condition)))
    matches = 0
    for _ in range(100):
        event = draw_event(rng)
        expected = oracle.matching(event)
        assert sorted(number for number, _ in interest.match([event])) == expected
        matches += len(expected)
    assert matches > 100


def test_more_attributes_match_as_many_publications() -> None:
    sizes = []
    for dimensions in (1, 5):
        subscriptions = draw_subscriptions(50, random.Random(3), dimensions)
        assert all(len(each.ranges) == dimensions for each in subscriptions)
        oracle, rng = Oracle(subscriptions), random.Random(4)
        sizes.append(sum(len(oracle.matching(draw_event(rng, has_all=True))) for _ in range(400)))
    assert sizes[0] == pytest.approx(sizes[1], rel=0.3)


def test_the_network_has_the_papers_size() -> None:
    options = TransitStubOptions()
    assert options.routers == 5_050
    network = TransitStub(options, random.Random(1))
    names = [f"p{number}" for number in range(300)]
    quality = network.attach(names)
    far = [quality(one, other) for one, other in pairwise(names)]
    assert all(0.0 < each.latency_seconds < 6.0 and 0.0 < each.loss < 0.05 for each in far)


def test_ways_are_connected_and_the_shortest() -> None:
    network = TransitStub(SMALL_NETWORK, random.Random(2))
    names = [f"p{number}" for number in range(12)]
    quality = network.attach(names)
    for one, other in permutations(names, 2):
        links = list(network.path(one, other))
        ends = Counter(end for link in links for end in link)
        assert len(links) == network.hops(one, other) == len(set(links))
        assert sorted(ends.values())[:2] == [1, 1]
        assert all(count == 2 for end, count in ends.items() if end >= 0 or count > 1), "one line, without branches"
        assert network.distance(one, other) == pytest.approx(network.distance(other, one))
        assert quality(one, other).loss == pytest.approx(1.0 - 0.999 ** len(links))
    routers = {name: network.distance(name, names[0]) for name in names[1:]}
    for one, other in permutations(names[1:], 2):  # a way over a third place is never shorter, beside its own two links
        detour = network.distance(one, other)[0] + routers[other][0]
        assert routers[one][0] <= detour + 1e-9


def test_floors_are_in_order() -> None:
    network = TransitStub(SMALL_NETWORK, random.Random(2))
    names = [f"p{number}" for number in range(9)]
    network.attach(names)
    source, targets = names[0], names[1:5]
    spanning = spanning_tree_links(network, source, targets)
    chains = (
        sum(network.hops(one, other) for one, other in pairwise((source, *order))) for order in permutations(targets)
    )
    assert shortest_tree_links(network, source, targets) <= spanning <= min(chains)
    assert spanning <= direct_links(network, source, targets)
    assert shortest_tree_links(network, source, targets[:1]) == network.hops(source, targets[0])


def _number(figure: Figure, row: str, column: str) -> float:
    value = figure.rows[row][list(figure.columns).index(column)]
    assert isinstance(value, float | int)
    return value


def test_copies_of_either_kind_lose_nothing(figures: dict[str, Figure]) -> None:
    """Who sent entries is less to keep than the entries; both bring every event to every subscriber, once."""
    figure = figures["replicas"]
    assert set(figure.rows) == set(ReplicaContent)
    for content in ReplicaContent:
        assert _number(figure, content, "missing") == _number(figure, content, "doubled") == 0
    entries, senders = (_number(figure, content, "copies: kB of each peer") for content in ReplicaContent)
    assert entries > senders > 0


def test_more_loss_costs_multicast_deliveries_and_reliable_topics_none(figures: dict[str, Figure]) -> None:
    figure, losses = figures["loss"], [f"{100 * loss:g}%" for loss in TINY.losses_per_hop]
    lost = [_number(figure, f"{NARROWEST.name}, {loss}", "of datagrams lost") for loss in losses]
    assert 0.0 < lost[0] < lost[-1] < 1.0
    assert all(_number(figure, f"{RELIABLE.name}, {loss}", "of those active") == 1.0 for loss in losses)
    assert _number(figure, f"{NARROWEST.name}, {losses[-1]}", "of those active") < 1.0


def test_a_crashed_publisher_takes_its_events_with_it() -> None:
    run = Experiment(PeerRun(RELIABLE, 20, do_crash=True), replace(TINY, crashed_share=0.5))
    outcome = run.run()
    gone = [event for event in outcome.events if event.is_publisher_gone]
    assert 0 < len(gone) < len(outcome.events)
    assert all(event.at_seconds <= TINY.crash_at_seconds for event in gone), "who has crashed publishes nothing"
    assert all(event.kept == event.promised for event in outcome.events if not event.is_publisher_gone)
