from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fieldfare.commands.experiments import app
from fieldfare.errors import InputError, MissingDependencyError
from fieldfare.experiments import bluedove, plots
from fieldfare.experiments.laboratory import QUICK
from fieldfare.experiments.results import Figure, Panel, Series, shown

runner = CliRunner()


@pytest.fixture(scope="module")
def figures() -> list[Figure]:
    return bluedove.run(tuple(bluedove.FIGURES), QUICK, lambda _: None)


def numbers(figure: Figure) -> list[float]:
    return [cell for cells in figure.rows.values() for cell in cells if isinstance(cell, float)]


def test_every_figure_has_sane_numbers(figures: list[Figure]) -> None:
    assert [figure.name for figure in figures] == list(bluedove.FIGURES)
    for figure in figures:
        assert np.isfinite(numbers(figure)).all()
        assert all(len(cells) == len(figure.columns) for cells in figure.rows.values())
        assert figure.panels


def test_what_is_sent_to_a_dead_matcher_is_late_but_not_lost(figures: list[Figure]) -> None:
    rows = figures[list(bluedove.FIGURES).index("10")].rows
    assert rows["lost in the end"][1:] == ["0%", "0%"]
    assert all(isinstance(cell, float) and cell > 17.0 for cell in rows["longest response, s"][1:])


def test_a_matcher_joins_under_a_rising_load(figures: list[Figure]) -> None:
    rows = figures[list(bluedove.FIGURES).index("9")].rows
    assert all(isinstance(cell, float) and cell >= 1.0 for cell in rows["matchers added"][1:])


def test_figures_are_drawn(figures: list[Figure], tmp_path: Path) -> None:
    names = ["6b", "7", "9"]  # lines, bars, moments
    files = plots.plot([figure for figure in figures if figure.name in names], tmp_path)
    assert [file.name for file in files] == [f"figure-{name}.png" for name in names]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    panel = Panel("", "", "", [Series("", [1.0], [1.0])])
    with pytest.raises(MissingDependencyError, match=r"fieldfare\[plots\]"):
        plots.plot([Figure("x", "", "", (), {}, "", [panel])], tmp_path)


def test_the_command_prints_a_table() -> None:
    ended = runner.invoke(app, ["bluedove", "--quick", "--figure", "7"])
    assert ended.exit_code == 0, ended.output
    assert "adaptive to random" in ended.stdout


def test_the_command_prints_json_and_writes_plots(tmp_path: Path) -> None:
    ended = runner.invoke(app, ["bluedove", "--quick", "--figure", "8", "--json", "--plot", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    (figure,) = json.loads(ended.stdout)
    assert figure["rows"]["mPartition"][0] == 0.14
    assert (tmp_path / "figure-8.png").exists()


def test_an_unknown_figure_is_an_error() -> None:
    with pytest.raises(InputError, match="there is no figure '12'"):
        bluedove.run(("12",), QUICK, lambda _: None)


@pytest.mark.parametrize(
    ("cell", "text"), [(None, "-"), ("5%", "5%"), (1.2345, "1.23"), (114_321.0, "114,000"), (0.0, "0")]
)
def test_cells(cell: str | float | None, text: str) -> None:
    assert shown(cell) == text
