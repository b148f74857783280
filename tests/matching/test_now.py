"""`current_timestamp()` is an instant of the event, given by whoever takes it in: the same for one event and many."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fieldfare import Index, language
from fieldfare.errors import ConditionSyntaxError, UnsupportedConditionError
from fieldfare.language import compile  # noqa: A004
from fieldfare.matching import oracle
from fieldfare.model import NOW
from fieldfare.overlay.covering import Covering
from fieldfare.partitioning.choosing import choose_dimensions

NOON = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
CONDITIONS = {
    "last hour": "at > current_timestamp() - INTERVAL 1 HOUR",
    "not in the future": "at <= current_timestamp",
    "stale": "NOT (at > now() - INTERVAL 1 DAY)",
    "today": "date(at) = current_date",
    "the day": "day = current_date()",
    "before tomorrow": "day < curdate() + INTERVAL 1 DAY",
    "at noon": "hour(now()) = 12 AND localtimestamp() >= '2026-01-05'",
    "within": "now() BETWEEN opens AND closes",
    "some member": "exists(items, i -> i.at > now())",
    "rare": "kind = 1 AND (at > now() OR closes < now())",
    "a text": "cast(current_date() - INTERVAL 1 MONTH AS string) = '2025-12-05'",
}
EVENTS: list[dict[str, Any]] = [
    {"at": "2026-01-05T11:30:00Z", "day": "2026-01-05", "kind": 1, "closes": "2026-01-05 11:59:59"},
    {"at": NOON - datetime.timedelta(hours=1)},
    {"at": NOON, "kind": 1},
    {"at": "2026-01-05 14:00:00+01:00", "day": datetime.date(2026, 1, 6), "kind": 1},
    {"opens": "2026", "closes": "2027", "items": [{"at": "2026-01-05 12:00:00.000001"}, {"at": None}]},
    {"at": 5, "day": "2026-01-05 23:00:00", "items": []},
    {"at": "soon", NOW: datetime.datetime(1999, 1, 1, tzinfo=datetime.UTC)},  # no data has a time of now
    {},
]


def expected(event: dict[str, Any]) -> list[str]:
    return oracle.match(CONDITIONS, {**event, NOW: NOON})  # type: ignore[arg-type, return-value]


def test_one_event_and_many_and_what_was_saved_equal_the_oracle(tmp_path: Path) -> None:
    index = Index(CONDITIONS)
    index.save(tmp_path / "saved")
    answer = [expected(event) for event in EVENTS]
    assert len({tuple(ids) for ids in answer}) == len(EVENTS) - 1
    for some in (index, Index.load(tmp_path / "saved")):
        assert [some.match(event, now=NOON) for event in EVENTS] == answer
        assert list(map(sorted, some.match_rows(EVENTS * 30, now=NOON).to_pylist())) == list(map(sorted, answer * 30))
        assert some.asks_now
        assert NOW not in some.attributes
    table = pa.Table.from_pylist([{"at": NOON}, {"at": NOON + datetime.timedelta(microseconds=1)}, {"at": None}])
    assert index.match_table(table, now=NOON).to_pylist() == [index.match(row, now=NOON) for row in table.to_pylist()]


def test_without_an_instant_it_is_that_of_the_call() -> None:
    index = Index({1: "now() >= '2026-01-01'", 2: "at > now() - INTERVAL 1 MINUTE AND at <= now()"})
    event = {"at": datetime.datetime.now(datetime.UTC)}
    assert index.match(event) == index.match_rows([event]).to_pylist()[0] == [1, 2]
    assert not Index({1: "a = 1"}).asks_now


def test_coverings_and_layouts_do_not_see_it() -> None:
    conditions = [compile("a = 1 AND now() > '2026-01-01'"), compile("a = 2 AND b < now()")]
    boxes = Covering.of(conditions).boxes
    assert {name for box in boxes for name in box.intervals} == {"a", "b"}
    table = language.compile_many([f"a = {n} AND now() > '2026-01-01'" for n in range(9)]).table
    assert {each.attribute for each in choose_dimensions(table)} == {"a"}


@pytest.mark.parametrize(
    ("condition", "error", "reason"),
    [
        (f"`{NOW}` = 1", ConditionSyntaxError, "no attribute can be called"),
        ("now(3) > at", ConditionSyntaxError, "cannot be called with 1 argument"),
        ("current_time > '12:00'", UnsupportedConditionError, r"hour\(current_timestamp\(\)\)"),
    ],
)
def test_refusals(condition: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        compile(condition)
