"""Dimensions chosen from the data: the attributes along which an event searches the least."""

from __future__ import annotations

import random

from tests.partitioning.laws import compiled

from fieldfare.matching.rows import batch_of_rows
from fieldfare.partitioning.choosing import choose_dimensions
from fieldfare.partitioning.layouts import multi_dimensional, single_dimension


def names(texts: list[str], count_max: int = 4) -> list[str]:
    return [one.attribute for one in choose_dimensions(compiled(texts), count_max) if one.chosen]


def test_selective_attributes_come_first_and_others_are_left_out() -> None:
    texts = [
        f"symbol = 'S{number:03}' AND price < {number} AND size BETWEEN {number} AND {number + 30}"
        + (" AND flag" if number % 10 == 0 else "")
        for number in range(300)
    ]
    symbol, size, price, flag = choose_dimensions(compiled(texts))
    assert [one.attribute for one in (symbol, size, price, flag)] == ["symbol", "size", "price", "flag"]
    assert (symbol.chosen, size.chosen, price.chosen, flag.chosen) == (True, True, False, False)
    assert symbol.constrained_share == 1.0
    assert flag.constrained_share == 0.1
    assert symbol.searched_share < 0.1 < price.searched_share < flag.searched_share
    assert symbol.copies < size.copies < price.copies
    assert "by symbol only" in price.reason
    assert "10% of them constrain it" in flag.reason


def test_no_more_than_asked_for() -> None:
    texts = [" AND ".join(f"x{one} BETWEEN {low} AND {low + 9}" for one in range(6)) for low in range(0, 900, 10)]
    assert names(texts) == ["x0", "x1", "x2", "x3"]
    assert names(texts, 2) == ["x0", "x1"]
    assert [one.attribute for one in choose_dimensions(compiled(texts))] == [f"x{one}" for one in range(6)]


def test_events_that_crowd_where_subscriptions_do_speak_against_an_attribute() -> None:
    rng = random.Random(7)
    crowded = [rng.gauss(500, 20) for _ in range(400)]
    texts = [f"x BETWEEN {low} AND {low + 30} AND y BETWEEN {low % 97} AND {low % 97 + 9}" for low in crowded]
    sample = batch_of_rows([{"x": rng.gauss(515, 20), "y": rng.uniform(0, 100)} for _ in range(400)], ["x", "y"])
    blind = {one.attribute: one for one in choose_dimensions(compiled(texts))}
    seeing = {one.attribute: one for one in choose_dimensions(compiled(texts), sample=sample)}
    assert seeing["x"].searched_share > 1.3 * blind["x"].searched_share
    assert seeing["y"].searched_share < seeing["x"].searched_share
    assert blind["x"].skew > blind["y"].skew


def test_missing_attributes_count_as_events_of_the_first_segment() -> None:
    texts = [f"x > {number}" for number in range(100)]
    missing = batch_of_rows([{}] * 10, ["x"])
    (x,) = choose_dimensions(compiled(texts), sample=missing)
    assert x.searched_share < 0.1


def test_without_conditions_on_attributes_there_is_nothing_to_choose() -> None:
    assert names([]) == []
    assert names(["1 = 1"]) == []


def test_the_choice_can_be_overruled() -> None:
    table = compiled([f"symbol = 'S{number}' AND price > 1" for number in range(30)])
    assert multi_dimensional(table, 3).attributes == ("symbol",)
    assert multi_dimensional(table, 3, dimensions=["price", "symbol"]).attributes == ("price", "symbol")
    assert single_dimension(table, 3).attributes == ("symbol",)
    assert single_dimension(table, 3, dimension="price").attributes == ("price",)
