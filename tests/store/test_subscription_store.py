from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from fieldfare.errors import (
    ConditionError,
    DuplicateIdError,
    HistoryError,
    InvalidIdError,
    StoreError,
    SubscriptionError,
    UnknownIdError,
)
from fieldfare.store import State, SubscriptionStore, open_store

NOW = 1_800_000_000.0


def by_id(state: State) -> dict[object, str]:
    return dict(zip(state.table["subscription_id"].to_pylist(), state.table["condition"].to_pylist(), strict=True))


def test_what_was_added_is_there_for_others_at_once(opened: Callable[[], SubscriptionStore]) -> None:
    store, other = opened(), opened()
    assert (store.version(), store.id_type, by_id(store.active())) == (0, None, {})
    assert store.add({"a": "x < 1", "b": "x > 'Ä'"}, now_seconds=NOW) == 2
    assert other.active().version == other.version() == 2
    assert by_id(other.active()) == {"a": "x < 1", "b": "x > 'Ä'"}
    assert other.active().table["number"].to_pylist() == [1, 2]
    assert (other.identity, other.id_type) == (store.identity, "string")


def test_history(store: SubscriptionStore) -> None:
    store.add({1: "a = 1", 2: "a = 2", 3: "a = 3"}, now_seconds=NOW)
    assert store.remove([2]) == 4
    assert store.add({3: "a = 33", 4: "a = 4"}, replace=True, now_seconds=NOW) == 6
    assert by_id(store.active(3)) == {1: "a = 1", 2: "a = 2", 3: "a = 3"}
    assert by_id(store.active(4)) == {1: "a = 1", 3: "a = 3"}
    assert by_id(store.active()) == {1: "a = 1", 3: "a = 33", 4: "a = 4"}
    changes = store.changes(3)
    assert changes.version == 6
    assert changes.ended.tolist() == [2, 3]
    assert changes.started["subscription_id"].to_pylist() == [3, 4]
    assert changes.started.schema == store.active().table.schema
    assert store.changes(6).ended.tolist() == []
    assert store.changes(6).started.num_rows == 0


def test_what_came_and_went_is_no_change(store: SubscriptionStore) -> None:
    store.add({"a": "x = 1"}, now_seconds=NOW)
    store.remove(["a"])
    changes = store.changes(0)
    assert (changes.version, changes.ended.tolist(), changes.started.num_rows) == (2, [], 0)


def test_tenants_and_topics(store: SubscriptionStore) -> None:
    table = pa.table(
        {
            "subscription_id": ["a", "b", "c"],
            "condition": ["x = 1", "x = 2", "x = 3"],
            "tenant": ["t1", None, "t1"],
            "topic": pa.array(["p", "p", None]).dictionary_encode(),
        }
    )
    store.add(table, tenant="t2", topic="q", now_seconds=NOW)
    assert set(by_id(store.active(tenant="t1"))) == {"a", "c"}
    assert set(by_id(store.active(topic="p"))) == {"a", "b"}
    assert set(by_id(store.active(tenant="t2", topic="p"))) == {"b"}
    assert store.changes(0, tenant="t1", topic="q").started["subscription_id"].to_pylist() == ["c"]
    store.remove(["a", "b"])
    assert store.changes(3, tenant="t1").ended.tolist() == [1]
    with pytest.raises(SubscriptionError, match="tenant or a topic"):
        store.add({"d": "x = 1"}, tenant="", now_seconds=NOW)


def test_lifetimes(store: SubscriptionStore) -> None:
    table = pa.table({"subscription_id": ["a", "b"], "condition": ["x = 1"] * 2, "lifetime_seconds": [None, 10]})
    store.add(table, lifetime_seconds=20.0, now_seconds=NOW)
    store.add({"forever": "x = 1"}, now_seconds=NOW)
    assert (store.expire(NOW + 9.9), store.version()) == (0, 3)
    assert (store.expire(NOW + 10), store.version()) == (1, 4)
    assert set(by_id(store.active())) == {"a", "forever"}
    store.add({"a": "x = 2"}, now_seconds=NOW + 20)  # expired, so its id is free
    assert by_id(store.active()) == {"forever": "x = 1", "a": "x = 2"}
    assert store.get("a").expires_at is None
    for lifetime_seconds in (0, -1, float("nan"), 1e12):
        with pytest.raises(SubscriptionError, match="lifetime"):
            store.add({"c": "x = 1"}, lifetime_seconds=lifetime_seconds, now_seconds=NOW)


def test_all_or_nothing(store: SubscriptionStore) -> None:
    store.add({"a": "x = 1"}, now_seconds=NOW)
    with pytest.raises(ConditionError) as raised:
        store.add({"b": "x = 2", "c": "x ="}, now_seconds=NOW)
    assert raised.value.__notes__ == ["in subscription 'c'"]
    with pytest.raises(DuplicateIdError) as duplicate:
        store.add({"b": "x = 2", "a": "x = 3"}, now_seconds=NOW)
    assert duplicate.value.subscription_id == "a"
    with pytest.raises(UnknownIdError) as unknown:
        store.remove(["a", "b"])
    assert unknown.value.subscription_id == "b"
    with pytest.raises(UnknownIdError):
        store.remove([1])
    assert (store.version(), by_id(store.active())) == (1, {"a": "x = 1"})
    assert store.add({}, now_seconds=NOW) == store.remove([]) == 1


@pytest.mark.parametrize("bad", [1, True, None, 1.5, "a\0b", "\ud800", "x" * 1001])
def test_bad_ids(store: SubscriptionStore, bad: object) -> None:
    store.add({"a": "x = 1"}, now_seconds=NOW)
    with pytest.raises(InvalidIdError):
        store.add({bad: "x = 1"}, now_seconds=NOW)
    assert store.version() == 1


@pytest.mark.parametrize("bad", [None, 1, "", "x = '\ud800'", "x = 'a\0b'"])
def test_bad_conditions(store: SubscriptionStore, bad: object) -> None:
    with pytest.raises(ConditionError):
        store.add({"a": bad}, now_seconds=NOW)
    assert store.version() == 0


def test_a_table_needs_its_columns(store: SubscriptionStore) -> None:
    with pytest.raises(SubscriptionError, match="'condition'"):
        store.add(pa.table({"subscription_id": ["a"]}), now_seconds=NOW)
    table = pa.table({"subscription_id": ["a"], "condition": ["x = 1"], "lifetime_seconds": ["soon"]})
    with pytest.raises(SubscriptionError, match="lifetime_seconds"):
        store.add(table, now_seconds=NOW)


def test_texts_come_back_as_they_were(store: SubscriptionStore) -> None:
    given = {
        "\\N": "x = '\\\\t'",
        "tab\t'\"%s ?": "x = 'new\nline'",
        "": "x = '😀'",
        "\N{COMBINING ACUTE ACCENT}": "y = 1",
    }
    store.add(given, now_seconds=NOW)
    assert by_id(store.active()) == given
    assert {identifier: store.get(identifier).condition for identifier in given} == given
    assert store.known([*given, "other"]) == set(given)


def test_ids_from_text(store: SubscriptionStore) -> None:
    assert store.id_of("12") == "12"
    for text in ("a\0b", "x" * 1001):
        with pytest.raises(InvalidIdError):
            store.id_of(text)
    store.add({-(2**63): "x = 1", 2**63 - 1: "x = 2"}, now_seconds=NOW)
    assert store.id_of("-9223372036854775808") == -(2**63)
    assert by_id(store.active()) == {-(2**63): "x = 1", 2**63 - 1: "x = 2"}
    for text in ("a", "", "-", "007", "9223372036854775808", "²", "1_000"):
        with pytest.raises(InvalidIdError):
            store.id_of(text)


def test_one_and_some(store: SubscriptionStore) -> None:
    store.add({5: "x = 1"}, tenant="t", topic="p", lifetime_seconds=60, now_seconds=NOW)
    store.add({3: "x = 2", 4: "x = 3"}, now_seconds=NOW)
    one = store.get(5)
    assert (one.number, one.subscription_id, one.condition, one.tenant, one.topic) == (1, 5, "x = 1", "t", "p")
    assert one.created_at == datetime.fromtimestamp(NOW, UTC)
    assert one.expires_at == datetime.fromtimestamp(NOW + 60, UTC)
    for unknown in (6, "5"):
        with pytest.raises(UnknownIdError):
            store.get(unknown)
    assert [found.subscription_id for found in store.page(limit=2)] == [5, 3]
    assert [found.subscription_id for found in store.page(limit=2, after=2)] == [4]
    assert [found.subscription_id for found in store.page(tenant="t")] == [5]
    assert store.known([3, 9]) == {3}
    assert store.known(["3"]) == set()


def test_versions_that_are_not_known(store: SubscriptionStore) -> None:
    store.add({"a": "x = 1", "b": "x = 2"}, now_seconds=NOW)
    store.remove(["a"])
    store.remove(["b"])
    for ask in (store.active, store.changes, store.forget):
        with pytest.raises(HistoryError, match="has not been"):
            ask(5)
    assert store.forget(3) == 1
    assert store.changes(3).ended.tolist() == [2]
    for ask in (store.active, store.changes, store.forget):
        with pytest.raises(HistoryError, match="forgotten"):
            ask(2)


def test_history_is_kept_for_the_slowest_reader(store: SubscriptionStore) -> None:
    for number in range(4):
        store.add({"a": f"x = {number}"}, now_seconds=NOW, replace=True)  # versions 1 to 4
    assert store.forget_unheld(now_seconds=NOW, rows_max=9) == 0  # nobody says what may go
    store.hold("slow", 2, now_seconds=NOW)
    store.hold("quick", 1, now_seconds=NOW)
    store.hold("quick", 4, now_seconds=NOW)
    assert store.forget_unheld(now_seconds=NOW, rows_max=9) == 1
    assert by_id(store.active(2)) == {"a": "x = 1"}
    with pytest.raises(HistoryError, match="forgotten"):
        store.hold("new", 1, now_seconds=NOW)
    with pytest.raises(HistoryError, match="has not been"):
        store.hold("new", 5, now_seconds=NOW)
    assert store.version() == 4


def test_a_reader_that_is_away_for_a_week_holds_nothing(store: SubscriptionStore) -> None:
    week = 7 * 86_400
    for number in range(6):
        store.add({"a": f"x = {number}"}, now_seconds=NOW, replace=True)
    store.hold("away", 1, now_seconds=NOW)
    store.hold("here", 6, now_seconds=NOW + week)
    assert store.forget_unheld(now_seconds=NOW + week, rows_max=2) == 0
    removed = [store.forget_unheld(now_seconds=NOW + week + 1, rows_max=2) for _ in range(4)]
    assert removed == [2, 2, 1, 0]
    with pytest.raises(HistoryError, match="version 1 was forgotten"):
        store.changes(1)
    assert by_id(store.active(6)) == {"a": "x = 5"}


def test_threads_share_a_store(store: SubscriptionStore) -> None:
    versions: list[int] = []

    def add(name: str) -> None:
        versions.extend(store.add({f"{name}{number}": "x = 1"}, now_seconds=NOW) for number in range(20))

    threads = [threading.Thread(target=add, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == list(range(1, 61))


def test_a_store_that_was_closed(store: SubscriptionStore) -> None:
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.version()
    store.close()


def test_many_rows_in_several_chunks(store: SubscriptionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("sqlite", "postgres"):
        monkeypatch.setattr(f"fieldfare.store.{module}._CHUNK_ROWS", 7)
    given = {number: f"x = {number}" for number in range(100)}
    store.add(given, now_seconds=NOW)
    assert by_id(store.active()) == given


def test_what_programs_for_version_0_3_import_is_still_there() -> None:
    module = importlib.import_module("fieldfare.store.log")
    assert (module.open_store, module.SubscriptionStore) == (open_store, SubscriptionStore)


def test_an_address_of_something_else() -> None:
    with pytest.raises(StoreError, match="not mysql"):
        open_store("mysql://user:secret@host/db")
