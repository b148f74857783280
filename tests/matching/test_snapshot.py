"""A saved index is the same index, or it is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import fieldfare
from fieldfare.errors import SnapshotError

CONDITIONS = {
    "cheap": "price < 10",
    "exact": "volume = 9007199254740993 OR volume BETWEEN 5 AND 6",
    "text": "symbol IN ('YHOO', 'é') AND NOT flag",
    "late": "at >= TIMESTAMP '2024-01-01 00:00:00' AND price > 2 * volume",
    "like": "symbol LIKE '%x_'",
    "all": "TRUE",
}
EVENTS = [
    {"price": 9.5, "volume": 9_007_199_254_740_993, "symbol": "YHOO", "flag": False},
    {"price": 20, "volume": 5, "symbol": "exa"},
    {},
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = fieldfare.Index(CONDITIONS).updated(add={"new": "price IS NULL"}, remove=["like"])
    index.save(tmp_path / "saved")
    return tmp_path / "saved"


def test_it_is_the_same_index(saved: Path) -> None:
    loaded = fieldfare.Index.load(saved)
    fresh = fieldfare.Index({**{k: v for k, v in CONDITIONS.items() if k != "like"}, "new": "price IS NULL"})
    assert [loaded.match(event) for event in EVENTS] == [fresh.match(event) for event in EVENTS]
    assert loaded.ids.to_pylist() == fresh.ids.to_pylist()
    changed = loaded.updated(add={"like": "symbol LIKE '%x_'"}, remove=["all"]).compacted()
    assert changed.match(EVENTS[1]) == ["exact", "like"]


@pytest.mark.parametrize("name", ["index.json", "arrays.bin", "ids.arrow"])
def test_a_missing_file_is_refused(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(SnapshotError):
        fieldfare.Index.load(saved)


@pytest.mark.parametrize("name", ["index.json", "arrays.bin", "ids.arrow"])
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_refused(saved: Path, name: str, kept: float) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(SnapshotError):
        fieldfare.Index.load(saved)


def test_every_array_is_checked(saved: Path) -> None:
    manifest = json.loads((saved / "index.json").read_text())
    data = (saved / "arrays.bin").read_bytes()
    arrays = [array for segment in manifest["segments"] for array in segment["arrays"].values() if array["nbytes"]]
    assert len(arrays) > 20
    for array in arrays:
        damaged = bytearray(data)
        damaged[array["offset"] + array["nbytes"] // 2] ^= 1
        (saved / "arrays.bin").write_bytes(damaged)
        with pytest.raises(SnapshotError, match="damaged"):
            fieldfare.Index.load(saved)
    (saved / "arrays.bin").write_bytes(data)
    fieldfare.Index.load(saved)


def test_the_ids_are_checked(saved: Path) -> None:
    data = (saved / "ids.arrow").read_bytes()
    (saved / "ids.arrow").write_bytes(data.replace(b"cheap", b"sheep"))
    with pytest.raises(SnapshotError, match="damaged"):
        fieldfare.Index.load(saved)


def test_damage_anywhere_in_the_manifest_is_found(saved: Path) -> None:
    """Also in the middle of a text, which is no UTF-8 then."""
    data = (saved / "index.json").read_bytes()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        (saved / "index.json").write_bytes(damaged)
        with pytest.raises(SnapshotError, match="damaged"):
            fieldfare.Index.load(saved)


def test_another_format_says_what_to_do(saved: Path) -> None:
    manifest = json.loads((saved / "index.json").read_text())
    (saved / "index.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(SnapshotError, match="build the index anew"):
        fieldfare.Index.load(saved)


def test_it_does_not_overwrite(saved: Path) -> None:
    with pytest.raises(SnapshotError, match="there already"):
        fieldfare.Index(CONDITIONS).save(saved)
    assert len(fieldfare.Index.load(saved)) == len(CONDITIONS)


def test_an_unwritable_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnapshotError):
        fieldfare.Index(CONDITIONS).save(tmp_path / "file" / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_empty_index_can_be_saved(tmp_path: Path) -> None:
    fieldfare.Index({}).save(tmp_path / "empty")
    assert fieldfare.Index.load(tmp_path / "empty").match_table(pa.table({"x": [1]})).to_pylist() == [[]]


@pytest.mark.slow
def test_another_process_maps_the_same_file(saved: Path) -> None:
    program = """
import sys, fieldfare
index = fieldfare.Index.load(sys.argv[1])
print(index.match({"price": 9.5}))
print(any("arrays.bin" in line for line in open("/proc/self/maps")))
"""
    if not os.path.exists("/proc/self/maps"):  # noqa: PTH110 - a file of the kernel
        pytest.skip("the list of mapped files is Linux's")
    ended = subprocess.run([sys.executable, "-c", program, str(saved)], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n")[:2] == ["['cheap', 'all']", "True"]
