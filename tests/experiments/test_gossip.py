from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fieldfare.commands.experiments import app
from fieldfare.errors import InputError
from fieldfare.experiments import gossip
from fieldfare.experiments.results import Figure

runner = CliRunner()


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {figure.name: figure for figure in gossip.run(tuple(gossip.FIGURES), gossip.QUICK, lambda _: None)}


def test_every_figure_has_its_numbers(figures: dict[str, Figure]) -> None:
    assert figures.keys() == {"gossip-rounds", "gossip-detection", "gossip-traffic", "gossip-loss"}
    for figure in figures.values():
        assert all(len(cells) == len(figure.columns) for cells in figure.rows.values())
        assert figure.panels


def test_all_know_of_a_change_within_the_papers_rounds(figures: dict[str, Figure]) -> None:
    for paper, middle, longest in figures["gossip-rounds"].rows.values():
        assert isinstance(paper, float)
        assert isinstance(middle, float)
        assert isinstance(longest, float)
        assert 0.0 < middle <= longest <= paper


def test_a_quiet_gossip_sends_less_than_the_papers(figures: dict[str, Figure]) -> None:
    paper, sent, with_headers, datagrams = figures["gossip-traffic"].rows["20 members, nothing changes"]
    assert paper == 2900.0 + 6 * 20
    assert isinstance(sent, float)
    assert isinstance(with_headers, float)
    assert isinstance(datagrams, float)
    assert sent < with_headers < paper
    assert math.isclose(with_headers - sent, 28 * datagrams)


def test_nobody_is_suspected_where_nothing_is_lost(figures: dict[str, Figure]) -> None:
    rows = figures["gossip-loss"].rows
    assert rows["20 members, 0% lost"] == (0.0, 0.0, 0.0)
    assert all(cells[2] == 0.0 for cells in rows.values())


def test_the_command_prints_json_and_writes_plots(tmp_path: Path) -> None:
    arguments = ["gossip", "--quick", "--figure", "rounds", "--nodes", "12", "--json", "--plot", str(tmp_path)]
    ended = runner.invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    (figure,) = json.loads(ended.stdout)
    assert list(figure["rows"]) == ["12 members"]
    assert (tmp_path / "figure-gossip-rounds.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_measured_is_an_error() -> None:
    with pytest.raises(InputError, match="there is no figure 'speed'"):
        gossip.run(("speed",), gossip.QUICK, lambda _: None)
    with pytest.raises(InputError, match="so few members"):
        gossip.run(("rounds",), gossip.GossipScale((2,)), lambda _: None)
