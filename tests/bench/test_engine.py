from __future__ import annotations

import io
import json
import os
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from rich.console import Console

from fieldfare.bench.engine import PEERS, VERIFIED_EVENTS_OF_PEERS, WORKLOADS, EngineOptions, render, run, to_json
from fieldfare.bench.floor import writing_limit_pairs_per_second
from fieldfare.bench.measuring import BenchVerificationError, verify, verify_counts
from fieldfare.bench.numpy_peer import NumpyEngine
from fieldfare.bench.ours import OurEngine
from fieldfare.bench.peers import Peer
from fieldfare.bench.results import EngineResult, Ours, PeerSpeed, compact
from fieldfare.bench.workload import Size, Workload
from fieldfare.bench.workloads import generate
from fieldfare.errors import InputError


def quiet(_: str) -> None:
    """Report nothing."""


def tiny(name: str, **others: Any) -> EngineOptions:
    return EngineOptions(workloads=(name,), subscriptions=400, events=300, seconds=0.02, **others)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_is_measured_and_verified(name: str) -> None:
    (result,) = run(tiny(name), quiet)
    boxes = (WORKLOADS[name].sizes[0].width is not None or name == "geo") and name != "geofences"
    special = {"rtree"} if boxes else {"inverted", "tantivy"} if name in {"keywords", "alerts"} else set()
    expected = {"shapely", "h3"} if name == "geofences" else {"numpy", "duckdb", *special}
    assert set(result.peers) == expected
    assert result.workload == name
    assert result.subscriptions == 400
    assert result.ours.events_per_second > 0
    assert result.ours.bytes_per_subscription > 0
    assert (result.ours.conditions_per_second is None) == boxes
    assert (result.ours.changes_per_second is None) == (name != "churn")


def test_the_json_has_the_promised_shape() -> None:
    results = run(tiny("bluedove"), quiet) + run(tiny("sparse", peers=()), quiet)
    with_peers, alone = json.loads(to_json(results))
    for item in (with_peers, alone):
        assert {"workload", "subscriptions", "ours", "peers", "ratio_to_best_peer", "matches_per_event"} <= set(item)
        assert {"events_per_second", "pairs_per_second", "build_seconds", "bytes_per_subscription"} <= set(item["ours"])
        assert item["ours"]["writing_limit_pairs_per_second"] > 0
    assert with_peers["width"] == 250.0
    assert set(with_peers["peers"]) == set(PEERS) - {"inverted", "tantivy", "shapely", "h3"}
    best = max(peer["events_per_second"] for peer in with_peers["peers"].values())
    assert with_peers["ratio_to_best_peer"] == pytest.approx(with_peers["ours"]["events_per_second"] / best)
    assert alone["peers"] == {}
    assert alone["ratio_to_best_peer"] is None
    assert "width" not in alone


def dropping_one(answer: pa.ListArray) -> list[list[int]]:
    lists: list[list[int]] = answer.to_pylist()
    next(ids for ids in lists if ids).pop()
    return lists


def adding_one(answer: pa.ListArray) -> list[list[int]]:
    lists: list[list[int]] = answer.to_pylist()
    lists[0].append(7)
    return lists


def repeating_one(answer: pa.ListArray) -> list[list[int]]:
    lists: list[list[int]] = answer.to_pylist()
    first = next(ids for ids in lists if ids)
    first.append(first[0])
    return lists


def exchanging_one(answer: pa.ListArray) -> list[list[int]]:
    lists: list[list[int]] = answer.to_pylist()
    next(ids for ids in lists if ids)[0] = 7
    return lists


def losing_an_event(answer: pa.ListArray) -> list[list[int]]:
    lists: list[list[int]] = answer.to_pylist()
    return lists[:-1]


@pytest.mark.parametrize("broken", [dropping_one, adding_one, repeating_one, exchanging_one, losing_an_event])
@pytest.mark.parametrize("name", ["bluedove", "feeds"])
def test_a_wrong_index_prints_no_number(name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = OurEngine.match

    def wrong(self: OurEngine, start: int, stop: int) -> pa.ListArray:
        return pa.array(broken(right(self, start, stop)), pa.list_(pa.int64()))

    monkeypatch.setattr(OurEngine, "match", wrong)
    with pytest.raises(BenchVerificationError, match="fieldfare is wrong on"):
        run(tiny(name, peers=()), quiet)


def test_an_index_that_forgets_a_change_prints_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    right = OurEngine.change

    def forgetful(self: OurEngine, added: slice, removed: slice) -> None:
        right(self, slice(added.start + 1, added.stop), removed)

    monkeypatch.setattr(OurEngine, "change", forgetful)
    with pytest.raises(BenchVerificationError):
        run(tiny("churn", peers=(), width=900.0), quiet)


class WrongLater(NumpyEngine):
    """Right on the events that are verified, and wrong by one match in every other batch."""

    def match(self, start: int, stop: int) -> list[npt.NDArray[np.int64]]:
        answer = super().match(start, stop)
        if (start, stop) != (0, VERIFIED_EVENTS_OF_PEERS):
            answer[-1] = np.append(answer[-1], 7)
        return answer


class WrongPeer(Peer):
    def build(self, workload: Workload, live: int) -> WrongLater:
        return WrongLater(workload, live)


def test_a_peer_whose_counts_differ_prints_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "wrong", WrongPeer("wrong later", "", "Wrong"))
    with pytest.raises(BenchVerificationError, match="where another engine finds"):
        run(tiny("bluedove", peers=("wrong",)), quiet)


def test_counts_are_compared_only_where_both_measured() -> None:
    ours, theirs = np.array([3, -1, 5, 4]), np.array([3, 9, -1, 4])
    verify_counts("peer", "bluedove", theirs, ours)
    with pytest.raises(BenchVerificationError, match="event 3"):
        verify_counts("peer", "bluedove", theirs + (theirs == 4), ours)


def test_the_verification_error_names_the_engine_and_survives_pickling() -> None:
    workload = generate("bluedove", Size(400, 900.0, 20), 1)
    wrong = OurEngine(workload, 399)
    with pytest.raises(BenchVerificationError) as caught:
        verify(wrong, workload, 20)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 (our own bytes)
    assert isinstance(again, BenchVerificationError)
    assert (again.engine, again.workload, str(again)) == ("fieldfare", "bluedove", str(caught.value))


@pytest.mark.parametrize(
    "wrong",
    [
        {"workloads": ("x",)},
        {"peers": ("x",)},
        {"subscriptions": 0},
        {"width": -1.0},
        {"width": 1001.0},
        {"seconds": 0.0},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        EngineOptions(**wrong)


def test_a_missing_peer_is_recorded_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "absent", Peer("not there", "fieldfare_no_such_module", "Engine"))
    (result,) = run(tiny("bluedove", peers=("absent",)), quiet)
    assert "fieldfare[bench]" in str(result.peers["absent"].skipped)
    assert result.ratio_to_best_peer is None
    assert json.loads(to_json([result]))[0]["peers"]["absent"]["events_per_second"] is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be chosen here")
def test_the_run_stays_on_one_core_and_gives_the_others_back() -> None:
    before = os.sched_getaffinity(0)
    seen = []
    run(tiny("bluedove", peers=()), lambda _: seen.append(len(os.sched_getaffinity(0))))
    assert set(seen) == {1}
    assert os.sched_getaffinity(0) == before


def test_the_table_fits_120_columns() -> None:
    ours = Ours(1_234_567.0, 123_456_789.0, 12.34, 123.4, 2_345_678_901.0)
    peers = {name: PeerSpeed(12_345.6, 1.0) for name in PEERS} | {"rtree": PeerSpeed(skipped="not installed")}
    output = io.StringIO()
    console = Console(width=120, file=output)
    console.print(render([EngineResult("bluedove", 4_000_000, 250.0, 1_562.5, ours, peers)]))
    text = output.getvalue()
    assert "…" not in text
    for cell in ("bluedove 250", "4,000,000", "1,562.5", "1.23M", "123M", "5%", "12.3k", "skipped", "100.0"):
        assert cell in text, cell


def test_numbers_are_compact() -> None:
    numbers = [0.5, 12.0, 999.6, 1_234.0, 999_999.0, 1.5e9]
    assert [compact(number) for number in numbers] == ["0.5", "12", "1k", "1.23k", "1M", "1.5G"]


def test_the_writing_limit_copes_with_lists_that_are_empty_or_hold_everything() -> None:
    ids = np.arange(100)
    rng = np.random.default_rng(1)
    assert writing_limit_pairs_per_second(ids, np.array([100, 0, 100]), rng) > 0
    assert writing_limit_pairs_per_second(ids, np.array([0, 0]), rng) == 0
