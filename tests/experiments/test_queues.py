from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fieldfare.experiments.bluedove_workload import (
    ATTRIBUTES,
    DOMAIN_LENGTH,
    HOT_SPOTS,
    BluedoveWorkload,
    Spec,
    generate,
)
from fieldfare.experiments.costs import service_by_scan
from fieldfare.experiments.deployment import deploy
from fieldfare.experiments.laboratory import Shape
from fieldfare.experiments.queues import EVENTS_PER_REPORT, NONE, Cluster, Queues, run, saturation
from fieldfare.forwarding import Policy

SPEC = Spec(subscriptions=1_000, events=4_096, width=20.0)
REPORTS = 8


@pytest.fixture(scope="module")
def workload() -> BluedoveWorkload:
    return generate(SPEC)


def cluster(workload: BluedoveWorkload, shape: Shape) -> Cluster:
    deployment = deploy(workload, shape.layout(workload))
    return Cluster(deployment, service_by_scan(deployment, 1e-8))


def test_the_same_spec_gives_the_same_workload(workload: BluedoveWorkload) -> None:
    again, other = generate(SPEC), generate(replace(SPEC, seed=2))
    assert np.array_equal(again.low, workload.low)
    assert np.array_equal(again.values, workload.values)
    assert not np.array_equal(other.low, workload.low)


@pytest.mark.parametrize("width", [1.0, 250.0])
def test_ranges_keep_their_width_inside_the_domain(width: float) -> None:
    made = generate(replace(SPEC, width=width))
    assert np.allclose(made.high - made.low, width)
    assert made.low.min() >= 0.0
    assert made.high.max() <= DOMAIN_LENGTH


def test_skewed_messages_crowd_at_the_hot_spots() -> None:
    values = generate(replace(SPEC, skewed_attributes=1)).values
    near = np.abs(values - np.array(HOT_SPOTS)[:, None]).mean(axis=1)
    assert near[0] < near[3]  # both hot spots are as far from the middle


def test_a_part_searches_every_subscription_that_its_events_match(workload: BluedoveWorkload) -> None:
    deployment = cluster(workload, Shape(4)).deployment
    row = 17
    point = workload.values[:, row][:, None]
    matches = np.flatnonzero(((workload.low <= point) & (point < workload.high)).all(axis=0))
    for part in deployment.candidates.first[row].tolist():
        assert np.isin(matches, deployment.boxes(part)).all()
        assert row in deployment.rows(part)


def test_the_model_is_deterministic(workload: BluedoveWorkload) -> None:
    made = cluster(workload, Shape(5))
    for policy in Policy:
        first, second = run(made, policy, 1e6, REPORTS), run(made, policy, 1e6, REPORTS)
        assert np.array_equal(first[-1].responses, second[-1].responses)


def test_more_matchers_sustain_more(workload: BluedoveWorkload) -> None:
    rates = [saturation(cluster(workload, Shape(count)), Policy.ADAPTIVE, REPORTS).rate for count in (2, 4, 8)]
    assert rates[0] < rates[1] < rates[2]


def test_more_dimensions_sustain_more(workload: BluedoveWorkload) -> None:
    shapes = [Shape(8, ATTRIBUTES[:count]) for count in (1, 2, 4)]
    rates = [saturation(cluster(workload, shape), Policy.ADAPTIVE, REPORTS).rate for shape in shapes]
    assert rates[0] < rates[1] < rates[2]


def test_a_choice_by_load_sustains_more_than_one_by_chance(workload: BluedoveWorkload) -> None:
    rates = {policy: saturation(cluster(workload, Shape(8)), policy, REPORTS).rate for policy in Policy}
    assert rates[Policy.RANDOM] < rates[Policy.ADAPTIVE]


def test_along_one_dimension_the_busiest_matcher_sets_the_rate(workload: BluedoveWorkload) -> None:
    made = cluster(workload, Shape.peer_to_peer(8))
    shares = np.bincount(made.deployment.candidates.first[:, 0], minlength=8) / SPEC.events
    assert saturation(made, Policy.ADAPTIVE, REPORTS).rate == pytest.approx(1 / (shares * made.service).max(), rel=0.03)


def test_responses_grow_only_above_saturation(workload: BluedoveWorkload) -> None:
    made = cluster(workload, Shape(4))
    rate = saturation(made, Policy.ADAPTIVE, REPORTS).rate
    below, above = (run(made, Policy.ADAPTIVE, share * rate, REPORTS) for share in (0.8, 1.5))
    assert below[-1].responses.mean() < 0.1
    assert above[-1].responses.mean() > above[3].responses.mean() > below[-1].responses.mean()


def test_what_is_stranded_can_be_sent_again(workload: BluedoveWorkload) -> None:
    made = cluster(workload, Shape(4))
    queues = Queues(Policy.ADAPTIVE)
    dead = queues.second(made, 1e5, dead=2)
    assert len(dead.stranded.rows) > 0
    assert len(dead.stranded.rows) + len(dead.events.rows) == EVENTS_PER_REPORT
    after = queues.second(made, 1e5, again=dead.stranded)
    assert len(after.events.rows) == EVENTS_PER_REPORT + len(dead.stranded.rows)
    assert after.stranded.rows.size == NONE.rows.size
    assert after.responses[: len(dead.stranded.rows)].min() > 0.0
