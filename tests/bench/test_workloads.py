from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from fieldfare.bench.spatial import DOMAIN_LENGTH, HOT_SPOTS
from fieldfare.bench.workload import Choices, Equals, Size, WantedMembers, WantedRanges, Workload
from fieldfare.bench.workloads import WORKLOADS, generate, sizes


def ranges(workload: Workload, attribute: str) -> WantedRanges:
    column = workload.columns[attribute]
    assert isinstance(column, WantedRanges)
    return column


def conditions(workload: Workload) -> list[str]:
    assert workload.conditions is not None
    texts: list[str] = workload.conditions["condition"].to_pylist()
    return texts


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_workload(name: str) -> None:
    one, same, other = (generate(name, Size(50, 250.0, 20), seed) for seed in (3, 3, 4))
    assert one.events.equals(same.events)
    assert not one.events.equals(other.events)
    assert all(np.array_equal(one.brute_force(event), same.brute_force(event)) for event in range(20))
    assert len(one) == 50
    assert len(one.events) == 20
    assert len(np.unique(one.ids)) == 50


def test_bluedove_has_ranges_of_the_width_around_its_hot_spots_and_uniform_events() -> None:
    workload = generate("bluedove", Size(20_000, 250.0, 20_000), 1)
    for hot_spot, attribute in zip(HOT_SPOTS, workload.columns, strict=True):
        column = ranges(workload, attribute)
        assert column.high is not None
        assert np.allclose(column.high - column.low, 250.0)
        assert column.low.min() >= 0.0
        assert column.high.max() <= DOMAIN_LENGTH
        inner = (column.low > 0.0) & (column.high < DOMAIN_LENGTH)
        density, edges = np.histogram(column.low[inner] + 125.0, 10, (125.0, 875.0))
        assert abs(edges[density.argmax()] + 37.5 - np.clip(hot_spot, 125.0, 875.0)) < 150.0
        assert abs(workload.values[attribute].mean() - 500.0) < 10.0
    matches = np.mean([len(workload.brute_force(event)) for event in range(2_000)])
    assert 0.8 < matches / (20_000 * 0.25**4) < 1.2


def test_sparse_asks_for_one_to_five_attributes_and_events_have_one_to_ten() -> None:
    workload = generate("sparse", Size(5_000, None, 5_000), 1)
    asked = np.array([text.count("BETWEEN") for text in conditions(workload)])
    present = sum(workload.events[name].is_valid().to_numpy().astype(int) for name in workload.columns)
    assert sorted(set(asked.tolist())) == [1, 2, 3, 4, 5]
    assert sorted(set(present.tolist())) == list(range(1, 11))
    assert abs(asked.mean() - 3.0) < 0.1
    for name in workload.columns:
        values = workload.events[name].drop_null().to_numpy()
        assert values.min() >= 1
        assert values.max() <= 256


def test_quotes_have_the_shares_of_rare_medium_and_symbol_only() -> None:
    workload = generate("quotes", Size(20_000, None, 20_000), 1)
    texts = conditions(workload)
    rare = np.array(["high_low_diff" in text for text in texts])
    medium = np.array(["volume" in text and "open_close_diff" in text for text in texts])
    assert abs(rare.mean() - 0.70) < 0.02
    assert abs(medium.mean() - 0.25) < 0.02
    others = {name: column for name, column in workload.columns.items() if not isinstance(column, Equals)}
    holds = np.array(
        [
            np.logical_and.reduce([column.holds(workload.values[name][event]) for name, column in others.items()])
            for event in range(500)
        ]
    )
    assert 0.07 < holds[:, rare].mean() < 0.13
    assert 0.42 < holds[:, medium].mean() < 0.58
    assert holds[:, ~rare & ~medium].all()


def test_quotes_follow_zipf_and_every_symbol_publishes_alike() -> None:
    workload = generate("quotes", Size(50_000, None, 50_000), 1)
    column = workload.columns["symbol"]
    assert isinstance(column, Equals)
    wanted = np.sort(np.bincount(column.codes, minlength=500))[::-1]
    published = np.bincount(workload.values["symbol"], minlength=500)
    assert 1.7 < wanted[0] / wanted[1] < 2.3
    assert published.min() > 50
    assert published.max() < 160


def test_feeds_have_prefixes_choices_and_negations() -> None:
    workload = generate("feeds", Size(5_000, None, 2_000), 1)
    texts = conditions(workload)
    assert all(text.startswith("topic LIKE '") for text in texts)
    for part in ("/%'", "language IN (", "language != ", "NOT source = ", "source NOT IN (", "score > "):
        assert any(part in text for text in texts), part
    assert workload.events["language"].null_count > 0
    matches = np.mean([len(workload.brute_force(event)) for event in range(500)])
    assert 0.0002 < matches / len(workload) < 0.002


def test_a_missing_string_satisfies_only_those_who_do_not_ask() -> None:
    workload = generate("feeds", Size(500, None, 20), 1)
    column = workload.columns["language"]
    assert isinstance(column, Choices)
    asks = np.array(["language" in text for text in conditions(workload)])
    assert np.array_equal(column.holds(len(column.vocabulary)), ~asks)


def test_geo_is_clustered_and_its_sizes_follow_a_power_law() -> None:
    workload = generate("geo", Size(20_000, None, 5_000), 1)
    column = ranges(workload, "latitude")
    assert column.high is not None
    widths = column.high - column.low
    assert np.quantile(widths, 0.99) > 20 * np.median(widths)
    cells = np.unique(np.round([workload.values["latitude"], workload.values["longitude"]]), axis=1)
    assert cells.shape[1] < 4_000


def test_geofences_are_as_many_circles_as_polygons_of_5_to_50_corners() -> None:
    workload = generate("geofences", Size(4_000, 260.0, 400), 1)
    texts = conditions(workload)
    corners = [text.count(",") - 2 for text in texts if "POLYGON" in text]
    assert (len(corners), min(corners), max(corners)) == (2_000, 5, 50)
    matches = np.mean([len(workload.brute_force(event)) for event in range(400)])
    assert 0.5 < matches < 4


def test_sizes_are_the_usual_ones_or_the_one_asked_for() -> None:
    usual = list(sizes(WORKLOADS["large"], None, None, None))
    assert [(size.subscriptions, size.width) for size in usual] == [(1_000_000, 50.0), (4_000_000, 25.0)]
    assert list(sizes(WORKLOADS["large"], 10, 5.0, 7)) == [Size(10, 5.0, 7)]
    assert list(sizes(WORKLOADS["geo"], 10, 5.0, 7)) == [Size(10, None, 7)]


def test_a_part_of_a_workload_matches_what_the_whole_matches_there() -> None:
    workload = generate("feeds", Size(3_000, None, 50), 1)
    part = workload.between(1_000, 2_000)
    for event in range(50):
        whole = workload.brute_force(event)
        assert np.array_equal(part.brute_force(event), np.intersect1d(whole, workload.ids[1_000:2_000]))


def test_keywords_are_rare_words_and_events_have_twenty_to_two_hundred() -> None:
    workload = generate("keywords", Size(20_000, None, 500), 1)
    wanted = workload.columns["keywords"]
    assert isinstance(wanted, WantedMembers)
    assert set(np.diff(wanted.offsets).tolist()) == {1, 2, 3, 4}
    assert wanted.codes.min() >= 1_000
    lengths = pc.list_value_length(workload.events["keywords"]).to_numpy()
    assert 20 <= lengths.min() < 30
    assert 190 < lengths.max() <= 200
    matches = float(np.mean([len(workload.brute_force(row)) for row in range(500)]))
    assert 300 < matches * 1_000_000 / 20_000 < 700


def test_alerts_have_most_of_what_one_attack_leaves_behind() -> None:
    workload = generate("alerts", Size(20_000, None, 300), 1)
    wanted = workload.columns["indicators"]
    assert isinstance(wanted, WantedMembers)
    assert set(np.diff(wanted.offsets).tolist()) == {1, 2, 3, 4, 5, 6}
    needed = np.diff(wanted.offsets)[
        np.concatenate([workload.brute_force(row) for row in range(300)]) - workload.ids[0]
    ]
    assert np.mean(needed > 1) > 0.1  # not only those that need one
