from __future__ import annotations

import math
import statistics

import msgspec
import pytest
from hypothesis import given
from tests.placement.oracles import SlowTree, reports_of, sessions

from fieldfare.placement.placement_frames import BrokerReport
from fieldfare.placement.saving_error import messages_error, seconds_error
from fieldfare.placement.trace_tree import trace_tree


def each_alone(reports: list[BrokerReport], published: int) -> list[SlowTree]:
    """A session of one publication for each of a session."""
    trees = []
    for place in range(published):
        alone = []
        for report in reports:
            bits = int.from_bytes(report.delivered, "little")
            is_delivered = bits >> place & 1
            deliveries = report.deliveries // bits.bit_count() if is_delivered else 0
            alone.append(msgspec.structs.replace(report, delivered=bytes([is_delivered]), deliveries=deliveries))
        trees.append(SlowTree(alone, 1))
    return trees


def standard_error(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


@given(sessions(brokers_max=7, published_max=6))
def test_errors_are_those_of_publications_looked_at_one_by_one(session: tuple[list[BrokerReport], int]) -> None:
    reports, published = session
    tree = trace_tree("0", reports, published)
    assert tree is not None
    alone = each_alone(reports, published)
    for number, name in enumerate(tree.brokers):
        messages = [float(each.total_messages("0") - each.total_messages(name)) for each in alone]
        assert messages_error(tree, number) == pytest.approx(standard_error(messages))
        seconds = [each.total_delay("0") - each.total_delay(name) for each in alone]
        assert seconds_error(tree, number, 0.0) == pytest.approx(standard_error(seconds), abs=1e-9)


def test_the_publishers_own_way_counts_for_each_delivery() -> None:
    tree = trace_tree("0", reports_of([0], [0b01, 0b11], [1, 2], {}), 2)
    assert tree is not None
    # The first publication has two deliveries, the other one; each is half a second nearer.
    assert seconds_error(tree, 1, 0.5) == pytest.approx(standard_error([1.0, 0.5]))


def test_what_is_the_same_for_all_publications_is_certain() -> None:
    tree = trace_tree("0", reports_of([0, 1], [0, 0, 0b111], [0, 0, 3], {}), 3)
    assert tree is not None
    assert messages_error(tree, 2) == 0.0
