"""Kernels are compiled once for a machine: a second process finds them on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import numpy as np, pyarrow as pa
import fieldfare
from numba.core.dispatcher import Dispatcher

index = fieldfare.Index({"a": "price < 10 AND symbol = 'X'", "b": "price > 2 * volume", "c": "symbol LIKE '%x%'"})
index.match({"price": 1.0, "symbol": "X", "volume": 3})
index.match_table(pa.table({"price": np.arange(100.0), "symbol": ["X"] * 100, "volume": np.arange(100)}))
numbered = fieldfare.Index.from_boxes(range(200), {"x": (np.arange(200.0), np.arange(200.0) + 5)})
numbered.save(sys.argv[1])
fieldfare.Index.load(sys.argv[1]).match_table(pa.table({"x": np.arange(100.0)}))
kernels = {
    id(value): value
    for name, module in list(sys.modules.items())
    if name.startswith("fieldfare.matching")
    for value in vars(module).values()
    if isinstance(value, Dispatcher)
}
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels.values()))
print(sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels.values()))
"""


def compiled_and_found(cache: Path, snapshot: Path) -> tuple[int, int]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    arguments = [sys.executable, "-c", PROGRAM, str(snapshot)]
    ended = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True)
    compiled, found = map(int, ended.stdout.split())
    return compiled, found


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    compiled, _ = compiled_and_found(tmp_path / "cache", tmp_path / "first")
    assert compiled > 0
    compiled, found = compiled_and_found(tmp_path / "cache", tmp_path / "second")
    assert compiled == 0
    assert found > 0
