from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.installing import install_in_ci

from fieldfare.bench.broker import servers, workers
from fieldfare.bench.broker.connections import Take, connect_by_wire
from fieldfare.bench.broker.fieldfare_wire import FieldfareWire
from fieldfare.bench.broker.load import ReceivedEvent, Wanted, make_load
from fieldfare.bench.broker.servers import Program, ServerError, started
from fieldfare.bench.broker.wires import WireError
from fieldfare.bench.broker.workers import AwaitSubscriptions, Publisher, ReceiptCounter, Site
from fieldfare.bench.overlay import acknowledging, nats_system
from fieldfare.bench.overlay.link_bytes import connection_bytes
from fieldfare.bench.overlay.results import Result, Speed, aims, render, to_json
from fieldfare.bench.overlay.scenarios import OverlayBenchOptions, run
from fieldfare.errors import InputError, MissingDependencyError

EVENT_BYTES_MIN = 50


@pytest.fixture(scope="module")
def measured() -> list[str]:
    """The systems that are installed; on a machine that only tests, NATS is installed first, if that is permitted."""
    install_in_ci("nats-server")
    return ["fieldfare", *(["nats"] if servers.installed("nats-server") else []), "zenoh"]


@pytest.mark.parametrize(
    ("scenario", "edges", "systems"),
    [("selective", (1, 2), ("fieldfare", "nats", "zenoh")), ("everything", (2,), ("fieldfare",))],
)
def test_a_quick_run_counts_every_delivery_of_every_system(
    scenario: str, edges: tuple[int, ...], systems: tuple[str, ...], measured: list[str]
) -> None:
    arguments = [argument for name in systems for argument in ("--system", name)]
    arguments += [argument for count in edges for argument in ("--edges", str(count))]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "fieldfare",
            "bench",
            "overlay",
            "--quick",
            "--json",
            "--scenario",
            scenario,
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert [(result["scenario"], result["edges"]) for result in answer["scenarios"]] == [
        (scenario, count) for count in edges
    ]
    assert answer["aims"] == []  # they are stated for full sizes
    for result in answer["scenarios"]:
        speeds = result["speeds"]
        found = [name for name, speed in speeds.items() if "skipped" not in speed]
        assert found == [name for name in measured if name in systems]
        for speed in (speeds[name] for name in found):
            assert speed["events_per_second"] > 0
            assert speed["deliveries_per_second"] > 0
            assert speed["latency_p99_ms"] >= speed["latency_p50_ms"] > 0
            _check_links(result["edges"], speed)


def _check_links(edges: int, speed: dict[str, float]) -> None:
    """Nothing leaves the only edge; what is wanted at another one goes to the hub, and from there."""
    assert ("added_p50_ms" in speed) == (edges > 1)
    if sys.platform == "linux":
        assert speed["brokers_cpu_us_per_event"] >= 0
        bytes_per_event = speed["link_bytes_per_event"]
        assert bytes_per_event > 2 * EVENT_BYTES_MIN if edges > 1 else bytes_per_event < EVENT_BYTES_MIN / 2


@pytest.mark.parametrize("name", ["nats", "zenoh"])
def test_a_peer_that_is_not_installed_is_reported_with_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "installed", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (result,) = run(OverlayBenchOptions(("few",), (name,), (2,), is_quick=True), lambda _: None)
    assert "install" in (result.speeds[name].skipped or "")


def test_a_missing_program_is_found_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "installed", lambda _: None)
    with pytest.raises(MissingDependencyError), nats_system.NATS.start(2, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


_LISTENER = (
    "import os, socket, time; s = socket.create_server(('127.0.0.1', 0)); "
    "print(os.getpid(), 'ready at http://127.0.0.1:%d' % s.getsockname()[1], flush=True); time.sleep(60)"
)


def test_when_one_of_several_programs_does_not_start_none_is_left_behind(tmp_path: Path) -> None:
    log = tmp_path / "good.log"
    good = Program([sys.executable, "-c", _LISTENER], 0, log)
    bad = Program([sys.executable, "-c", "raise SystemExit('no such thing')"], 0, tmp_path / "bad.log")
    with pytest.raises(ServerError, match="no such thing"), started([good, bad]):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[0]), 0)


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else tells")
def test_the_bytes_of_a_ports_connections_are_counted_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert connection_bytes(port) == 0
        with socket.create_connection(("127.0.0.1", port)) as client, listener.accept()[0] as served:
            client.sendall(b"a" * 1000)
            served.sendall(b"b" * 77)
            assert len(served.recv(1000, socket.MSG_WAITALL)) == 1000
            assert len(client.recv(77, socket.MSG_WAITALL)) == 77
            assert connection_bytes(port) == 1077


@given(subscribers=st.integers(1, 12), share=st.sampled_from([0.01, 0.2, 1.0]))
def test_a_few_events_reach_every_connection_that_any_event_reaches(subscribers: int, share: float) -> None:
    load = make_load(subscribers, subscribers, share, pool_events=60)
    numbers, connections = load.reaching_all()
    reached = [
        connection
        for number in numbers
        for event, connection in zip(load.matched_events, load.matched_connections, strict=True)
        if event == number
    ]
    assert set(reached) == set(load.matched_connections.tolist())
    assert len(set(reached)) == connections
    assert len(numbers) <= subscribers


class _Late:
    """A connection to brokers that lose the first publications, for they do not know of some subscriptions yet."""

    def __init__(self, counters: Any, reached: Sequence[int]) -> None:
        self.failure: Exception | None = None
        self._counters = counters
        self._reached = list(reached)  # by each publication, for the first time; the last one goes on
        self.publications = 0

    def publish(self, events: Sequence[bytes]) -> None:
        self.publications += 1
        assert events
        self._counters[0] += self._reached.pop(0) if len(self._reached) > 1 else self._reached[0]

    def close(self) -> None:
        pass


def _await_subscriptions(reached: Callable[[int], Sequence[int]]) -> int:
    """How many publications it took, where each reaches some connections for the first time."""
    load = make_load(5, 5, 0.2, pool_events=100)
    counters = np.zeros(1, np.int64)
    connection = _Late(counters, reached(load.reaching_all()[1]))

    async def connect(_host: str, _port: int, _squares: Sequence[Wanted], _take: Take) -> _Late:
        return connection

    async def wait() -> None:
        publisher = Publisher(Site("", (1,), connect, load, counters))
        await publisher.open()
        await publisher.serve(AwaitSubscriptions())

    asyncio.run(wait())
    return connection.publications


def test_nothing_is_measured_before_every_subscription_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "QUIET_SECONDS", 0.01)
    assert _await_subscriptions(lambda missing: [missing]) == 1
    assert _await_subscriptions(lambda missing: [0, missing - 1, 1]) == 3
    monkeypatch.setattr(workers, "SUBSCRIPTIONS_SECONDS_MAX", 0.05)
    with pytest.raises(WireError, match="in force"):
        _await_subscriptions(lambda missing: [missing - 1, 0])


def test_probes_that_come_late_are_not_counted() -> None:
    counters = np.zeros(1, np.int64)
    connect = partial(connect_by_wire, partial(FieldfareWire, is_durable=False))
    take = ReceiptCounter(Site("", (1,), connect, make_load(1, 1, 1.0), counters), 0, None)
    probe, event = ReceivedEvent(-5, 0, 1.0, 1.0), ReceivedEvent(7, 0, 1.0, 1.0)
    take([probe, probe])
    assert (counters[0], take.count) == (1, 0)
    take([probe, event])
    assert (counters[0], take.count, take.sum) == (2, 1, 7)


def _results() -> list[Result]:
    ours = Speed(60_000.0, 1.0, 20.0, 5.0, 80.0, 500.0, 30_000.0, 3.0, 8.0, one_edge_p50_ms=2.0)
    nats = Speed(3_000.0, 1.0, 200.0, 300.0, 600.0, 90.0, 1_500.0, 30.0, 90.0, one_edge_p50_ms=2.0)
    zenoh = Speed(skipped="not installed")
    speeds = {"fieldfare": ours, "nats": nats, "zenoh": zenoh}
    return [
        Result("selective", "many", 1, 100, 0.001, is_full_size=True, speeds=speeds),
        Result("selective", "many", 2, 100, 0.001, is_full_size=True, speeds=speeds),
        Result("everything", "all", 2, 1, 1.0, is_full_size=True, speeds=speeds),
        Result("selective", "few", 2, 10, 0.1, is_full_size=False, speeds=speeds),
        Result("selective", "peers only", 2, 10, 0.1, is_full_size=True, speeds={"nats": nats}),
    ]


def test_the_aims_are_compared_at_full_size_and_over_two_hops() -> None:
    assert [(aim.measured, aim.ratio) for aim in aims(_results())] == [(20.0, 2.0), (1.0, 2.0), (1.0, 2.0)]


def test_results_are_shown_with_their_ratios() -> None:
    first = json.loads(to_json(_results()))["scenarios"][0]
    assert first["ratios_to_best_peer"] == {"fieldfare": 20.0}
    assert first["cpu_ratios_to_best_peer"] == {"fieldfare": 20.0}
    assert first["speeds"]["zenoh"] == {"skipped": "not installed"}
    tables: list[Any] = list(render(_results()).renderables)
    assert len(tables) == 3
    shown = "".join(str(cell) for table in tables for column in table.columns for cell in column.cells)
    for text in ("not installed", "60k", "20.00", "1.00", "times the best peer"):
        assert text in shown


@pytest.mark.parametrize(
    "wrong",
    [
        {"scenarios": ("none",)},
        {"systems": ("kafka",)},
        {"seconds": 0.0},
        {"edge_counts": (0,)},
        {"edge_counts": (99,)},
    ],
)
def test_senseless_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        OverlayBenchOptions(**wrong)  # type: ignore[arg-type]


def test_acknowledging_is_measured_for_new_and_for_covered_conditions() -> None:
    (result,) = acknowledging.run([2], 3, lambda _: None)
    assert result.edges == 2
    assert min(result.new_p50_ms, result.covered_p50_ms) > 0
    assert json.loads(acknowledging.to_json([result]))[0]["edges"] == 2
