"""Explanations are readable: simple values come back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare import language
from fieldfare.language.costs import COLUMN_FUNCTIONS
from fieldfare.matching import column_functions


def lines(text: str) -> list[str]:
    return [line.strip() for line in language.explain(language.compile(text)).splitlines()[1:]]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("price < 10", "price: price < 10"),
        ("price <= 10.5", "price: price <= 10.5"),
        ("price > 10", "price: price > 10"),
        ("price >= 10", "price: price >= 10"),
        ("price >= 10 AND price < 20", "price: 10 <= price < 20"),
        ("price BETWEEN 0.1 AND 20", "price: 0.1 <= price <= 20"),
        ("price > -0.5 AND price <= 0", "price: -0.5 < price <= 0"),
        ("price = 10", "price: price = 10"),
        ("x = 9007199254740993", "x: x = 9007199254740993"),
        ("symbol = 'YHOO'", "symbol: symbol = 'YHOO'"),
        ("symbol = 'it''s'", "symbol: symbol = 'it''s'"),
        ("symbol > 'a' AND symbol <= 'b'", "symbol: 'a' < symbol <= 'b'"),
        ("topic LIKE 'news/%'", "topic: topic starts with 'news/'"),
        ("topic LIKE '%'", "topic: topic is any string"),
        ("x IS NULL", "x: x is missing"),
        ("x IS NOT NULL", "x: x is any value"),
        ("flag", "flag: flag = true"),
        ("NOT flag", "flag: flag = false"),
        ("t >= DATE '2024-01-02'", "t: t >= DATE '2024-01-02'"),
        ("t > DATE '2024-01-02'", "t: t > DATE '2024-01-02'"),
        ("t <= TIMESTAMP '2024-01-02 03:04:05'", "t: t <= TIMESTAMP '2024-01-02 03:04:05'"),
        ("weight < 2 * (price + 1)", "test: weight < 2 * (price + 1)"),
        ("weight < 2 * (price + 1)", "price: price is any number"),
        ("s LIKE 'a%b\\%_'", "test: s LIKE 'a%b\\%_'"),
        ("s NOT LIKE '%b'", "test: s NOT LIKE '%b'"),
        ("TRUE", "every event"),
        ("FALSE", "never matches: no box"),
        ("x IN (1, 2)", "2 boxes, disjoint"),
        ("x = 1 OR y = 1", "2 boxes, which may overlap"),
        ("NOT (x <=> 5)", "x: NaN or any boolean or x < 5"),
        ("NOT (x <=> 5)", "x: x > 5 or any string or any date or timestamp"),
        ("at > now() - INTERVAL 90 MINUTE", "derived axis: at > (current_timestamp() - INTERVAL 90 MINUTE)"),
        ("at + INTERVAL 3 MONTH > '2026-01-01'", "derived axis: at + INTERVAL 3 MONTH > DATE '2026-01-01'"),
        ("concat(date(at), '') = 'x'", "derived axis: concat(cast(cast(at AS date) AS string), '') = 'x'"),
        ("file LIKE '%.png'", "derived axis: file LIKE '%.png'"),
        ("lower(name) LIKE '%!%%' ESCAPE '!'", "derived axis: lower(name) LIKE '%!%%' ESCAPE '!'"),
        ("ip_in(a, '10.0.0.0/8')", "derived axis: ip_in(a, '10.0.0.0/8')"),
        ("NOT ip_in(a, 'fd00::/8')", "derived axis: NOT ip_in(a, 'fd00::/8')"),
        ("NOT startswith(lower(s), 'a')", "derived axis: NOT startswith(lower(s), 'a')"),
        ("x < 5", "cost: the index searches x"),
        ("array_contains(tags, 'a')", "cost: the index searches lists by the rarest member that a box asks for"),
        ("lower(s) = 'a'", "cost: lower(s) is computed once for each event, in columns"),
        ("a % 2 = 1", "cost: a % 2 is computed once for each event, in columns"),
        ("size(tags) > 3", "cost: size(tags) is computed once for each event, in columns"),
        ("tags[0] = 'a'", "cost: tags[0] is computed once for each event, value by value ([])"),
        ("a < 2 * b", "cost: 1 test is made for each event and box that the rest leaves, in columns"),
    ],
)
def test_lines(text: str, line: str) -> None:
    assert line in lines(text)


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e308, 1e308), st.sampled_from(["<", "<=", ">", ">=", "="]))
def test_numbers_explain_to_a_condition_that_means_the_same(number: float, relation: str) -> None:
    compiled = language.compile(f"x {relation} {number!r}")
    (line,) = [line for line in lines(compiled.text) if line.startswith("x: ")]
    assert language.compile(line.removeprefix("x: ")).boxes == compiled.boxes


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), st.sampled_from(["<", "<=", ">", ">=", "="]))
def test_strings_explain_to_themselves(text: str, relation: str) -> None:
    quoted = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    explained = language.explain(language.compile(f"x {relation} {quoted}", {"x": "string"}))
    assert "1 box" in explained


@pytest.mark.parametrize(
    "text", ["symbol = YHOO", "price < 5 AND symbol IN ('IBM', YHOO)", "NOT (symbol != YHOO) OR x = 1"]
)
def test_a_word_without_quotes_gets_a_hint(text: str) -> None:
    assert "hint: YHOO is read as an attribute; did you mean 'YHOO' in quotes?" in lines(text)


@pytest.mark.parametrize("text", ["symbol = 'YHOO'", "symbol = `YHOO`", "low < high", "a = b.c", "a = 2 * b"])
def test_other_comparisons_get_no_hint(text: str) -> None:
    assert not [line for line in lines(text) if line.startswith("hint")]


def test_a_rare_expression_beside_an_interval_may_be_a_test() -> None:
    *_, line = lines("x = 1 AND substring(s, 2) = 'a'")
    assert line.startswith(
        "cost: substring(s, 2) is computed once for each event, value by value (substring); a test where"
    )


def test_costs_name_the_functions_that_have_kernels() -> None:
    assert set(column_functions._KERNELS) == COLUMN_FUNCTIONS
