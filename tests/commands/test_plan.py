from __future__ import annotations

import io
import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fieldfare.bench.calibration.saved import costs_file, machine, saved_costs, versions
from fieldfare.cli import app
from fieldfare.commands.plan_tables import duration, memory, network, plan_view
from fieldfare.planning.choosing import Plan, plan
from fieldfare.planning.costs import reference_costs, save_costs
from fieldfare.planning.nodes import Nodes
from fieldfare.planning.presets import PRESETS

runner = CliRunner()


@pytest.fixture(autouse=True)
def nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_ways_side_by_side_fit_a_terminal() -> None:
    ended = runner.invoke(app, ["plan", "feeds"])
    assert ended.exit_code == 0
    assert max(map(len, ended.stdout.splitlines())) <= 100
    for text in ("→ edge", "star of", "clusters of", "peers of", "Recommended: edge", "What would change it", "beyond"):
        assert text in ended.stdout
    assert "fieldfare plan --calibrate" in ended.stdout  # costs are the reference's, and it is said


def test_json_is_the_plan() -> None:
    ended = runner.invoke(app, ["plan", "feeds", "--json", "--nodes", "2"])
    found = json.loads(ended.stdout)
    assert found["recommended"]["way"]["kind"] == "edge"
    assert found["is_reference"] is True
    assert {each["way"]["kind"] for each in found["predictions"]} >= {"edge", "peers", "clusters"}
    assert Plan.__struct_fields__ == tuple(found)


def test_a_preset_as_toml_plans_the_same() -> None:
    written = runner.invoke(app, ["plan", "feeds", "--toml"]).stdout
    assert written.count('\n    "') == len(PRESETS["feeds"].application.assumptions)
    Path("mine.toml").write_text(written)
    first, second = (runner.invoke(app, ["plan", name, "--json"]).stdout for name in ("feeds", "mine.toml"))
    assert json.loads(first) == json.loads(second)


def test_presets_are_listed_with_the_papers_words() -> None:
    shown = " ".join(runner.invoke(app, ["plan", "--presets"]).stdout.split())
    assert all(name in shown for name in PRESETS)
    assert json.loads(runner.invoke(app, ["plan", "--presets", "--json"]).stdout).keys() == PRESETS.keys()


def test_settings_are_written_once() -> None:
    assert runner.invoke(app, ["plan", "feeds", "--apply", "out"]).exit_code == 0
    assert sorted(file.name for file in Path("out").iterdir()) == ["commands.txt", "fieldfare.toml"]
    again = runner.invoke(app, ["plan", "feeds", "--apply", "out"])
    assert again.exit_code == 2
    assert "already" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name an application"),
        (["chess"], "there is no preset 'chess'"),
        (["absent.toml"], "cannot be read"),
        (["games", "--nodes", "0"], "1 to 10,000 nodes"),
        (["games", "--nodes", "absent.toml"], "cannot be read"),
        (["games", "--nodes", "-1"], "1 to 10,000 nodes"),
        (["games", "--nodes", "9" * 5_000], "takes how many there are"),
        (["feeds", "--apply", "/proc/nothing"], "/proc/nothing cannot be written"),
        (["feeds", "--plot", "/proc/nothing"], "/proc/nothing cannot be written"),
        (["games", "feeds", "--apply", "out"], "for one application"),
        (["quotes", "--nodes", "1", "--memory", "0.01", "--apply", "out"], "no way is enough"),
        (["games", "--costs", "absent.json"], "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], told: str) -> None:
    ended = runner.invoke(app, ["plan", *arguments])
    assert ended.exit_code == 2
    assert told in " ".join(ended.stderr.split())
    assert not Path("out").exists()


def test_several_applications() -> None:
    ended = runner.invoke(app, ["plan", "games", "feeds", "--nodes", "2"])
    assert ended.exit_code == 0
    assert "Placed together" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 100


def test_a_plot(tmp_path: Path) -> None:
    assert runner.invoke(app, ["plan", "feeds", "--plot", "plots"]).exit_code == 0
    assert [file.suffix for file in (tmp_path / "plots").iterdir()] == [".png"]


def test_saved_costs_are_those_of_this_machine_and_these_versions() -> None:
    assert saved_costs() is None
    here = msgspec.structs.replace(
        reference_costs().origin, machine=machine(), versions=versions(), is_reference=False, not_measured=()
    )
    costs = msgspec.structs.replace(reference_costs(), origin=here)
    save_costs(costs, costs_file())
    assert saved_costs() == costs
    assert "Costs measured here" in runner.invoke(app, ["plan", "feeds"]).stdout
    elsewhere = msgspec.structs.replace(costs, origin=msgspec.structs.replace(here, machine="another"))
    save_costs(elsewhere, costs_file())
    assert saved_costs() is None


@pytest.mark.parametrize(("columns", "has_memory"), [(80, False), (120, True)])
def test_a_terminal_gets_what_it_has_room_for(columns: int, *, has_memory: bool) -> None:
    found = plan(PRESETS["feeds"].application, reference_costs(), Nodes(), with_thresholds=False)
    console = Console(width=columns, file=io.StringIO(), record=True)
    console.print(plan_view(found, reference_costs(), columns))
    shown = console.export_text()
    assert ("GiB" in shown) == has_memory
    assert all(f" {each.way} " in shown for each in found.predictions)  # none is folded


def test_numbers_and_units() -> None:
    assert [duration(seconds) for seconds in (2e-7, 4e-4, 0.25, 0.99999, 12.34)] == [
        "0.2 µs", "400 µs", "250 ms", "1 s", "12.3 s",
    ]  # fmt: skip
    assert [network(size) for size in (125_000.0, 12_500_000_000.0)] == ["1 Mb/s", "100 Gb/s"]
    assert [memory(size * 1024.0**3) for size in (0.25, 2_500)] == ["0.2 GiB", "2,500 GiB"]
