"""Lists, maps and words: the index against the oracle, in every way that events come, and against Python's own sets."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.matching.list_strategies import WORDS, conditions, events

from fieldfare import Index, Range
from fieldfare.errors import ConditionError, EventError
from fieldfare.language import compile as compile_condition
from fieldfare.language import compile_many
from fieldfare.matching import members, oracle
from fieldfare.matching.batch import Texts
from fieldfare.matching.nesting import flat
from fieldfare.matching.rows import check_event
from fieldfare.matching.words import words_in


def _certain(event: dict[str, Any]) -> bool:
    return not isinstance(event.get("body"), Range)


def _expected(subscriptions: dict[int, str], event: dict[str, Any]) -> list[int]:
    return [number for number, condition in subscriptions.items() if oracle.holds(condition, flat(event))]


@pytest.fixture(params=[256, 0], ids=["posted", "in the tree"])
def _long_list(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0, a box with intervals is found by the tree, and its members are tested."""
    monkeypatch.setattr(members, "_LONG_LIST_BOXES", request.param)


@pytest.mark.usefixtures("_long_list")
@settings(max_examples=120, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=6), st.lists(events, min_size=1, max_size=4))
@example(["array_contains(tags, 'a') AND array_contains(tags, 'b') AND x > 1"], [{"tags": ["b", "a"], "x": 2}])
@example(
    ["array_contains(tags, 'a') OR x = 1", "arrays_overlap(tags, array('a', 'b'))"], [{"tags": ["a", "b"], "x": 1}]
)
def test_every_door_agrees_with_the_oracle(given_conditions: list[str], given_events: list[dict[str, Any]]) -> None:
    subscriptions = dict(enumerate(given_conditions))
    given_events = [event for event in given_events if _certain(event)]
    index = Index(subscriptions)
    expected = [_expected(subscriptions, event) for event in given_events]
    in_columns = [sorted(found) for found in index.match_rows(given_events).to_pylist()]
    singly = [Index(subscriptions).match(event) for event in given_events]
    assert in_columns == expected
    assert singly == expected
    masks = index.updated(add={99: "FALSE"})
    for _ in range(3):  # often enough for masks to be made
        assert [masks.match(event) for event in given_events] == expected


@pytest.mark.usefixtures("_long_list")
@settings(max_examples=40, deadline=None)
@given(
    st.lists(conditions, min_size=2, max_size=6),
    st.lists(conditions, min_size=1, max_size=4),
    st.lists(events, max_size=4),
)
def test_updates_removals_merges_and_snapshots(
    first: list[str], second: list[str], given_events: list[dict[str, Any]]
) -> None:
    given_events = [event for event in given_events if _certain(event)]
    subscriptions = dict(enumerate(first))
    index = Index(subscriptions).updated(add=dict(enumerate(second, 100)), remove=[0])
    subscriptions = {**subscriptions, **dict(enumerate(second, 100))}
    del subscriptions[0]
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        loaded = Index.load(Path(folder) / "index")
        for one in (index, index.compacted(), loaded, loaded.compacted().without(np.zeros(len(loaded), np.bool_))):
            found = [sorted(ids) for ids in one.match_rows(given_events).to_pylist()]
            assert found == [_expected(subscriptions, event) for event in given_events]


_typed_members = [st.sampled_from(WORDS), st.integers(-2, 2), st.floats(allow_nan=False, width=16), st.booleans()]
_typed_lists = st.sampled_from(_typed_members).flatmap(
    lambda member: st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), member), max_size=4)), max_size=5)
)


@settings(max_examples=80, deadline=None)
@given(_typed_lists, st.lists(conditions, min_size=1, max_size=4), st.sampled_from(["list", "large_list", "slice"]))
def test_arrow_is_read_as_rows_are(column: list[Any], given_conditions: list[str], way: str) -> None:
    index = Index(dict(enumerate(given_conditions)))
    array = pa.array([*column, None])
    if way == "large_list" and pa.types.is_list(array.type):
        array = array.cast(pa.large_list(array.type.value_type))
    table = pa.table({"tags": array, "x": pa.array(range(len(array)))})
    table = table.slice(1) if way == "slice" else table
    by_table = [sorted(ids) for ids in index.match_table(table).to_pylist()]
    assert by_table == [sorted(ids) for ids in index.match_rows(table.to_pylist()).to_pylist()]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.frozensets(st.integers(0, 30).map(str), min_size=1, max_size=4), min_size=1, max_size=60),
    st.lists(st.frozensets(st.integers(0, 30).map(str), max_size=12), min_size=1, max_size=30),
)
def test_set_inclusion_is_that_of_pythons_sets(wanted: list[frozenset[str]], given_sets: list[frozenset[str]]) -> None:
    texts = [", ".join(f"'{member}'" for member in sorted(some)) for some in wanted]
    subsets = {number: f"size(array_except(array({text}), tags)) = 0" for number, text in enumerate(texts)}
    overlaps = {100 + number: f"arrays_overlap(tags, array({text}))" for number, text in enumerate(texts)}
    found = Index({**subsets, **overlaps}).match_rows([{"tags": sorted(some)} for some in given_sets]).to_pylist()
    for ids, some in zip(found, given_sets, strict=True):
        inside = {number for number, members_wanted in enumerate(wanted) if members_wanted <= some}
        touching = {100 + number for number, members_wanted in enumerate(wanted) if members_wanted & some}
        assert sorted(ids) == sorted(inside | touching)


@given(st.lists(st.one_of(st.text(max_size=12), st.text("aB c_-é9'", max_size=12))))
def test_words_in_columns_are_those_of_single_texts(texts: list[str]) -> None:
    kept = [text for text in texts if text.isprintable()]
    offsets, words = words_in(Texts.of([text.encode() for text in kept]))
    listed = [words[number].decode() for number in range(len(words))]
    found = [listed[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    assert found == [_plain_words(text) for text in kept]


def _plain_words(text: str) -> list[str]:
    apart = "".join(character if character.isalnum() else " " for character in text.lower())
    return apart.split()


def test_many_conditions_at_once_are_compiled_as_single_ones_are() -> None:
    texts = [f"array_contains(tags, 'w{n}') AND array_contains(words(body), '{n}') AND x = {n}" for n in range(40)]
    texts += [f"size(array_except(array('a{n}', 'b'), tags)) = 0" for n in range(40)]
    texts += [f"array_contains(tags, {n}.5)" for n in range(40)]
    table = compile_many(texts).table
    for number, text in enumerate(texts):
        boxes = np.flatnonzero(table.owners == number)
        assert len(boxes) == 1
        found = {
            (lists, value)
            for lists, column in table.members.items()
            for box, value in zip(column.boxes.tolist(), column.values.listed(), strict=True)
            if box == boxes[0]
        }
        assert found == {(member.lists, member.value) for member in compile_condition(text).boxes[0].members}


def test_alternatives_of_members_compiled_at_once_match_once() -> None:
    texts = [f"arrays_overlap(tags, array('a{n}', 'b', 'c'))" for n in range(20)]
    texts += [
        f"array_contains(tags, 'a{n}') OR array_contains(tags, 'b') OR array_contains(tags, 'b')" for n in range(20)
    ]
    texts += [f"arrays_overlap(tags, array('a{n}', NULL))" for n in range(20)]
    texts += [f"array_contains(tags, 'a{n}') OR array_contains(others, 'b')" for n in range(20)]
    subscriptions = dict(enumerate(texts))
    given_events: list[dict[str, Any]] = [{"tags": ["b", "a3", "c"], "others": ["b"]}, {"tags": ["a7"]}, {"tags": []}]
    found = [sorted(ids) for ids in Index(subscriptions).match_rows(given_events).to_pylist()]
    assert found == [_expected(subscriptions, event) for event in given_events]


def test_functions_with_literals_that_stand_as_conditions_are_compiled_in_bulk() -> None:
    index = Index({number: f"startswith(name, 'an{number}')" for number in range(20)})
    assert index.match_rows([{"name": "an7"}]).to_pylist() == [[7]]


def test_two_members_never_exclude_each_other() -> None:
    index = Index({1: "array_contains(tags, 'a') AND array_contains(tags, 'b')"})
    assert index.match({"tags": ["b", "x", "a"]}) == [1]
    assert index.match({"tags": ["a"]}) == index.match({"tags": ["b"]}) == []
    assert index.match_rows([{"tags": ["b", "x", "a"]}, {"tags": ["a"]}, {"tags": ["b"]}]).to_pylist() == [[1], [], []]
    assert compile_condition("array_contains(tags, 'a') AND NOT array_contains(tags, 'a')").boxes == ()


def test_what_was_removed_is_not_found_by_its_members() -> None:
    index = Index({1: "array_contains(tags, 'a')", 2: "array_contains(tags, 'a') AND x > 1"}).updated(remove=[1])
    assert index.match_rows([{"tags": ["a"], "x": 2}]).to_pylist() == [[2]]
    assert index.without(np.ones(1, np.bool_)).match_rows([{"tags": ["a"], "x": 2}]).to_pylist() == [[]]


def test_a_range_in_place_of_a_text_may_have_any_word() -> None:
    index = Index({1: "array_contains(words(body), 'a')", 2: "array_contains(tags, 'a')"})
    assert index.match_rows([{"body": Range("a", "b")}]).to_pylist() == [[1]]
    assert index.match({"body": Range("a", "b")}) == [1]


def test_large_and_odd_lists() -> None:
    index = Index(
        {1: "array_contains(tags, 'needle')", 2: "size(tags) = 1000000", 3: "array_contains(words(body), 'end')"}
    )
    million = {"tags": ["hay"] * 999_999 + ["needle"], "body": "x" * 1_000_000 + " end"}
    assert index.match_rows([million]).to_pylist() == [[1, 2, 3]] or sorted(index.match_rows([million])[0].as_py()) == [
        1,
        2,
        3,
    ]
    assert sorted(index.match(million)) == [1, 2, 3]
    nested: list[Any] = []
    for _ in range(100):
        nested = [nested]
    assert index.match_rows([{"tags": nested}]).to_pylist() == [[]]
    assert Index({1: "array_contains(tags, 'a')"}).match({"tags": [1, "a"]}) == [1]
    for reads_all in (
        lambda: Index({1: "tags[0][0] = 1"}).match({"tags": nested}),
        lambda: check_event({"tags": nested}),
    ):
        with pytest.raises(EventError, match="nested deeper"):
            reads_all()
    assert index.match_rows([{"tags": [["needle"], {"needle": 1}, None, 1, True, float("nan")]}]).to_pylist() == [[]]
    with pytest.raises(EventError, match="64 bits"):
        index.match_rows([{"tags": [2**70]}])
    with pytest.raises(EventError, match="surrogate"):
        index.match_rows([{"tags": ["\ud800"]}])


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("exists(tags)", "argument"),
        ("exists(tags, 5)", "members"),
        ("exists(SELECT 1)", "subquery"),
        ("exists(tags, (a, b) -> a > b)", "members"),
        ("exists(tags, m -> exists(m, m -> m > 1))", "taken"),
        ("tags[0:2] = 1", "not supported"),
        ("filter(tags, t -> t > 1)", "exists"),
        ("array_contains(tags)", "argument"),
    ],
)
def test_what_is_refused_says_what_to_write(condition: str, reason: str) -> None:
    with pytest.raises(ConditionError, match=reason):
        compile_condition(condition)


def test_keys_of_maps_are_attributes() -> None:
    index = Index(
        {1: "labels['app.kubernetes.io/name'] = 'web'", 2: "labels['env'] = 'prod'", 3: "element_at(labels, 'n') > 1"}
    )
    event = {"labels": {"app.kubernetes.io/name": "web", "env": "prod", "n": 2}}
    assert index.match(event) == [1, 2, 3]
    column = pa.array([[("app.kubernetes.io/name", "web"), ("env", "prod")], None], pa.map_(pa.string(), pa.string()))
    assert [sorted(ids) for ids in index.match_table(pa.table({"labels": column})).to_pylist()] == [[1, 2], []]
