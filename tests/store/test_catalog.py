from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fieldfare import Index
from fieldfare.errors import HistoryError, SnapshotError
from fieldfare.matching.arrow import batch_of_table
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan, Reshape
from fieldfare.store import catalog as catalog_module
from fieldfare.store.base import ALL, Order, Scope
from fieldfare.store.catalog import Catalog
from fieldfare.store.parts import Version
from fieldfare.store.subscription_store import SubscriptionStore, open_store

NOW_SECONDS = 1_000_000.0
EVENTS = pa.table({"x": np.linspace(0, 99, 60), "kind": [f"k{number % 5}" for number in range(60)]})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SubscriptionStore]:
    with open_store(tmp_path / "subscriptions.db") as opened:
        yield opened


def condition(rng: random.Random) -> str:
    low = rng.uniform(0, 90)
    return rng.choice(
        [
            f"x >= {low:.2f} AND x < {low + rng.uniform(1, 60):.2f}",
            f"kind = 'k{rng.randrange(6)}'",
            f"x < {low:.2f} OR kind IN ('k{rng.randrange(6)}', 'k1')",
            f"kind IS NULL OR x > {low:.2f} AND kind != 'k2'",
        ]
    )


def add(store: SubscriptionStore, ids: range, rng: random.Random) -> dict[int, str]:
    added = {number: condition(rng) for number in ids}
    store.add(added, now_seconds=NOW_SECONDS)
    return added


def opened(
    store: SubscriptionStore, folder: Path, plan: LayoutPlan, scope: Scope = ALL, reader: str | None = None
) -> Catalog:
    catalog = Catalog(store, folder, Order(scope, plan), reader)
    catalog.open()
    return catalog


def found(version: Version) -> list[list[int]]:
    """For each event what its visits find, by the first dimension that can answer."""
    layout = version.layout
    candidates = layout.candidates(batch_of_table(EVENTS, layout.attributes))
    lists = []
    for row in range(EVENTS.num_rows):
        start = layout.starts[0]
        segments = range(candidates.first[row, 0] - start, candidates.first[row, 0] - start + candidates.count[row, 0])
        parts = [start + segment % layout.dimensions[0].size for segment in segments]
        ids = [version.index(part).match_table(EVENTS.slice(row, 1)).to_pylist()[0] for part in parts]
        lists.append(sorted({number for some in ids for number in some}))
    return lists


def expected(subscriptions: dict[int, str]) -> list[list[int]]:
    return [sorted(ids) for ids in Index(subscriptions).match_table(EVENTS).to_pylist()]


@pytest.mark.parametrize("kind", list(LayoutKind))
def test_a_version_holds_what_the_store_held(store: SubscriptionStore, tmp_path: Path, kind: LayoutKind) -> None:
    rng = random.Random(kind)
    plan = LayoutPlan(kind, 4, replicas=2 if kind is LayoutKind.CLUSTERS else 1)
    active = add(store, range(200), rng)
    catalog = opened(store, tmp_path / "snapshots", plan)
    for step in range(4):
        before, matches = catalog.version(NOW_SECONDS), expected(active)
        assert found(before) == matches
        gone = rng.sample(sorted(active), 20)
        store.remove(gone)
        active = {number: text for number, text in active.items() if number not in gone}
        active |= add(store, range(1000 * (step + 1), 1000 * (step + 1) + 30), rng)
        assert found(catalog.version(NOW_SECONDS)) == expected(active)
        assert found(before) == matches  # a version does not change any more
    assert catalog.subscriptions == len(active)


def test_subscriptions_end_with_their_lifetime(store: SubscriptionStore, tmp_path: Path) -> None:
    store.add({1: "x >= 0", 2: "x >= 50"}, lifetime_seconds=10, now_seconds=NOW_SECONDS)
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan())
    assert len(catalog.version(NOW_SECONDS + 9).index(0)) == 2
    assert len(catalog.version(NOW_SECONDS + 11).index(0)) == 0


def test_a_scope_leaves_the_others_out(store: SubscriptionStore, tmp_path: Path) -> None:
    store.add({1: "x >= 0"}, topic="here", now_seconds=NOW_SECONDS)
    store.add({2: "x >= 0"}, topic="there", now_seconds=NOW_SECONDS)
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan(), Scope(topic="here"))
    store.add({3: "x >= 0"}, topic="here", now_seconds=NOW_SECONDS)
    store.add({4: "x >= 0"}, topic="there", now_seconds=NOW_SECONDS)
    assert sorted(catalog.version(NOW_SECONDS).index(0).ids.to_pylist()) == [1, 3]


def test_an_empty_store_is_ready_for_its_first_subscription(store: SubscriptionStore, tmp_path: Path) -> None:
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan(LayoutKind.MULTI, 3))
    assert found(catalog.version(NOW_SECONDS)) == [[]] * EVENTS.num_rows
    store.add({7: "x >= 0"}, now_seconds=NOW_SECONDS)
    assert found(catalog.version(NOW_SECONDS)) == [[7]] * EVENTS.num_rows


def test_a_base_is_used_again_by_the_next_run(store: SubscriptionStore, tmp_path: Path) -> None:
    active = add(store, range(50), random.Random(1))
    first = opened(store, tmp_path / "snapshots", LayoutPlan()).base.folder
    active |= add(store, range(50, 60), random.Random(2))
    again = opened(store, tmp_path / "snapshots", LayoutPlan())
    assert again.base.folder == first
    assert found(again.version(NOW_SECONDS)) == expected(active)
    assert opened(store, tmp_path / "snapshots", LayoutPlan(LayoutKind.MULTI, 2)).base.folder != first


def test_a_large_delta_becomes_a_base_in_the_background(
    store: SubscriptionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "DELTA_SIZE_MIN", 10)
    active = add(store, range(100), random.Random(1))
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan(LayoutKind.MULTI, 3))
    first = catalog.base.folder
    active |= add(store, range(100, 150), random.Random(2))
    assert found(catalog.version(NOW_SECONDS)) == expected(active)  # and begins a new base
    wait_for_build(catalog)
    assert catalog.base.folder != first
    assert found(catalog.version(NOW_SECONDS)) == expected(active)
    catalog.version(NOW_SECONDS)
    kept = {folder.name for folder in (tmp_path / "snapshots").iterdir()}
    assert kept == {catalog.base.folder.name}  # what no batch uses any more is gone


def test_a_split_and_a_merge_keep_every_subscription(store: SubscriptionStore, tmp_path: Path) -> None:
    active = add(store, range(100), random.Random(1))
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan(LayoutKind.MULTI, 2))
    assert catalog.rebuild(Reshape(catalog.layout.to_json(), split=1))
    assert not catalog.rebuild()  # one at a time
    wait_for_build(catalog)
    assert list(catalog.layout.matchers) == [0, 1, 2]
    assert found(catalog.version(NOW_SECONDS)) == expected(active)
    catalog.rebuild(Reshape(catalog.layout.to_json(), merge=0))
    wait_for_build(catalog)
    assert list(catalog.layout.matchers) == [1, 2]
    assert found(catalog.version(NOW_SECONDS)) == expected(active)


def test_a_base_that_cannot_be_made_leaves_the_old_one_in_use(store: SubscriptionStore, tmp_path: Path) -> None:
    active = add(store, range(30), random.Random(1))
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan(LayoutKind.MULTI, 2))
    catalog.rebuild(Reshape(catalog.layout.to_json(), split=99))
    wait_for_build(catalog)
    assert catalog.problem
    assert "99" in catalog.problem
    assert found(catalog.version(NOW_SECONDS)) == expected(active)


@pytest.mark.parametrize("victim", ["part-0000/arrays.bin", "part-0000/ids.arrow", "part-0000.npy"])
def test_damage_is_found_and_made_good_from_the_store(store: SubscriptionStore, tmp_path: Path, victim: str) -> None:
    active = add(store, range(30), random.Random(1))
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan())
    path = catalog.base.folder / victim
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    for place in range(middle, middle + 64):  # between two arrays lie up to 63 bytes that mean nothing
        content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(SnapshotError):
        found(catalog.version(NOW_SECONDS))
    catalog.discard()
    assert found(catalog.version(NOW_SECONDS)) == expected(active)


def test_damage_of_a_delta_is_found_too(store: SubscriptionStore, tmp_path: Path) -> None:
    active = add(store, range(30), random.Random(1))
    catalog = opened(store, tmp_path / "snapshots", LayoutPlan())
    store.remove([3])
    del active[3]
    version = catalog.version(NOW_SECONDS)
    assert version.delta
    path = Path(version.delta) / "removed.bin"
    content = bytearray(path.read_bytes())
    content[-16] ^= 1  # the position: the checksum follows it
    path.write_bytes(content)
    with pytest.raises(SnapshotError):
        found(version)
    catalog.discard()
    assert found(catalog.version(NOW_SECONDS)) == expected(active)


def rows(store: SubscriptionStore) -> int:
    with sqlite3.connect(store.address) as database:
        ((count,),) = database.execute("SELECT count(*) FROM fieldfare_subscriptions")
    database.close()
    return int(count)


def churn(store: SubscriptionStore, active: dict[int, str], times: int) -> None:
    """Changes that undo each other, so that no delta becomes large: `times` ended subscriptions more."""
    for _ in range(times):
        store.add({1: active[1]}, now_seconds=NOW_SECONDS, replace=True)


def test_the_store_forgets_what_no_catalog_needs_a_little_at_a_time(
    store: SubscriptionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_module, "HISTORY_SIZE_MIN", 30)
    monkeypatch.setattr(catalog_module, "FORGET_ROWS_MAX", 10)
    active = add(store, range(20), random.Random(1))
    quick = opened(store, tmp_path / "quick", LayoutPlan(), reader="quick")
    slow = opened(store, tmp_path / "slow", LayoutPlan(), reader="slow")
    quick.version(NOW_SECONDS)
    slow.version(NOW_SECONDS)
    churn(store, active, 35)
    assert found(quick.version(NOW_SECONDS)) == expected(active)  # and begins a new base, though the delta is small
    wait_for_build(quick)
    quick.version(NOW_SECONDS)
    assert rows(store) == 20 + 35  # the slow one needs them still
    assert found(slow.version(NOW_SECONDS)) == expected(active)
    wait_for_build(slow)
    counts = [rows(store)]
    assert counts == [55 - 10]
    for _ in range(5):
        assert found(slow.version(NOW_SECONDS)) == expected(active)
        counts.append(rows(store))
    assert counts[-1] == 20
    assert all(before - after <= 10 for before, after in pairwise(counts))
    assert found(quick.version(NOW_SECONDS)) == expected(active)


def test_batches_do_not_wait_for_a_store_that_cannot_be_changed(tmp_path: Path) -> None:
    with open_store(tmp_path / "subscriptions.db", timeout_seconds=0.1) as store:
        active = add(store, range(20), random.Random(1))
        churn(store, active, 3)
        catalog = opened(store, tmp_path / "snapshots", LayoutPlan(), reader="us")
        other = sqlite3.connect(store.address, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert found(catalog.version(NOW_SECONDS)) == expected(active)
        assert catalog.problem
        assert catalog.problem.startswith("ended subscriptions stay in the store for now: ")
        other.execute("ROLLBACK")
        other.close()
        catalog.version(NOW_SECONDS + 59)
        assert rows(store) == 23
        catalog.version(NOW_SECONDS + 60)
        assert rows(store) == 20


def test_a_catalog_that_was_away_for_too_long_starts_anew(store: SubscriptionStore, tmp_path: Path) -> None:
    active = add(store, range(20), random.Random(1))
    away = opened(store, tmp_path / "away", LayoutPlan(), reader="away")
    away.version(NOW_SECONDS)
    churn(store, active, 5)
    later = NOW_SECONDS + 8 * 86_400
    opened(store, tmp_path / "here", LayoutPlan(), reader="here").version(later)
    assert rows(store) == 20
    with pytest.raises(HistoryError, match="forgotten"):
        away.version(later)
    away.discard()  # as the pipeline does, then
    assert found(away.version(later)) == expected(active)


def wait_for_build(catalog: Catalog) -> None:
    deadline = time.monotonic() + 60
    while catalog.is_building:
        catalog.version(NOW_SECONDS)
        assert time.monotonic() < deadline
        time.sleep(0.02)
