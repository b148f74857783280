"""Expressions as axes: promoted and demoted, saved and merged, for ranges too, always with the same answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.matching.expressions import drawn_conditions, ours_of
from tests.matching.strategies import typed_table

from fieldfare import Index, Range
from fieldfare.language import compile, compile_many, explain  # noqa: A004
from fieldfare.language.costs import DERIVED_AXES_MAX
from fieldfare.language.expression_text import expression_text
from fieldfare.matching import evaluation, oracle, snapshot
from fieldfare.matching.masks import BoxMasks
from fieldfare.overlay.covering import Covering, CoveringBuilder

WORDS = ["anna", "ANNA", "Bob", "bob ", "Çelik", "", None, 5]


def axes_of(index: Index) -> list[str]:
    """The expressions that are axes, as SQL."""
    return [expression_text(axis.expression) for segment in index._segments for axis in segment.part.derived]


def residual_count(index: Index) -> int:
    return sum(len(segment.part.residuals.boxes) for segment in index._segments)


def assert_equals_the_oracle(index: Index, conditions: dict[int, str], rows: list[dict[str, Any]]) -> None:
    answer = [oracle.match(conditions, row) for row in rows]  # type: ignore[arg-type]
    assert [sorted(ids) for ids in index.match_rows(rows).to_pylist()] == [sorted(ids) for ids in answer]
    assert [sorted(index.match(row)) for row in rows] == [sorted(ids) for ids in answer]


def test_an_expression_that_is_compared_is_an_axis() -> None:
    conditions = {number: f"lower(name) = '{word}'" for number, word in enumerate(["anna", "bob", "çelik", "5", ""])}
    index = Index(conditions)
    assert (axes_of(index), residual_count(index)) == (["lower(name)"], 0)
    assert_equals_the_oracle(index, conditions, [{"name": word} for word in WORDS])


def test_one_axis_for_all_that_mean_the_same() -> None:
    index = Index({1: "a + b > 5", 2: "b + a < 3", 3: "LOWER(s) = 'x'", 4: "lcase(s) LIKE 'x%'", 5: "s ILIKE 'Xy%'"})
    assert sorted(axes_of(index)) == ["a + b", "lower(s)"]


@pytest.mark.parametrize(
    ("condition", "axis"),
    [
        ("left(code, 3) = 'abc'", "code"),
        ("substring(code, 1, 3) = 'abc'", "code"),
        ("startswith(code, 'abc')", "code"),
        ("code LIKE 'abc%'", "code"),
    ],
)
def test_an_exact_inverse_is_an_interval_on_the_plain_axis(condition: str, axis: str) -> None:
    (box,) = compile(condition).boxes
    assert (list(box.intervals), box.tests, box.derived) == ([axis], (), {})


def test_where_an_inverse_would_not_be_exact_there_is_none() -> None:
    conditions = {1: "left(code, 2) = '12'", 2: "-x > 3", 3: "startswith(code, 'tr')"}
    index = Index(conditions)
    assert len(axes_of(index)) == 3
    rows: list[dict[str, Any]] = [{"code": 123}, {"code": "12"}, {"code": True}, {"x": -(2**63)}, {"x": -4}]
    assert_equals_the_oracle(index, conditions, rows)


def test_axes_are_limited_and_the_rest_are_tests() -> None:
    conditions = {number: f"a * {number % 100} + b > {number}" for number in range(100)}
    conditions |= {100 + number: f"length(concat(s, '{number}')) > 3" for number in range(40)}
    index = Index(conditions)
    assert len(axes_of(index)) == DERIVED_AXES_MAX
    assert residual_count(index) == 140 - DERIVED_AXES_MAX
    rng = random.Random(3)
    rows: list[dict[str, Any]] = [
        {"a": rng.randrange(5), "b": rng.random() * 9, "s": "x" * rng.randrange(4)} for _ in range(20)
    ]
    assert_equals_the_oracle(index, conditions, [*rows, {"a": 1}, {"s": "xyz"}])


def test_a_rare_expression_beside_an_interval_stays_a_test_until_others_use_it() -> None:
    conditions = {
        1: "kind = 'a' AND lower(name) = 'anna'",
        2: "kind = 'b' AND a + b = 3",
        3: "kind = 'a' AND s LIKE '%end'",
    }
    index = Index(conditions)
    assert (axes_of(index), residual_count(index)) == ([], 3)
    rows: list[dict[str, Any]] = [
        {"kind": "a", "name": "ANNA"},
        {"kind": "b", "a": 1, "b": 2.0},
        {"kind": "a", "s": "the end"},
    ]
    assert_equals_the_oracle(index, conditions, rows)
    more = {10 + number: f"kind = 'c' AND lower(name) = '{number}'" for number in range(15)}
    grown = index.updated(add=more).compacted()
    assert (axes_of(grown), residual_count(grown)) == (["lower(name)"], 2)
    assert_equals_the_oracle(grown, conditions | more, [*rows, {"kind": "c", "name": "2"}])
    shrunk = grown.updated(remove=list(more)).compacted()
    again = shrunk.updated(add={99: "kind = 'z'"}).compacted()
    assert axes_of(again) == []
    assert_equals_the_oracle(again, conditions, rows)


def test_updates_and_snapshots_keep_the_meaning(tmp_path: Path) -> None:
    rng = random.Random(11)
    conditions = dict(enumerate(ours_of(drawn_conditions(rng, 60))))
    rows = typed_table(rng, 15).to_pylist()
    index = Index(dict(list(conditions.items())[:20]))
    for start in (20, 40):
        index = index.updated(add={n: conditions[n] for n in range(start, start + 20)}, remove=[start - 1])
        del conditions[start - 1]
    assert_equals_the_oracle(index, conditions, rows)
    index.save(tmp_path / "saved")
    loaded = Index.load(tmp_path / "saved")
    assert axes_of(loaded) == axes_of(index) != []
    assert loaded.attributes == index.attributes
    assert_equals_the_oracle(loaded, conditions, rows)
    assert_equals_the_oracle(loaded.compacted(), conditions, rows)


def test_a_snapshot_of_the_format_before_is_read(tmp_path: Path) -> None:
    conditions = {1: "x > 5 AND x < 2 * y", 2: "s LIKE 'a%b'", 3: "s = 'a'"}
    Index(conditions).save(tmp_path / "saved")
    manifest = tmp_path / "saved" / "index.json"
    known = msgspec.json.decode(manifest.read_bytes(), type=snapshot._Manifest)
    assert b"expression" not in manifest.read_bytes()
    manifest.write_bytes(msgspec.json.encode(snapshot.sealed(msgspec.structs.replace(known, format=2))))
    rows: list[dict[str, Any]] = [{"x": 6, "y": 4}, {"x": 6, "y": 3}, {"s": "axb"}, {"s": "a"}]
    assert_equals_the_oracle(Index.load(tmp_path / "saved"), conditions, rows)


def test_an_expression_is_computed_once_for_a_batch_whatever_segments_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    computed_for = evaluation.computed_for

    def counted(axis: Any, batch: Any, rows: Any) -> Any:
        asked.append(expression_text(axis.expression))
        return computed_for(axis, batch, rows)

    monkeypatch.setattr(evaluation, "computed_for", counted)
    index = Index.joined([Index({1: "lower(s) = 'a'"}), Index({2: "lower(s) > 'a'"}), Index({3: "lower(s) < 'b'"})])
    assert index.match_rows([{"s": "A"}, {"s": "B"}]).to_pylist() == [[1, 3], [2]]
    assert asked == ["lower(s)"]


def test_ranges_may_match_what_is_not_monotone_and_are_exact_in_arithmetic() -> None:
    index = Index({1: "abs(x) > 5", 2: "x + 1 > 5", 3: "x + 1 > 50", 4: "NOT abs(x) > 5", 5: "kind = 1 AND abs(x) > 5"})
    for found in (
        index.match({"x": Range(1, 9), "kind": 1}),
        *index.match_rows([{"x": Range(1, 9), "kind": 1}] * 2).to_pylist(),
    ):
        assert sorted(found) == [1, 2, 4, 5]
    assert index.match({"x": Range(1, 9), "kind": 2}) == [1, 2, 4]


def test_many_at_once_equal_one_by_one() -> None:
    texts = [
        *(f"lower(name) = 'n{number}'" for number in range(9)),
        *(f"a + b > {number} AND kind = 'k'" for number in range(9)),
        *(f"a * 2 <= -{number}" for number in range(9)),
        *(f"NOT length(name) BETWEEN {number} AND 5" for number in range(9)),
        *(f"upper(name) LIKE 'N{number}%'" for number in range(9)),
        *(f"round(a, 1) = {number}.5" for number in range(9)),
        *(f"left(name, 2) = 'n{number}'" for number in range(9)),
        *(f"hour(at) = '{number}'" for number in range(9)),
        *(f"name LIKE '%{number}'" for number in range(9)),
        *(f"a + {number} > 5" for number in range(9)),
    ]
    found = compile_many(texts)
    assert not found.errors
    together = Index.of_compiled(range(len(texts)), found.table)
    rng = random.Random(5)
    rows: list[dict[str, Any]] = [
        {
            "name": f"n{rng.randrange(12)}",
            "a": rng.choice([1, 2.5, -3, 0.45]),
            "b": 3,
            "kind": "k",
            "at": "2024-01-01 03:00:00",
        }
        for _ in range(20)
    ]
    assert_equals_the_oracle(together, dict(enumerate(texts)), rows)


def test_young_conditions_match_and_go() -> None:
    masks = BoxMasks()
    for owner, text in enumerate(["lower(s) = 'a'", "s = 'A' AND length(s) = 1", "x > 5", "lower(s) != 'a' AND x > 5"]):
        masks.add(owner, compile(text).boxes)
    assert [masks.match(event) for event in ({"s": "A"}, {"x": 6}, {"s": "b", "x": 6})] == [[0, 1], [2], [2, 3]]
    masks.remove(0)
    assert masks.match({"s": "A"}) == [1]


def test_a_covering_has_what_expressions_need() -> None:
    condition = compile("a + b > 5 AND lower(s) = 'x' AND coalesce(c, d) > 1")
    builder = CoveringBuilder()
    builder.add(condition)
    for covering in (Covering.of([condition]), builder.covering):
        (box,) = covering.boxes
        assert (sorted(box.intervals), box.derived) == (["a", "b", "s"], {})


def test_explain_says_what_is_an_axis_and_what_a_test() -> None:
    text = explain(compile("year > 2000 AND lower(name) = 'anna' AND a < 2 * b"))
    assert "  year: year > 2000" in text
    assert "  derived axis: lower(name) = 'anna'" in text
    assert "  test: a < 2 * b" in text
