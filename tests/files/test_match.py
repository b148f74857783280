from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fieldfare.errors import EventError, InputError
from fieldfare.files.match import MatchOptions, MatchSummary, match_files

SUBSCRIPTIONS = {"cheap": "price < 10", "yhoo": "symbol = 'YHOO' AND price > 1"}
EVENTS: list[dict[str, Any]] = [
    {"event_id": "e1", "symbol": "YHOO", "price": 9.5},
    {"event_id": "e2", "symbol": "IBM", "price": 9.5},
    {"event_id": "e3", "symbol": "IBM", "price": 95.0},
]
EXPECTED = [{"event": "e1", "subscription_ids": ["cheap", "yhoo"]}, {"event": "e2", "subscription_ids": ["cheap"]}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join(f'"{value}"' for value in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_subscriptions(path: Path, subscriptions: dict[Any, Any] | None = None) -> Path:
    conditions = SUBSCRIPTIONS if subscriptions is None else subscriptions
    return write(path, [{"subscription_id": key, "condition": value} for key, value in conditions.items()])


def match(subscriptions: Path, events: Path, output: Path, *, include_unmatched: bool = False) -> MatchSummary:
    options = MatchOptions(subscriptions, events, output, include_unmatched=include_unmatched)
    return match_files(options, lambda _done, _total: None)


def read_json(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


def quarantined(out: Path) -> list[dict[str, Any]]:
    return read_json(Path(f"{out}.quarantine.jsonl"))


@pytest.mark.parametrize("subscriptions", ["s.csv", "s.jsonl", "s.parquet"])
@pytest.mark.parametrize("events", ["e.csv", "e.jsonl", "e.parquet"])
def test_every_format_against_every_other(tmp_path: Path, out: Path, subscriptions: str, events: str) -> None:
    summary = match(write_subscriptions(tmp_path / subscriptions), write(tmp_path / events, EVENTS), out)
    assert read_json(out) == EXPECTED
    assert (summary.subscriptions, summary.events, summary.matched_events, summary.matches) == (2, 3, 2, 3)
    assert summary.quarantined == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([subscriptions, events, out.name])


def test_all_events_on_demand(tmp_path: Path, out: Path) -> None:
    match(write_subscriptions(tmp_path / "s.csv"), write(tmp_path / "e.jsonl", EVENTS), out, include_unmatched=True)
    assert read_json(out) == [*EXPECTED, {"event": "e3", "subscription_ids": []}]


def test_csv_output_has_one_row_per_match(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    match(write_subscriptions(tmp_path / "s.csv"), write(tmp_path / "e.jsonl", EVENTS), out, include_unmatched=True)
    assert out.read_text() == "event,subscription_id\ne1,cheap\ne1,yhoo\ne2,cheap\ne3,\n"


def test_parquet_output_has_lists(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    match(write_subscriptions(tmp_path / "s.csv"), write(tmp_path / "e.parquet", EVENTS), out)
    table = pq.read_table(out)
    assert table.to_pylist() == EXPECTED
    assert table.schema.field("subscription_ids").type.value_type == pa.string()


def test_integer_ids_stay_integers(tmp_path: Path, out: Path) -> None:
    for name in ("s.csv", "s.jsonl", "s.parquet"):
        match(write_subscriptions(tmp_path / name, {7: "price < 10"}), write(tmp_path / "e.jsonl", EVENTS[:1]), out)
        assert read_json(out) == [{"event": "e1", "subscription_ids": [7]}]


def test_mixed_ids_become_strings_and_one_text_is_one_id(tmp_path: Path, out: Path) -> None:
    subscriptions = tmp_path / "s.jsonl"
    subscriptions.write_text(
        '{"id": 1, "condition": "price < 10"}\n'
        '{"id": "a", "condition": "price < 10"}\n'
        '{"id": "1", "condition": "price > 1"}\n'
    )
    match(subscriptions, write(tmp_path / "e.jsonl", EVENTS[:1]), out)
    assert read_json(out) == [{"event": "e1", "subscription_ids": ["1", "a"]}]
    assert "stands twice" in quarantined(out)[0]["reason"]


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl", "e.parquet"])
def test_without_a_key_events_are_numbered_from_one(tmp_path: Path, out: Path, name: str) -> None:
    rows = [{"price": 5}, {"price": 50}, {"price": 6}]
    match(write_subscriptions(tmp_path / "s.csv"), write(tmp_path / name, rows), out)
    assert [row["event"] for row in read_json(out)] == [1, 3]


def test_a_folder_of_parquet_files_is_one_source(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(3):
        write(folder / f"{number}.parquet", [{"price": 5}, {"price": 50}])
    match(write_subscriptions(tmp_path / "s.csv"), folder, out)
    assert [row["event"] for row in read_json(out)] == [1, 3, 5]


def test_bad_subscriptions_are_quarantined_and_the_rest_goes_on(tmp_path: Path, out: Path) -> None:
    subscriptions = tmp_path / "s.csv"
    subscriptions.write_text(
        "subscription_id,condition\n"
        "bad,price <\ncheap,price < 10\ncheap,price < 20\n,price < 1\nshort\nf,rlike(symbol)\n"
    )
    summary = match(subscriptions, write(tmp_path / "e.jsonl", EVENTS[:2]), out)
    assert [row["subscription_ids"] for row in read_json(out)] == [["cheap"], ["cheap"]]
    assert summary.quarantined == 5
    assert sorted(row["line"] for row in quarantined(out)) == [2, 4, 5, 6, 7]
    assert all(row["reason"] and row["file"] == str(subscriptions) for row in quarantined(out))
    assert "bad,price <" in [row["text"] for row in quarantined(out)]


def test_bad_parquet_subscriptions_name_their_row(tmp_path: Path, out: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 1, "condition": "price < 10"},
        {"id": None, "condition": "a"},
        {"id": 3, "condition": None},
    ]
    match(write(tmp_path / "s.parquet", rows), write(tmp_path / "e.jsonl", EVENTS[:1]), out)
    assert [row["row"] for row in quarantined(out)] == [2, 3]


def test_a_file_without_any_subscription_is_an_error(tmp_path: Path, out: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"id": 1, "price": 5}\n')
    with pytest.raises(InputError, match="it has no condition"):
        match_files(MatchOptions(events, events, out), lambda *_: None)
    assert list(tmp_path.iterdir()) == [events]


def test_bad_events_are_quarantined_and_the_rest_goes_on(tmp_path: Path, out: Path) -> None:
    events = tmp_path / "e.jsonl"
    lines = [
        b'{"price": 1}',
        b'{"price": NaN}',
        b'{"price": 1, "price": 2}',
        b'{"price": 1e999}',
        b'{"price": "\\ud800"}',
        b'{"price": ' + b"9" * 4000 + b"}",
        b'{"price": "\xff"}',
        b'{"price":' * 5000,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b'{"a.b": 1, "a": {"b": 2}}',
        b'{"id": [1]}',
        b'{"price": {"low": [], "high": 1}}',
        b'{"price": 2}',
    ]
    events.write_bytes(b"\n".join(lines))
    summary = match(write_subscriptions(tmp_path / "s.csv"), events, out)
    assert [row["event"] for row in read_json(out)] == [1, len(lines)]
    assert sorted(row["line"] for row in quarantined(out)) == list(range(2, len(lines)))
    assert summary.quarantined == len(lines) - 2
    assert max(len(row["text"]) for row in quarantined(out)) <= 1000


def test_nested_objects_have_dotted_names_and_lists_are_ignored(tmp_path: Path, out: Path) -> None:
    subscriptions = write_subscriptions(tmp_path / "s.jsonl", {"city": "place.city = 'Brno'", "tags": "tags = 1"})
    rows: list[dict[str, Any]] = [
        {"place": {"city": "Brno", "more": {"x": [1]}}, "tags": [1]},
        {"place": {"city": "Oslo"}},
        {"place": None},
    ]
    match(subscriptions, write(tmp_path / "e.jsonl", rows), out)
    assert read_json(out) == [{"event": 1, "subscription_ids": ["city"]}]


@pytest.mark.parametrize("name", ["e.jsonl", "e.parquet"])
def test_low_and_high_are_a_range(tmp_path: Path, out: Path, name: str) -> None:
    rows = [{"price": {"low": 5.0, "high": 15.0}}, {"price": {"low": 11.0, "high": 15.0}}]
    match(write_subscriptions(tmp_path / "s.csv"), write(tmp_path / name, rows), out)
    assert [row["event"] for row in read_json(out)] == [1]


def test_csv_events_are_typed_by_cell_and_empty_cells_are_missing(tmp_path: Path, out: Path) -> None:
    conditions = {
        "none": "price IS NULL",
        "flag": "price = true",
        "day": "price >= DATE '2024-01-01'",
        "text": "price = '007'",
    }
    events = tmp_path / "e.csv"
    events.write_text("id,price\na,\nb,true\nc,2024-05-01\nd,007\ne,7\n")
    match(write_subscriptions(tmp_path / "s.jsonl", conditions), events, out)
    assert {row["event"]: row["subscription_ids"] for row in read_json(out)} == {
        "a": ["none"],
        "b": ["flag"],
        "c": ["day"],
        "d": ["text"],
    }


def test_parquet_columns_that_nobody_asks_for_may_have_any_type(tmp_path: Path, out: Path) -> None:
    table = pa.table(
        {
            "price": [5.0],
            "raw": pa.array([b"x"]),
            "tags": [["a"]],
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "e.parquet")
    match(write_subscriptions(tmp_path / "s.csv"), tmp_path / "e.parquet", out)
    assert [row["event"] for row in read_json(out)] == [1]


def test_a_parquet_column_that_cannot_be_matched_stops_everything(tmp_path: Path, out: Path) -> None:
    pq.write_table(pa.table({"price": [b"a"]}), tmp_path / "e.parquet")
    with pytest.raises(EventError, match="price"):
        match(write_subscriptions(tmp_path / "s.csv"), tmp_path / "e.parquet", out)
    assert not out.exists()


def test_no_subscriptions_and_no_events(tmp_path: Path, out: Path) -> None:
    (tmp_path / "s.csv").write_text("subscription_id,condition\n")
    (tmp_path / "e.jsonl").write_text("")
    summary = match(tmp_path / "s.csv", tmp_path / "e.jsonl", out)
    assert (summary.subscriptions, summary.events, out.read_text()) == (0, 0, "")


def test_a_later_clean_run_removes_the_quarantine(tmp_path: Path, out: Path) -> None:
    subscriptions = write_subscriptions(tmp_path / "s.csv")
    (tmp_path / "e.jsonl").write_text("bad\n")
    match(subscriptions, tmp_path / "e.jsonl", out)
    assert len(quarantined(out)) == 1
    match(subscriptions, write(tmp_path / "e.jsonl", EVENTS), out)
    assert not Path(f"{out}.quarantine.jsonl").exists()


def test_a_failure_leaves_the_earlier_output_as_it_was(tmp_path: Path, out: Path) -> None:
    out.write_text("earlier")
    table = pa.table({"price": [5.0] * 10})
    pq.write_table(table, tmp_path / "e.parquet")
    damaged = bytearray((tmp_path / "e.parquet").read_bytes())
    damaged[4:40] = b"\xff" * 36
    (tmp_path / "e.parquet").write_bytes(damaged)
    with pytest.raises(InputError, match="cannot be read"):
        match(write_subscriptions(tmp_path / "s.csv"), tmp_path / "e.parquet", out)
    assert out.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.parquet", "out.jsonl", "s.csv"]


@pytest.mark.parametrize(
    ("subscriptions", "events", "output", "reason"),
    [
        ("missing.csv", "e.jsonl", "out.jsonl", "no such file"),
        ("s.csv", "missing.csv", "out.jsonl", "no such file"),
        ("s.csv", "e.txt", "out.jsonl", "cannot tell its format"),
        ("s.csv", "e.jsonl", "out.xlsx", "cannot tell its format"),
        ("s.csv", "e.jsonl", "nowhere/out.jsonl", "no folder"),
        ("s.csv", "e.jsonl", "e.jsonl", "replace an input"),
        ("s.csv", "not.parquet", "out.jsonl", "cannot be read"),
        ("wrong.csv", "e.jsonl", "out.jsonl", "needs columns"),
        ("s.csv", "empty", "out.jsonl", "no Parquet files"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, subscriptions: str, events: str, output: str, reason: str) -> None:
    write_subscriptions(tmp_path / "s.csv")
    write(tmp_path / "e.jsonl", EVENTS)
    (tmp_path / "e.txt").write_text("x")
    (tmp_path / "not.parquet").write_text("x")
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=reason):
        match(tmp_path / subscriptions, tmp_path / events, tmp_path / output)


# Names that the events do not have


@pytest.mark.parametrize("name", ["e.csv", "e.parquet"])
def test_a_name_in_another_case_is_a_bad_row_with_the_right_spelling(tmp_path: Path, out: Path, name: str) -> None:
    conditions = {"cheap": "price < 10", "wrong": "symbol = 'YHOO' AND Price > 1", "arithmetic": "2 * PRICE > price"}
    summary = match(write_subscriptions(tmp_path / "s.jsonl", conditions), write(tmp_path / name, EVENTS), out)
    assert (summary.subscriptions, summary.quarantined, summary.hints) == (1, 2, ())
    assert [row["subscription_ids"] for row in read_json(out)] == [["cheap"], ["cheap"]]
    first, second = (row["reason"] for row in quarantined(out))
    assert first.startswith("the events have no attribute 'Price', but 'price': names are matched as they are written")
    assert "at character 21" in first
    assert second.startswith("the events have no attribute 'PRICE', but 'price'")


@pytest.mark.parametrize("name", ["e.csv", "e.parquet"])
def test_an_unknown_name_is_told(tmp_path: Path, out: Path, name: str) -> None:
    conditions = {"cheap": "price < 10", "typo": "prise < 10", "other": "volume IS NULL"}
    summary = match(write_subscriptions(tmp_path / "s.jsonl", conditions), write(tmp_path / name, EVENTS), out)
    assert (summary.subscriptions, summary.quarantined) == (3, 0)
    assert summary.hints == (
        "the events have no attribute 'prise'; did you mean 'price'?",
        "the events have no attribute 'volume'",
    )
    assert read_json(out)[0]["subscription_ids"] == ["cheap", "other"]


def test_without_a_schema_every_name_is_right(tmp_path: Path, out: Path) -> None:
    conditions = {"cheap": "price < 10", "upper": "Price < 10"}
    events = write(tmp_path / "e.jsonl", [*EVENTS, {"Price": 1}])
    summary = match(write_subscriptions(tmp_path / "s.jsonl", conditions), events, out)
    assert (summary.quarantined, summary.hints) == (0, ())
    assert read_json(out)[-1]["subscription_ids"] == ["upper"]


def test_the_fields_of_a_struct_are_known(tmp_path: Path, out: Path) -> None:
    conditions = {"right": "place.city = 'Brno'", "wrong": "place.City = 'Brno'", "whole": "place.Zone.id = 1"}
    events = write(tmp_path / "e.parquet", [{"place": {"city": "Brno", "zone": {"id": 1}}}])
    summary = match(write_subscriptions(tmp_path / "s.jsonl", conditions), events, out)
    assert (summary.subscriptions, summary.quarantined, summary.hints) == (1, 2, ())


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_lists_are_matched_in_files(tmp_path: Path, out: Path, suffix: str) -> None:
    conditions = {
        "none": "tags IS NULL",
        "empty": "size(tags) = 0",
        "both": "array_contains(tags, 'a') AND array_contains(tags, 'b')",
        "dear": "exists(items, i -> i.price > 5)",
        "words": "array_contains(words(title), 'flood')",
    }
    rows: list[dict[str, Any]] = [
        {"event_id": 1, "tags": ["b", "a", None], "items": [{"price": 9}], "title": "Flood!"},
        {"event_id": 2, "tags": [], "items": [], "title": "floods"},
        {"event_id": 3, "tags": None, "items": None, "title": None},
    ]
    match(write_subscriptions(tmp_path / "s.jsonl", conditions), write(tmp_path / f"e.{suffix}", rows), out)
    found = {row["event"]: sorted(row["subscription_ids"]) for row in read_json(out)}
    assert found == {1: ["both", "dear", "words"], 2: ["empty"], 3: ["none"]}


def test_now_is_one_instant_of_the_run(tmp_path: Path, out: Path) -> None:
    wanted = write_subscriptions(tmp_path / "s.csv", {"fresh": "at > current_timestamp() - INTERVAL 1 HOUR"})
    for suffix in ("jsonl", "parquet", "csv"):
        rows = [{"id": "old", "at": "2026-01-05T10:00:00Z"}, {"id": "new", "at": "2026-01-05T11:30:00Z"}]
        noon = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
        options = MatchOptions(wanted, write(tmp_path / f"e.{suffix}", rows), out, now=noon)
        match_files(options, lambda _done, _total: None)
        assert read_json(out) == [{"event": "new", "subscription_ids": ["fresh"]}]
    match_files(MatchOptions(wanted, tmp_path / "e.jsonl", out), lambda _done, _total: None)
    assert read_json(out) == []
