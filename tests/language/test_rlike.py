"""RLIKE: patterns mean what they mean in Java, whose own answers Spark gives here."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from fieldfare import Index
from fieldfare.errors import UnsupportedConditionError
from fieldfare.language import compile, explain, regular_expressions  # noqa: A004
from fieldfare.language.java_patterns import JavaPatternError
from fieldfare.language.regular_expressions import found

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = [
    *["", "a", "b", "ab", "A", "K", "k", "\u212a", "s", "\u017f", "a\n", "a\r\n", "a\r", "a\u2028", "a\u0085", "a\n\n"],
    *[
        "\n",
        "\r",
        "\r\n",
        "x\r\n",
        "x\n",
        "\x0b",
        " ",
        "\t",
        "a b",
        "_",
        "5",
        "\u0665",
        "\u00e4",
        "\U0001f600",
        "a.b",
        "a-b",
        "]",
    ],
    *[
        "banana",
        "aaaa",
        "a{2}",
        "\\",
        "a\\b",
        "^",
        "$",
        "a&b",
        "(a)",
        "ba\n",
        "a\nb",
        "aB",
        "xa\r\nb",
        "\x1b",
        "z]",
        "0",
    ],
]
PATTERNS = [
    *[
        "",
        "a",
        "a$",
        "^a$",
        "a\\z",
        "a\\Z",
        "(a$)",
        "a$|b$",
        "(a|x$)",
        "b\\z|a$",
        "x[^a]$",
        "[^a]$",
        "\\n$",
        "^$",
        "\\r$",
        "$",
    ],
    *[
        ".",
        "^.$",
        "^..$",
        "(?s).",
        "(?s)^.$",
        "(?s:^..)$",
        "a.b",
        "(?i)k",
        "(?i)K",
        "(?i)s",
        "(?i)[a-l]",
        "(?i)[^a]",
        "(?i:a)b",
    ],
    *[
        "a(?i)b",
        "(a(?i)b)|B",
        "(?i)\\x6b",
        "(?i)ä",
        "\\s",
        "^\\s$",
        "\\S",
        "^\\S$",
        "[\\s]",
        "[^\\s]",
        "\\d",
        "^\\D$",
        "\\w",
        "^\\W$",
    ],
    *[
        "[a-c]",
        "[^a-c]",
        "^[\\w.-]+$",
        "[a-]",
        "[-a]",
        "[\\]]",
        "[a^]",
        "[.]",
        "\\.",
        "\\\\",
        "\\x41",
        "\\x{1F600}",
        "\\u00e4",
    ],
    *[
        "\\Qa.b\\E",
        "\\Qa\\E*b",
        "\\Qba\\E+",
        "(?<name>an)+",
        "(?:an){2}",
        "a{2}",
        "a{2,}",
        "a{1,3}?",
        "an*?",
        "ba??n",
        "\\{",
        "\\(*a",
    ],
    *[
        "]",
        "}",
        "a|",
        "|a",
        "()",
        "[&]",
        "a&b",
        "\\$",
        "\\^",
        "[$]",
        "\\t",
        "\\e",
        "[\\d\\s]",
        "[^\\d\\w]",
        "\\-",
        "(?-i)a",
        "(?s-s:.)",
    ],
]
REFUSED = {
    "\\bx": "\\b depends on Java's version",
    "x\\B": "\\B depends on Java's version",
    "[a&&b]": "a class inside a class",
    "[a[b]]": "a class inside a class",
    "(a)\\1": "a back reference",
    "(?<x>a)\\k<x>": "a back reference",
    "(?=a)": "looking ahead",
    "(?<!a)b": "looking ahead",
    "(?>a)": "looking ahead",
    "a++": "possessive repetition",
    "a*+": "possessive repetition",
    "(?m)^a": "the flag m",
    "(?x)a": "the flag x",
    "a$b": "only ')' and '|' may follow $",
    "(a$)b": "nothing may follow a group",
    "a{": "'{' is repetition",
    "{2}": "'{' has nothing to repeat",
    "*a": "'*' has nothing to repeat",
    "a**": "repetition of a repetition",
    "(": "'(' without ')'",
    "a)": "')' without '('",
    "[": "'[' without ']'",
    "[]": "a class of characters is empty",
    "[z-a]": "a range of characters",
    "\\p{L}": "\\p{…} depends",
    "\\h": "\\h is not supported",
    "\\R": "\\R is not supported",
    "\\012": "\\0 is not supported",
    "\\x4": "\\x needs the digits",
    "\\uD83D": "\\u needs the digits",
    "a\\": "the pattern ends with a backslash",
    "a{2000}": "not a pattern that RE2 takes",
}


def test_patterns_mean_what_they_mean_in_spark(spark: SparkSession) -> None:
    rows = [(text, pattern) for text in TEXTS for pattern in PATTERNS]
    frame = spark.createDataFrame(rows, "text STRING, pattern STRING").selectExpr(
        "text", "pattern", "text rlike pattern AS held"
    )
    different = [
        (row.text, row.pattern, row.held) for row in frame.collect() if found(row.text, row.pattern) != row.held
    ]
    assert different == []


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.items())
def test_what_re2_and_java_read_differently_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(JavaPatternError) as caught:
        found("", pattern)
    assert caught.value.reason.startswith(reason)
    assert 0 <= caught.value.position <= len(pattern)
    with pytest.raises(UnsupportedConditionError):
        compile(f"name RLIKE {pattern!r}")


@pytest.mark.parametrize(
    ("text", "pattern", "held"),
    [
        *[("a\n", "a$", True), ("a\r\n", "a$", True), ("a\n\n", "a$", False), ("ab\n", "b\\z|a$", False)],
        *[("\r", ".", False), ("\r", "(?s).", True), ("\u212a", "(?i)k", False), ("K", "(?i)k", True)],
        *[("\x0b", "\\s", True), ("ba", "\\Qba\\E+", True), ("baba", "^\\Qba\\E+$", False)],
    ],
)
def test_what_java_and_re2_read_differently(text: str, pattern: str, held: bool) -> None:
    assert found(text, pattern) is held


def test_every_way_to_ask() -> None:
    conditions = {
        1: "name RLIKE 'an+a'",
        2: "NOT (name RLIKE 'an+a')",
        3: "regexp_like(lower(name), '^b')",
        4: "name RLIKE 'a$' AND kind = 1",
        5: "(name RLIKE 'x') IS NULL",
        6: "name NOT RLIKE 'b'",
    }
    index = Index(conditions)
    expected = {"banana": [1, 3, 4], "BANANA": [2, 3, 6], "Bo\n": [2, 3, 6], "": [2, 6], None: [5], 5: [5]}
    rows = [{"name": name, "kind": 1} for name in expected]
    assert index.match_rows(rows).to_pylist() == list(expected.values())
    assert [index.match(row) for row in rows] == list(expected.values())
    many = Index({number: f"name RLIKE '{number % 7}.*{number % 5}$'" for number in range(200)})
    texts = ["".join(random.Random(number).choices("0123456x\n", k=6)) for number in range(50)]
    assert [sorted(ids) for ids in many.match_rows([{"name": text} for text in texts]).to_pylist()] == [
        [number for number in range(200) if found(text, f"{number % 7}.*{number % 5}$")] for text in texts
    ]


def test_explain_and_the_place_of_what_is_refused() -> None:
    assert "derived axis: name RLIKE 'an+a'\n" in explain(compile("name RLIKE 'an+a'"))
    condition = "kind = 1 AND name RLIKE 'a[b&&c]'"
    with pytest.raises(UnsupportedConditionError) as caught:
        compile(condition)
    assert caught.value.position == condition.index("&&")


def test_time_is_linear_in_the_text() -> None:
    assert not found("a" * 200_000 + "b", "^(a+)+$")
    assert not found("a" * 200_000, "(a|a)*c|(a*)*d")


def test_without_re2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    regular_expressions.finder.cache_clear()
    with pytest.raises(UnsupportedConditionError, match=r"pip install 'fieldfare\[regex\]'"):
        compile("name RLIKE 'never asked before'")
