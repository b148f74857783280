from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fieldfare.bench.covering import CoveringOptions, render, run
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.wanted_beyond import WORKLOADS_BEYOND, conditions_of, wanted_beyond
from fieldfare.boxes import BoxTable
from fieldfare.cli import app
from fieldfare.errors import InputError
from fieldfare.overlay.covering import Covering


def quiet(_: str) -> None:
    """Report nothing."""


def test_a_quick_run_compares_every_workload() -> None:
    sizes = ["--subscriptions", "2000", "--boxes", "8", "--boxes", "200"]
    ended = CliRunner().invoke(app, ["bench", "covering", "--quick", "--repeats", "1", "--json", *sizes])
    assert ended.exit_code == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert [result["workload"] for result in results[::3]] == list(WORKLOADS_BEYOND)
    for few, many, full in zip(results[::3], results[1::3], results[2::3], strict=True):
        assert (few["boxes_max"], many["boxes_max"], full["boxes_max"]) == (8, 200, None)
        assert few["boxes"] <= 8
        assert many["boxes"] <= full["boxes"]
        assert few["sent_bytes"] <= many["sent_bytes"] <= full["sent_bytes"]
        assert few["forwarded_share"] >= many["forwarded_share"] == full["forwarded_share"]
        assert many["in_vain_share"] == full["in_vain_share"] == 0.0
        assert full["wanted_share"] == full["forwarded_share"]
        assert few["in_vain_share"] == pytest.approx(few["forwarded_share"] - few["wanted_share"])


def test_an_event_that_is_not_forwarded_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Covering, "of_table", lambda *_: Covering())
    with pytest.raises(BenchVerificationError, match="not forwarded"):
        run(CoveringOptions(("bluedove",), (1_000,), (16,), repeats=1, is_quick=True), quiet)


def test_the_table_has_a_row_for_each_summary() -> None:
    results = run(CoveringOptions(("quotes",), (1_000,), (16,), repeats=1, is_quick=True), quiet)
    console = Console(file=io.StringIO(), width=160)
    console.print(render(results))
    assert isinstance(console.file, io.StringIO)
    table = console.file.getvalue()
    assert table.count("quotes") == 2
    assert "full" in table
    assert "in vain" in table


def test_what_it_is_asked_is_checked() -> None:
    with pytest.raises(InputError, match="nonsense"):
        CoveringOptions(workloads=("nonsense",))
    with pytest.raises(InputError, match="above 0"):
        CoveringOptions(boxes_max=(0,))


def test_boxes_as_conditions_are_the_same_boxes() -> None:
    beyond = wanted_beyond("feeds", 50, 5, 10, seed=1)
    conditions = conditions_of(beyond.table)
    assert (len(conditions), len(beyond.later)) == (50, 5)
    again = BoxTable.from_conditions(conditions, range(50))
    assert again.owners.tolist() == sorted(beyond.table.owners.tolist())
    assert {name: len(column.boxes) for name, column in again.axes.items()} == {
        name: len(column.boxes) for name, column in beyond.table.axes.items()
    }
