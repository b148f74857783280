"""Every text that is not a condition gives the right ConditionError, with the place of the fault."""

from __future__ import annotations

import logging
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fieldfare import language
from fieldfare.errors import (
    ConditionError,
    ConditionLimitError,
    ConditionSyntaxError,
    ConditionTypeError,
    UnsupportedConditionError,
)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", None),
        ("  \n", None),
        ("price <", 6),
        ("price < < 10", 8),
        ("price < 10 AND", 11),
        ("price < 10 20", 11),
        ("price < 10 banana", 11),
        ("(price < 10", 9),
        ("price < 10)", 10),
        ("price < 'abc", 8),
        ("`price < 10", 0),
        ("a = 'x' AND b = \"y", 16),
        ("price ! 10", 6),
        ("price NOT", 6),
        ("x IN ()", 0),
        ("x IN (1,)", 7),
        ("x = 1;", 5),
        ("x = 1; y = 2", 5),
        ("x = 1 -- cheap", 6),
        ("x = /* five */ 5", 4),
        ("x = 1 AS y", 6),
        ("x LIKE 'a!b' ESCAPE '!'", 7),
        ("x LIKE 'a' ESCAPE 'xy'", 18),
        ("x LIKE 'a\\\\'", 7),
        ("x = '\\ud800'", 4),
        ("x = 'a\ud800b'", 6),
        ("x\ud800 = 1", 1),
        ("`` = 1", 0),
        ("x = 'a' AND a.1 = 5", 14),
    ],
)
def test_syntax(text: str, position: int | None) -> None:
    with pytest.raises(ConditionSyntaxError) as caught:
        language.compile(text)
    assert caught.value.condition == text
    assert caught.value.position == position
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("x = 1 AND foo(y) > 2", 10),
        ("x = 1 AND `foo`(y) > 2", 10),
        ("get_json_object(x, '$[') = 1", 0),
        ("x IN (SELECT y FROM t)", 6),
        ("EXISTS (SELECT 1)", 8),
        ("x = (WITH t AS (SELECT 1) SELECT 1)", 5),
        ("sha2(s, 256) = 'A'", 0),
        ("CAST(x AS decimal(10, 2)) = 1", 10),
        ("x::binary = 1", None),
        ("at > current_time()", 5),
        ("who = current_user", 6),
        ("filter(tags, t -> t > 1) = 1", 0),
        ("x = INTERVAL 1 DAY", 4),
        ("at + INTERVAL '1 day 2 hours' > '2024-01-01'", None),
        ("at + INTERVAL 0.5 DAY > '2024-01-01'", None),
        ("at + INTERVAL 999999999999 DAY > '2024-01-01'", None),
        ("at - INTERVAL 999999999999 WEEK > '2024-01-01'", None),
        ("add_months(at, 1) > '2024-01-01'", 0),
        ("s RLIKE 'a++'", 10),
        ("s REGEXP '(?=a)'", 10),
        ("s NOT RLIKE '[a&&b]'", 15),
        ("s = ANY ('a%', 'b%')", 4),
        ("rank() OVER (ORDER BY x) = 1", 0),
        ("count(*) > 1", 0),
        ("x BETWEEN SYMMETRIC 1 AND 2", 10),
        ("a = 'x' 'y'", 4),
        ("tags[0, 1] = 'a'", 0),
        ("exists(tags, (a, b) -> a > b)", None),
        ("x = ?", 4),
        ("x = :y", 4),
        ("x = @y", 4),
        ("x # 1 = 1", 2),
        ("(a, b) = (1, 2)", 1),
        ("x = 0x1F", 4),
        ("*", 0),
        ("x -> x = 1", 2),
    ],
)
def test_unsupported(text: str, position: int | None) -> None:
    with pytest.raises(UnsupportedConditionError) as caught:
        language.compile(text)
    assert caught.value.reason
    if position is not None:
        assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("x < 1e999", 4),
        ("1 < x < 3", 8),
        ("lower(s)", 0),
        ("lower(s) AND x = 1", 0),
        ("abs('a') > 1", 0),
        ("abs(lower(s)) > 1", 0),
        ("length(s) > 'long'", 12),
        ("left(s, 1.5) = 'a'", 0),
        ("date_trunc('EON', at) > '2024-01-01'", 0),
        ("date_trunc(unit, at) > '2024-01-01'", 0),
        ("from_utc_timestamp(at, 'Atlantis') > '2024-01-01'", 0),
        ("date(at) = 'soon'", 11),
        ("hour(at) = true", 0),
        ("cast(date(at) AS int) = 1", 5),
        ("s || 'a' + 1 > 2", 5),
        ("ip_in(address, '10.0.0.1/8')", 0),
        ("ip_in(address, network)", 0),
        ("CASE WHEN 5 THEN true END", 10),
        ("true LIKE 'a%'", 10),
        ("hour(at) LIKE '1%'", 14),
        ("x < " + "9" * 400, 4),
        ("1 < 'a'", 4),
        ("DATE '2024-01-01' < 'soon'", 20),
        ("'a' = true", 0),
        ("x + 'a' < 5", 0),
        ("x * true < 5", 0),
        ("x - DATE '2024-01-01' < 5", 0),
        ("x + 1 < 'a'", 8),
        ("d = DATE 'soon'", 9),
        ("d = TIMESTAMP '2024-02-30'", 14),
        ("5", 0),
        ("x = 1 AND 'yes'", 10),
        ("x + 1", 0),
        ("DATE '2024-01-01'", 5),
        ("s LIKE 5", 7),
        ("x < 1e308 * 10 - 1e308 * 10", 4),
    ],
)
def test_types(text: str, position: int) -> None:
    with pytest.raises(ConditionTypeError) as caught:
        language.compile(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        "n = 'a'",
        "n = true",
        "n > DATE '2024-01-01'",
        "n LIKE 'a%'",
        "n",
        "s < 5",
        "s + 1 < 5",
        "s",
        "t = 'yesterday'",
        "t < 5",
        "flag = 'x'",
        "n = s",
        "n + 1 = s",
        "n IN (1, 'a')",
        "NOT (n <=> 'a')",
    ],
)
def test_known_types_never_compare(text: str) -> None:
    types = {"n": "number", "s": "string", "t": "time", "flag": "boolean"}
    with pytest.raises(ConditionTypeError):
        language.compile(text, types)
    language.compile(text)


@pytest.mark.parametrize(
    "text", ["n < 5 AND s = 'a' AND t > '2024' AND flag", "s LIKE 'a%' AND u + 1 < 5 AND u LIKE 'a'"]
)
def test_known_types_compare(text: str) -> None:
    types = {"n": "number", "s": "string", "t": "time", "flag": "boolean"}
    assert len(language.compile(text, types).boxes) == 1 or "u" in text


def test_a_known_type_leaves_one_interval() -> None:
    assert len(language.compile("x = '2024'").boxes) == 2
    assert len(language.compile("x = '2024'", {"x": "string"}).boxes) == 1
    assert len(language.compile("x = '2024'", {"x": "time"}).boxes) == 1


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="boolean, number, string, time"):
        language.compile("x = 1", {"x": "integer"})


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("x = '" + "a" * 70_000 + "'", "characters_max"),
        ("(" * 60 + "x = 1" + ")" * 60, "depth_max"),
        ("NOT " * 60 + "x", "depth_max"),
        ("NOT (" * 10_000 + "x" + ")" * 10_000, "depth_max"),
        ("x = " + "- " * 60 + "1", "depth_max"),
        ("(" * 30_000, "depth_max"),
        ("CASE WHEN " * 5_000, "depth_max"),
        ("x < " + " + ".join(["y"] * 5_000), "depth_max"),
    ],
    ids=lambda value: value[:24],
)
def test_limits_are_met_before_the_work_explodes(text: str, limit: str) -> None:
    start = time.process_time()
    with pytest.raises(ConditionLimitError, match=limit):
        language.compile(text)
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(40)),
        " AND ".join(f"(a{i} != 1)" for i in range(40)),
        " AND ".join(f"a{i} IN (1, 2, 3, 4, 5, 6, 7, 8)" for i in range(9)),
        f"x IN ({', '.join(map(str, range(2_000)))})",
        " OR ".join(f"a{i} = 1" for i in range(2_000)),
        " AND ".join(f"(x < {i} OR y > {i})" for i in range(2_000)),
        " AND ".join(f"x NOT IN ({i}, {i + 9000})" for i in range(2_000)),
        " OR ".join(f"({' AND '.join(f'(a{i} = {j} OR b{i} = {j})' for i in range(12))})" for j in range(60)),
    ],
    ids=lambda text: text[:24],
)
def test_many_alternatives_compile_before_the_work_explodes(text: str) -> None:
    start = time.process_time()
    compiled = language.compile(text)
    assert time.process_time() - start < 3
    assert 1 <= len(compiled.boxes) <= language.Limits().boxes_max


def test_limits_can_be_raised_and_lowered() -> None:
    many = f"x IN ({', '.join(map(str, range(2_000)))})"
    assert len(language.compile(many, limits=language.Limits(boxes_max=2_000)).boxes) == 2_000
    assert len(language.compile("x IN (1, 2, 3)", limits=language.Limits(boxes_max=2)).boxes) == 2
    with pytest.raises(ValueError, match="at least one box"):
        language.Limits(boxes_max=0)
    with pytest.raises(ConditionLimitError):
        language.compile("((x = 1))", limits=language.Limits(depth_max=1))


def test_long_chains_are_legal() -> None:
    assert len(language.compile(" OR ".join(f"x = {number % 900}" for number in range(4_000))).boxes) == 900
    assert len(language.compile(" AND ".join(f"x > {number}" for number in range(4_000))).boxes) == 1
    assert len(language.compile("(" * 30 + "x = 1" + ")" * 30).boxes) == 1


@pytest.mark.parametrize("condition", [None, 5, b"x = 1", ["x = 1"]])
def test_a_condition_is_a_string(condition: object) -> None:
    with pytest.raises(ConditionError, match="is a string"):
        language.compile(condition)  # type: ignore[arg-type]


WORD_LINES = [
    r"""a b x `y z` 1 2.5 1e3 .5 5L 'abc' 'a%' '' "q" '2024-01-01' DATE TIMESTAMP AND OR NOT IN BETWEEN LIKE ESCAPE""",
    r"""IS NULL TRUE FALSE ( ) , . = != <> < <= > >= <=> + - * / % || :: [ ] { } ; ? : @ $ # ! ~ & | ^ CASE WHEN""",
    r"""END SELECT FROM WITH CAST AS INTERVAL DAY RLIKE ILIKE ANY EXISTS upper( current_date DISTINCT OVER DIV ' " `""",
    r"""\ -- /* */ é COLLATE AT TIME ZONE ARRAY< STRUCT MAP DECIMAL(1,2) OVERLAPS GLOB -> => 0x1F X'1F' r'x' 1abc""",
    r"""LATERAL PIVOT LIMIT THEN""",
]
WORDS = [word for line in WORD_LINES for word in line.split()] + ["\0", "\ud800"]


def compiles_or_says_why(text: str) -> None:
    fault = None
    try:
        language.compile(text)
    except ConditionError as error:
        fault = error
    if fault is not None:
        str(fault).encode()
        assert fault.position is None or 0 <= fault.position <= len(text)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
@example("\x00")
@example("1.e")
def test_any_text_compiles_or_says_why(text: str) -> None:
    compiles_or_says_why(text)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_any_words_compile_or_say_why(words: list[str]) -> None:
    compiles_or_says_why(" ".join(words))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(
        [
            "symbol = 'YHOO' AND volume > 1000000 AND price BETWEEN 10 AND 20",
            "NOT (a IN (1, -2.5e3, NULL) OR b LIKE 'x!%%' ESCAPE '!') AND c IS NOT NULL",
            "t > TIMESTAMP '2024-01-01 10:00:00' OR weight < 2 * (price + `un it`.x) % 3",
        ]
    ),
    st.data(),
)
def test_any_mutation_compiles_or_says_why(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + data.draw(st.sampled_from(["", *WORDS, *"0'\"`()"])) + text[end:]
    compiles_or_says_why(text)


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for text in ("SHOW TABLES", "(ALTER TABLE x)", "x = get_json_object(y, '$[')", "x:[2.5e3] = 1", "SET x = 1"):
            with pytest.raises(ConditionError):
                language.compile(text)
    assert not caplog.records


@pytest.mark.parametrize(
    "text",
    [
        "(" * 28 + "x > 5" + ") IS NULL" * 28,
        "coalesce(" * 20 + "x > 5" + ", y)" * 20,
        "CASE WHEN " * 20 + "x > 5" + " THEN y ELSE z END" * 20,
        "CASE " + " ".join(f"WHEN x = {number} THEN y = {number}" for number in range(1_000)) + " END",
        "CASE WHEN x THEN " * 20 + "y" + " END" * 20,
        "lower(" * 25 + "s" + ")" * 25 + " = 'a'",
        " || ".join(["s"] * 30) + " = 'a'",
        "greatest(" + ", ".join(f"x{number}" for number in range(900)) + ") > 5",
    ],
)
def test_choices_that_nest_compile_before_the_work_explodes(text: str) -> None:
    compiled = language.compile(text)
    assert 1 <= len(compiled.boxes) <= language.Limits().boxes_max
    with pytest.raises(ConditionError):
        language.compile(text.replace("x", "lower(").replace("s", "lower("))


@pytest.mark.parametrize("text", ["CASE WHEN " * 40 + "x" + " THEN y END" * 40, " || ".join(["s"] * 5_000) + " = 'a'"])
def test_what_nests_too_deep_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        language.compile(text)
