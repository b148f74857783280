from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from fieldfare.bench import pastry
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.pastry import PastryBenchOptions, run
from fieldfare.cli import app
from fieldfare.errors import InputError
from fieldfare.simulation.pastry import SimulatedRing


def quiet(_: str) -> None:
    """Report nothing."""


@pytest.mark.parametrize("options", [[], ["--join"]])
def test_a_small_ring_is_measured(options: list[str]) -> None:
    ended = CliRunner().invoke(app, ["bench", "pastry", "--nodes", "40", "--lookups", "40", "--json", *options])
    assert ended.exit_code == 0, ended.stderr
    (ring,) = json.loads(ended.stdout)["rings"]
    assert ring["crashed"] == 8
    assert 0 < ring["healing_seconds"] < 60
    assert 0.5 < ring["hops_mean"] <= ring["hops_max"] <= 5
    assert 10_000 < ring["bytes_per_node"] < 200_000
    assert ("datagrams_per_join" in ring) == bool(options)


def test_a_message_that_ends_elsewhere_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pastry._Truth, "closest", lambda _truth, _key: "p0007")
    with pytest.raises(BenchVerificationError, match="not at p0007"):
        run(PastryBenchOptions(20, 20), quiet)


def test_a_message_that_is_lost_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    route = SimulatedRing.route

    def forgetful(ring: SimulatedRing, name: str, key: int, message: bytes, *others: Any) -> None:
        if message != b"7":
            route(ring, name, key, message, *others)

    monkeypatch.setattr(SimulatedRing, "route", forgetful)
    with pytest.raises(BenchVerificationError, match="19 messages of 20"):
        run(PastryBenchOptions(20, 20), quiet)


def test_the_sizes_make_sense() -> None:
    with pytest.raises(InputError, match="at least 20"):
        PastryBenchOptions(nodes=5)
    with pytest.raises(InputError, match="above 0"):
        PastryBenchOptions(lookups=0)
