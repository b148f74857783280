from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fieldfare.bench import simulation
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.simulated_nodes import GossipNode, MatchingNode, Message
from fieldfare.bench.simulation import Result, SimulationOptions, render, run
from fieldfare.cli import app
from fieldfare.errors import InputError


def quiet(_: str) -> None:
    """Report nothing."""


def test_a_quick_run_counts_every_message() -> None:
    ended = CliRunner().invoke(app, ["bench", "simulation", "--quick", "--repeats", "1", "--json"])
    assert ended.exit_code == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert result["peers"] == {}
    scenarios = {each["scenario"]: each for each in result["scenarios"]}
    assert list(scenarios) == ["idle", "gossip", "matching", "links"]
    assert 500 < scenarios["idle"]["bytes_per_node"] < 20_000
    for name, hops in (("gossip", 40), ("matching", 1_000), ("links", 100)):
        assert scenarios[name]["messages"] == scenarios[name]["nodes"] * (hops + 1)
        assert scenarios[name]["messages_per_second"] > 0
        assert "bytes_per_node" not in scenarios[name]


def test_a_message_that_is_lost_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(node: GossipNode, message: Message) -> None:
        node.received -= message.hops_left == 7

    monkeypatch.setattr(GossipNode, "_look_at", forgetful)
    with pytest.raises(BenchVerificationError, match="messages arrived"):
        run(SimulationOptions(1, is_quick=True), quiet)


def test_a_wrong_match_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MatchingNode, "match", lambda _node, _message: [3])
    with pytest.raises(BenchVerificationError, match="matching"):
        run(SimulationOptions(1, is_quick=True), quiet)


def test_the_table_says_that_there_is_no_peer() -> None:
    results = [
        Result("idle", "nodes that do nothing", 10, 0, 20_000.0, bytes_per_node=3_000.0),
        Result("gossip", "datagrams", 10, 100, 100_000.0, messages_per_second=150_000.0),
    ]
    console = Console(file=io.StringIO(), width=160)
    console.print(render(results))
    assert isinstance(console.file, io.StringIO)
    table = console.file.getvalue()
    assert "3,000" in table
    assert "150k" in table
    assert "no peer" in table


def test_the_number_of_repeats_is_checked() -> None:
    with pytest.raises(InputError, match="repeats"):
        SimulationOptions(repeats=0)


def test_an_idle_node_costs_less_than_the_aim() -> None:
    result = simulation._idle(SimulationOptions())
    assert result.nodes == 5_000
    assert result.bytes_per_node is not None
    assert result.bytes_per_node < simulation.BYTES_PER_NODE_AIM
