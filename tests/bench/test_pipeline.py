from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from fieldfare.bench.pipeline import Floor, PipelineBenchOptions, PipelineResult, render
from fieldfare.errors import InputError
from fieldfare.pipeline.matcher import TaskTally


def test_a_small_run_measures_everything_and_verifies_it() -> None:
    # In a process of its own: it starts and stops Spark, and the other tests share a session.
    sizes = ["--subscriptions", "400", "--events", "3000", "--repeats", "1", "--stream-seconds", "1"]
    arguments = ["bench", "pipeline", *sizes, "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "fieldfare", *arguments], capture_output=True, text=True, check=False, timeout=500
    )
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert set(result["rows"]) == {"replicated", "partitioned", "floor", "spark_join"}
    assert set(result["parquet"]) == {"replicated", "partitioned", "spark_join"}
    assert all(rate > 0 for rate in [*result["rows"].values(), *result["parquet"].values()])
    assert result["matches_per_event"] > 0
    assert result["streamed"]["changed_subscriptions"] == 100
    assert result["streamed"]["latency_p99_seconds"] >= result["streamed"]["latency_p50_seconds"] > 0


def test_the_floor_makes_lists_of_the_right_length() -> None:
    batch = pa.record_batch({"event_id": np.arange(5)})
    ((events, ids),) = Floor(3)(iter([batch]), TaskTally())
    assert events is batch
    assert [len(some) for some in ids.to_pylist()] == [3] * 5


def test_the_table_shows_ratios_to_the_join() -> None:
    rates = {"replicated": 300.0, "partitioned": 200.0, "floor": 400.0, "spark_join": 2.0}
    parquet = {name: rate for name, rate in rates.items() if name != "floor"}
    result = PipelineResult(10, 5.0, 1.0, "multi", 2, rates, parquet, None)
    assert result.ratios["replicated_to_join"] == 150.0
    assert result.ratios["partitioned_to_replicated"] == pytest.approx(2 / 3)
    assert "150.0 x Spark's join" in "".join(str(cell) for column in render(result).columns for cell in column.cells)


@pytest.mark.parametrize("wrong", [{"layout": "round"}, {"subscriptions": 0}, {"stream_seconds": -1.0}])
def test_senseless_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        PipelineBenchOptions(**wrong)  # type: ignore[arg-type]
