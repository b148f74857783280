"""Words of SQL as names of attributes: wherever Spark takes them as columns without backquotes, so do we."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from fieldfare import Index, language
from fieldfare.errors import ConditionError, ConditionSyntaxError, UnsupportedConditionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each was refused, in some place or in all; what Spark itself says of all its keywords is asked below.
WORD_LINES = [
    "alter any array as between call case create cross describe distinct drop else end except execute",
    "exists explain fetch for from grant having if ilike in inner insert intersect interval into is join",
    "lateral like limit list map minus on order outer qualify range rename revoke rlike rollback select",
    "serdeproperties set show struct tablesample then uncache union using values when where with div",
    "escape date timestamp all some cast",
]
WORDS = [word for line in WORD_LINES for word in line.split()]
# A condition, and an event that it holds for, the word's value being 1 and x, y and z being 1, 2 and 3.
FORMS = [
    "{} = 1",
    "{} < 5 AND x = 1",
    "x = {}",
    "NOT {} = 2",
    "x = 1 AND NOT ({} IS NULL)",
    "{} IN (1, 2)",
    "{} NOT IN (2, 3)",
    "{} BETWEEN 1 AND 2",
    "x BETWEEN {} AND 2",
    "({} = 1)",
    "(x = 9 OR {} >= 1)",
    "{} + 1 < y + {}",
    "2 * {} < 5 AND -{} < x",
    "x IN ({}, 7)",
    "{} <=> 1 AND {} != 2 AND {} IS NOT NULL AND {} IS DISTINCT FROM 2",
]
NEVER = ["and", "or", "not", "true", "false", "null", "current_date", "current_timestamp", "current_user"]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_of_sql_is_a_name_where_an_operand_stands(word: str) -> None:
    for spelled in (word, word.upper()):
        index = Index({form: form.replace("{}", spelled) for form in FORMS})
        assert index.match({"x": 1, "y": 2, "z": 3, spelled: 1}) == FORMS
        assert Index({1: f"a.{spelled} = 1 AND {spelled}.a = 2"}).match({f"a.{spelled}": 1, f"{spelled}.a": 2}) == [1]
        assert Index({1: f"x = 1 AND {spelled}"}).match({"x": 1, spelled: True}) == [1]
        assert Index({1: f"{spelled} LIKE 'a%' AND {spelled} NOT LIKE '%b'"}).match({spelled: "ac"}) == [1]


def test_words_that_belong_together_are_no_names() -> None:
    assert Index({1: "x IS DISTINCT FROM -1", 2: "x IS NOT DISTINCT FROM from"}).match({"x": 2, "from": 2}) == [1, 2]
    with pytest.raises(UnsupportedConditionError, match="BETWEEN SYMMETRIC"):
        language.compile("x BETWEEN SYMMETRIC -1 AND 2")


@pytest.mark.parametrize("word", NEVER)
def test_a_few_words_are_names_in_backquotes_only(word: str) -> None:
    with contextlib.suppress(ConditionError):
        assert word not in Index({1: f"{word} LIKE 'a%b'"}).attributes
    assert Index({1: f"`{word}` = 1"}).match({word: 1}) == [1]


def test_spark_takes_the_same_words(spark: SparkSession) -> None:
    words = [row.keyword.lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    words = [word for word in words if word not in {*NEVER, "session_user", "current_path", "current_time"}]
    condition = " AND ".join(f"{word} = 1 AND NOT {word} < 1" for word in words)
    assert spark.createDataFrame([(1,) * len(words)], words).where(condition).count() == 1
    assert Index({1: condition}).match(dict.fromkeys(words, 1)) == [1]


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("SHOW TABLES", "not understood: 'TABLES'", 5),
        ("x = 1 from = 2", "not understood: 'from'", 6),
        ("x = 1 AND AND y = 2", "something is missing beside 'AND'", 10),
        ("x = 1 ORDER BY x", "not understood", 6),
    ],
)
def test_a_statement_is_no_condition(text: str, reason: str, position: int) -> None:
    with pytest.raises(ConditionSyntaxError, match=reason) as caught:
        language.compile(text)
    assert caught.value.position == position


def test_the_place_of_a_refusal_is_not_that_of_a_name() -> None:
    with pytest.raises(UnsupportedConditionError, match="INTERVAL") as caught:
        language.compile("interval > 5 AND x < INTERVAL 1 DAY")
    assert caught.value.position == 21


def test_nothing_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    for text in ("if = 5", "IF x THEN y", "if x", "show = 1"):
        try:
            language.compile(text)
        except ConditionError:
            continue
    assert capfd.readouterr().err == ""
