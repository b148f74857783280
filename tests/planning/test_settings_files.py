"""What a plan writes is what the commands read."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.planning.choosing import Plan
from fieldfare.planning.costs import reference_costs
from fieldfare.planning.nodes import Nodes
from fieldfare.planning.predicting import predict
from fieldfare.planning.presets import PRESETS
from fieldfare.planning.settings_files import settings_files
from fieldfare.planning.ways import Way, WayKind
from fieldfare.routing.tree.topology_file import read_topology
from fieldfare.runtime.config import load

WAYS = [
    Way(WayKind.PROCESS),
    Way(WayKind.EDGE),
    Way(WayKind.STAR, 3),
    Way(WayKind.TREE, 5),
    Way(WayKind.REPLICATED, 4),
    Way(WayKind.MULTI, 4),
    Way(WayKind.SINGLE, 4),
    Way(WayKind.CLUSTERS, 8, 2, 2),
    Way(WayKind.PEERS, 3),
]


def planned(name: str, way: Way) -> Plan:
    """A plan that recommends this way."""
    application, costs, nodes = PRESETS[name].application, reference_costs(), Nodes()
    predicted = predict(application, way, costs, nodes)
    return Plan(
        application=application, predictions=(predicted,), recommended=predicted, thresholds=(), is_reference=True
    )


@pytest.mark.parametrize("name", ["games", "places"])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_settings_are_accepted(way: Way, name: str, tmp_path: Path) -> None:
    files = settings_files(planned(name, way))
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    if "fieldfare.toml" in files:
        settings = load(tmp_path / "fieldfare.toml", {})
        assert settings.limits.subscriptions_max >= PRESETS[name].application.subscriptions
        assert settings.limits.connections_max >= PRESETS[name].application.open_connections
        assert (settings.topics[name].matching == "spark") == way.kind.is_spark
        checked = CliRunner().invoke(app, ["config", "check", str(tmp_path / "fieldfare.toml")])
        assert checked.exit_code == 0, checked.stderr
    if "tree.toml" in files:
        assert len(read_topology(tmp_path / "tree.toml").brokers) == way.nodes
    if "pipelines.toml" in files:
        from fieldfare.pipeline.settings import read_pipelines

        options = read_pipelines(tmp_path / "pipelines.toml")["planned"].options()
        assert (options.layout, options.matchers, options.hops) == (way.kind, way.nodes, way.hops)
    for line in files["commands.txt"].splitlines():
        if line.startswith("fieldfare "):
            assert_parses(shlex.split(line)[1:])


def assert_parses(arguments: list[str]) -> None:
    """A command and its options are there."""
    command = typer.main.get_command(app)
    context = command.make_context("fieldfare", list(arguments), resilient_parsing=True)
    while hasattr(command, "commands"):
        name, command, arguments = command.resolve_command(context, list(arguments))  # type: ignore[attr-defined]
        context = command.make_context(name, list(arguments))
        if not hasattr(command, "commands"):
            return
