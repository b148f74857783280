from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.placement.oracles import SlowTree, reports_of, sessions

from fieldfare.placement.placement_frames import BrokerDelays, BrokerReport
from fieldfare.placement.trace_tree import trace_tree
from fieldfare.placement.tree_sums import total_delays, total_messages


@given(sessions(), st.randoms(use_true_random=False))
def test_sums_are_those_of_the_papers_algorithms_for_every_candidate(
    session: tuple[list[BrokerReport], int], rng: random.Random
) -> None:
    reports, published = session
    first = rng.choice(reports).broker
    tree, slow = trace_tree(first, reports, published), SlowTree(reports, published)
    assert tree is not None
    assert tree.brokers[0] == first
    assert set(tree.brokers) == {report.broker for report in reports}
    for broker, messages, delay in zip(tree.brokers, total_messages(tree), total_delays(tree), strict=True):
        assert messages == slow.total_messages(broker)
        assert math.isclose(delay, slow.total_delay(broker), rel_tol=1e-9, abs_tol=1e-9)


def test_an_event_is_counted_once_at_a_broker_however_many_want_it_beyond() -> None:
    # 0 - 1 - 2, 1 - 3; both ends want publication 0, and the last publication 1 too
    tree = trace_tree("0", reports_of([0, 1, 1], [0, 0, 0b01, 0b11], [0, 0, 1, 2], {}), 2)
    assert tree is not None
    found = dict(zip(tree.brokers, total_messages(tree), strict=True))
    assert found == {"0": 2 + 2 + 1 + 2, "1": 2 + 1 + 2, "2": 2 + 2 + 2, "3": 2 + 1 + 1}


def test_delays_may_differ_by_direction() -> None:
    delays = {0: BrokerDelays(output_seconds={"1": 1.0}), 1: BrokerDelays(output_seconds={"0": 5.0})}
    tree = trace_tree("0", reports_of([0], [0b1, 0b1], [3, 2], delays), 1)
    assert tree is not None
    assert total_delays(tree) == [2 * 1.0, 3 * 5.0]


def test_bits_beyond_the_session_and_contradicting_links_are_ignored() -> None:
    reports = [
        BrokerReport("a", ("b", "c"), b"\xff", 1, BrokerDelays()),
        BrokerReport("b", ("a", "c"), b"", 0, BrokerDelays()),
        BrokerReport("c", ("b",), b"\x01", 1, BrokerDelays()),  # a says that they are neighbours, c does not
    ]
    tree = trace_tree("a", reports, 2)
    assert tree is not None
    assert (tree.brokers, tree.parents, tree.delivered) == (["a", "b", "c"], [-1, 0, 1], [0b11, 0, 0b01])
    assert trace_tree("z", reports, 2) is None


@pytest.mark.parametrize("links", [[("a", "b"), ("b", "c"), ("c", "a")]])
def test_a_cycle_is_walked_once(links: list[tuple[str, str]]) -> None:
    neighbours = {name: tuple(b if a == name else a for a, b in links if name in {a, b}) for name in "abc"}
    reports = [BrokerReport(name, around, b"\x01", 1, BrokerDelays()) for name, around in neighbours.items()]
    tree = trace_tree("a", reports, 1)
    assert tree is not None
    assert sorted(tree.brokers) == ["a", "b", "c"]
