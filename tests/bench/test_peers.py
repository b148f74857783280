from __future__ import annotations

import sys

import numpy as np
import pytest

from fieldfare.bench.measuring import measure, verify, verify_counts
from fieldfare.bench.peers import PEERS
from fieldfare.bench.workload import Size
from fieldfare.bench.workloads import WORKLOADS, generate
from fieldfare.errors import MissingDependencyError


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_peers_that_know_a_workload_agree_with_brute_force(name: str) -> None:
    workload = generate(name, Size(3_000, 250.0, 100), 1)
    expected = np.array([len(workload.brute_force(event)) for event in range(100)])
    knowing = [peer for peer in PEERS if PEERS[peer].knows(workload)]
    assert knowing
    for peer in knowing:
        engine = PEERS[peer].build(workload, len(workload))
        verify(engine, workload, 60)
        measurement = measure(engine, 100, 0.01)
        verify_counts(peer, name, measurement.counts, expected)
        assert measurement.counts.max() > 0
        assert measurement.events_per_second > 0


@pytest.mark.parametrize("peer", [name for name, peer in PEERS.items() if peer.engine and not peer.regions_only])
def test_a_peer_follows_changes(peer: str) -> None:
    workload = generate("churn", Size(3_000, 250.0, 50), 1)
    engine = PEERS[peer].build(workload, 1_000)
    changes = 0
    for step in (300, 1_000, 700):
        engine.change(slice(1_000 + changes, 1_000 + changes + step), slice(changes, changes + step))
        changes += step
        verify(engine, workload.between(changes, 1_000 + changes), 50)


def test_only_boxes_go_into_an_r_tree() -> None:
    boxes, texts = (generate(name, Size(10, 250.0, 10), 1) for name in ("geo", "quotes"))
    assert PEERS["rtree"].knows(boxes)
    assert not PEERS["rtree"].knows(texts)
    assert PEERS["duckdb"].knows(texts)


def test_a_peer_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.delitem(sys.modules, "fieldfare.bench.duckdb_peer", raising=False)
    with pytest.raises(MissingDependencyError, match=r"fieldfare\[bench\]"):
        PEERS["duckdb"].build(generate("bluedove", Size(10, 250.0, 10), 1), 10)
