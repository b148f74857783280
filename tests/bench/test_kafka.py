from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("confluent_kafka")

from fieldfare.bench.kafka.load import Latency
from fieldfare.bench.kafka.peers import by_hand, with_duckdb
from fieldfare.bench.kafka.run import KafkaBenchOptions, KafkaResult, _messages, _verified, render
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.bench.spatial import bluedove
from fieldfare.bench.workload import Size
from fieldfare.errors import InputError


@dataclass
class Sent:
    """A message as a consumer gets it."""

    text: bytes

    def value(self) -> bytes:
        return self.text


def test_the_peers_find_what_brute_force_finds() -> None:
    workload = bluedove("bluedove", Size(300, 400.0, 50), np.random.default_rng(1))
    messages = [Sent(text) for text in _messages(workload)]
    for peer in (by_hand(workload), with_duckdb(workload)):
        answers = peer(messages)
        assert len(answers) == 50
        assert _verified("peer", workload, answers, whole=True) > 0


def test_wrong_answers_give_no_number() -> None:
    workload = bluedove("bluedove", Size(300, 400.0, 50), np.random.default_rng(1))
    answers = [{**json.loads(text), "subscription_ids": [-1]} for text in _messages(workload)]
    with pytest.raises(BenchVerificationError):
        _verified("ours", workload, [json.dumps(answer).encode() for answer in answers])
    with pytest.raises(BenchVerificationError):
        _verified("ours", workload, [], whole=True)


def test_the_table_shows_ratios_and_latency() -> None:
    rates = {
        "folder_to_parquet": 200.0,
        "kafka_to_parquet": 150.0,
        "kafka_to_kafka": 120.0,
        "by_hand": 2.0,
        "duckdb": 40.0,
        "faststream": 3.0,
    }
    result = KafkaResult(10, 5.0, rates, Latency.of([0.1, 0.2, 0.3], 1.0))
    assert result.ratios == {
        "kafka_to_folder": 0.75,
        "ours_to_by_hand": 60.0,
        "ours_to_duckdb": 3.0,
        "ours_to_faststream": 40.0,
    }
    cells = "".join(str(cell) for column in render(result).columns for cell in column.cells)
    assert "60.00 x" in cells
    assert "0.200 s" in cells


@pytest.mark.parametrize("wrong", [{"events": 0}, {"subscriptions": 0}, {"stream_seconds": -1.0}])
def test_senseless_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        KafkaBenchOptions(**wrong)  # type: ignore[arg-type]
