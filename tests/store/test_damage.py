from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from fieldfare.errors import SnapshotError
from fieldfare.partitioning.plan import LayoutKind, LayoutPlan
from fieldfare.store import parts
from fieldfare.store.base import ALL, Order, open_base
from fieldfare.store.catalog import Catalog
from fieldfare.store.parts import Version
from fieldfare.store.subscription_store import open_store

EVENTS = pa.table({"x": np.linspace(0, 100, 50), "kind": [f"k{number % 3}" for number in range(50)]})
PLACES_PER_FILE = 60


def answers(version: Version) -> list[object]:
    """What a worker that has just started makes of a version."""
    parts._kept.cache_clear()
    layout = version.layout
    lists = [version.index(part).match_table(EVENTS).to_pylist() for part in range(layout.part_count)]
    numbers = open_base(Path(version.base)).numbers.tolist()
    return [layout.to_json(), version.part_sizes, numbers, [[sorted(ids) for ids in part] for part in lists]]


def test_no_bit_of_a_version_can_change_unnoticed(tmp_path: Path) -> None:
    with open_store(tmp_path / "s.db") as store:
        conditions = {
            number: f"x >= {number} AND x < {number + 17.5} OR kind = 'k{number % 4}'" for number in range(40)
        }
        store.add(conditions, now_seconds=1.0)
        catalog = Catalog(store, tmp_path / "snapshots", Order(ALL, LayoutPlan(LayoutKind.MULTI, 2)))
        catalog.open()
        store.add({100: "x < 50"}, now_seconds=1.0)
        store.remove([3, 7])
        version = catalog.version(2.0)
    assert version.delta
    sound = answers(version)
    files = [file for file in (tmp_path / "snapshots").rglob("*") if file.is_file()]
    assert len(files) > 10
    for file in files:
        content = file.read_bytes()
        for place in range(0, len(content), len(content) // PLACES_PER_FILE + 1):
            damaged = bytearray(content)
            damaged[place] ^= 1
            file.write_bytes(damaged)
            try:
                assert answers(version) == sound, (file, place)  # a byte that means nothing, such as a space
            except SnapshotError:
                continue
        file.write_bytes(content)
    assert answers(version) == sound
