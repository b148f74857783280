"""Trying conditions: the verdict is the engine's, and what is said against a match is true."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.serving import asking

from fieldfare import Index
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.tester import parts_of, try_condition

NAMES = st.sampled_from(["a", "b", "`and`", "`x (`"])
LITERALS = st.sampled_from(["1", "2.5", "'AND'", "'('", "'it''s OR'", "TRUE"])
VALUES = st.sampled_from([None, 1, 2.5, 3, "AND", "(", "it's OR", True, False])
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "and", "x ("]), VALUES)
COMPARISONS = st.one_of(
    st.builds("{} {} {}".format, NAMES, st.sampled_from(["=", "!=", "<", ">=", "<=>"]), LITERALS),
    st.builds("{} {}BETWEEN 1 AND 2.5".format, NAMES, st.sampled_from(["", "not "])),
    st.builds("{} in (1, '(', 2.5)".format, NAMES),
    st.builds("{} IS {}NULL".format, NAMES, st.sampled_from(["", "NOT "])),
    st.builds("{} < {}".format, NAMES, NAMES),
    st.builds("{} LIKE '%O_'".format, NAMES),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} and\n({})".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


@given(CONDITIONS, st.lists(EVENTS, min_size=1, max_size=4))
def test_an_event_matches_exactly_when_nothing_stands_against_it(condition: str, events: list[dict[str, Any]]) -> None:
    index = Index({"whole": condition})
    for verdict, event in zip(try_condition(condition, events), events, strict=True):
        assert verdict.matches == bool(index.match(event)) == (not verdict.why)
        for failed in verdict.why:
            assert condition[failed.position :].startswith(failed.part)
            assert Index({"part": failed.part}).match(event) == []


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("a = 1", ["a = 1"]),
        ("a = 1 AND b = 2 and c = 3", ["a = 1", "b = 2", "c = 3"]),
        ("((a = 1 AND (b = 2 AND c = 3)))", ["a = 1", "(b = 2 AND c = 3)"]),
        ("a = 1 AND b = 2 OR c = 3", ["a = 1 AND b = 2 OR c = 3"]),
        ("a BETWEEN 1 AND 2 AND NOT b BETWEEN 3 AND 4", ["a BETWEEN 1 AND 2", "NOT b BETWEEN 3 AND 4"]),
        ("(a = 1) AND (b = 2)", ["(a = 1)", "(b = 2)"]),
        ("a = ' AND ' AND `and` = '('", ["a = ' AND '", "`and` = '('"]),
    ],
)
def test_the_parts_of_a_condition(condition: str, parts: list[str]) -> None:
    assert [condition[start:end] for start, end in parts_of(condition)] == parts


@pytest.mark.parametrize(
    ("condition", "event", "reason"),
    [
        ("speed < 25", {"speed": 30}, "speed is 30"),
        ("speed < 25", {}, "speed is missing"),
        ("speed < 25", {"speed": None}, "speed is missing"),
        ("speed < 25", {"speed": "fast"}, "speed is a string, 'fast', and is compared with a number"),
        ("road = 'A1'", {"road": 1}, "road is a number, 1, and is compared with a string"),
        ("road IS NULL", {"road": "A1"}, "road is 'A1', not missing"),
        ("open", {"open": False}, "open is false"),
        ("low < high", {"low": 3, "high": 2}, "high is 2; low is 3"),
        ("place.x > 0", {"place": {"x": -1}}, "place.x is -1"),
        ("price > 9", {"price": {"low": 1, "high": 2}}, "price is a range from 1 to 2"),
        ("1 = 2", {}, "no event satisfies it"),
        ("array_contains(tags, 'c')", {"tags": ["a", "b"]}, "tags is ['a', 'b']"),
        ("array_contains(tags, 'c')", {}, "tags is missing"),
        ("tags = 'a'", {"tags": ["a"]}, "tags is a list, ['a'], and is compared with a string"),
        ("tags IS NULL", {"tags": []}, "tags is [], not missing"),
        ("exists(items, i -> i.price > 5 AND i.price < 7)", {"items": []}, "items is []"),
    ],
)
def test_why_not(condition: str, event: dict[str, Any], reason: str) -> None:
    (verdict,) = try_condition(condition, [event])
    assert not verdict.matches
    assert [failed.reason for failed in verdict.why] == [reason]


@pytest.mark.parametrize(("condition", "position"), [("speed <", 6), ("a = 1 AND f(b) = 2", 10), ("", None)])
def test_a_wrong_condition_has_its_place(condition: str, position: int | None) -> None:
    with pytest.raises(ProblemError) as caught:
        try_condition(condition, [])
    assert (caught.value.problem.status, caught.value.problem.position) == (422, position)


def test_over_http() -> None:
    async def story() -> None:
        async with asking() as (client, _):
            body = {"condition": "speed < 25 AND road = 'A1'", "events": [{"speed": 1, "road": "A1"}, {"speed": 99}]}
            response = await client.post("/v1/subscriptions/test", json=body)
            assert response.json() == {
                "verdicts": [
                    {"matches": True, "why": []},
                    {
                        "matches": False,
                        "why": [
                            {"part": "speed < 25", "position": 0, "reason": "speed is 99"},
                            {"part": "road = 'A1'", "position": 15, "reason": "road is missing"},
                        ],
                    },
                ]
            }
            wrong = await client.post("/v1/subscriptions/test", json={**body, "condition": "speed <"})
            assert (wrong.status_code, wrong.json()["position"]) == (422, 6)
            assert "speed" not in wrong.text

    asyncio.run(story())


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("symbol = YHOO", "YHOO is missing: did you mean 'YHOO' in quotes?; symbol is 'YHOO'"),
        ("symbol = `YHOO`", "YHOO is missing; symbol is 'YHOO'"),
        ("spead < 2", "spead is missing: did you mean speed?"),
        ("Speed < 2", "Speed is missing: did you mean speed?"),
        ("altitude < 2", "altitude is missing"),
        ("speed < 2", "speed is 9"),
        ("speed = limit", "limit is missing; speed is 9"),  # another sample has it
    ],
)
def test_hints(condition: str, reason: str) -> None:
    events: list[dict[str, Any]] = [{"symbol": "YHOO", "speed": 9}, {"limit": 3}]
    assert try_condition(condition, events)[0].why[0].reason == reason


def test_sample_events_are_tried_as_if_they_were_accepted_now() -> None:
    fresh, stale = "2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"
    first, second = try_condition(
        "a = 1 AND at > now() - INTERVAL 1 HOUR", [{"a": 1, "at": fresh}, {"a": 1, "at": stale}]
    )
    assert (first.matches, second.matches) == (True, False)
    (why,) = second.why
    assert why.part == "at > now() - INTERVAL 1 HOUR"
    assert f"at is '{stale}'; current_timestamp() is 20" in why.reason
