"""Compiles the kernels that many tests need: workers that begin side by side would each compile them.

`python -m tests.compiled_kernels`; the kernels are kept beside the modules, where all processes find them.
"""

from __future__ import annotations

import importlib
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from fieldfare import Index
from fieldfare.partitioning.few_boxes import warm_up as warm_up_placement
from fieldfare.routing.interest import warm_up as warm_up_matching

_AT_IMPORT = ("matching.like", "matching.operands", "geometry.regions", "geometry.validity", "geometry.wkt_columns")


def main() -> None:
    """Do a little of everything that has kernels."""
    for name in _AT_IMPORT:  # their kernels have signatures
        importlib.import_module(f"fieldfare.{name}")
    warm_up_matching()
    warm_up_placement()
    rng = random.Random(1)
    conditions = {str(n): f"x < {rng.randint(0, 99)} AND kind = 'k{n % 9}'" for n in range(300)}
    conditions |= {"like": "kind LIKE '%k%'", "list": "array_contains(tags, 'a') AND size(tags) > 1", "y": "y > 2 * x"}
    events = pa.table({"x": np.arange(99.0), "y": np.arange(99), "kind": [f"k{n % 12}" for n in range(99)]})
    lists = events.append_column("tags", pa.array([["a", "b"]] * 99))
    index = Index(conditions)
    for table in (events, lists):
        index.match_table(table)
    index.match({"x": 1.5, "y": 2, "kind": "k1", "tags": ["a"]})
    index.updated({"new": "x > 5"}, remove=["1"]).match_rows(events.to_pylist()[:2])
    numbered = Index.from_boxes(range(200), {"x": (np.arange(200.0), np.arange(200.0) + 5)})
    with tempfile.TemporaryDirectory() as folder:
        numbered.save(Path(folder) / "snapshot")
        Index.load(Path(folder) / "snapshot").match_table(pa.table({"x": np.arange(100.0)}))


if __name__ == "__main__":
    main()
