from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.installing import install_in_ci

from fieldfare.bench.broker import servers
from fieldfare.bench.broker.crew import verify
from fieldfare.bench.broker.fieldfare_wire import FieldfareWire
from fieldfare.bench.broker.load import ReceivedEvent, make_load
from fieldfare.bench.broker.results import RatePoint, Result, Speed, aims, render
from fieldfare.bench.broker.scenarios import BrokerOptions, run
from fieldfare.bench.broker.wires import TOPIC, NatsWire, RedisStreamWire, RedisWire, Wire, WireError
from fieldfare.bench.broker.workers import Received
from fieldfare.bench.measuring import BenchVerificationError
from fieldfare.errors import InputError

PROGRAMS = ("redis-server", "nats-server")


@pytest.fixture(scope="module")
def peers() -> list[str]:
    """The peers that are installed; on a machine that only tests, they are installed first, if that is permitted."""
    install_in_ci(*PROGRAMS)
    return [name for name in servers.PEERS if servers.installed(f"{name}-server")]


def test_a_quick_run_counts_every_delivery_of_every_broker(peers: list[str]) -> None:
    names = ("selective", "durable", "edge-10k", "rates", "idle")
    arguments = [argument for name in names for argument in ("--scenario", name)]
    arguments += ["--rate", "20", "--rate", "50"]
    ended = subprocess.run(
        [sys.executable, "-m", "fieldfare", "bench", "broker", "--quick", "--json", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert [scenario["scenario"] for scenario in result["scenarios"]] == list(names)
    assert result["aims"] == []  # they are stated for full sizes
    for scenario in result["scenarios"]:
        speeds = scenario["speeds"]
        assert set(speeds) == {"fieldfare", "redis", "nats"}
        measured = [name for name, speed in speeds.items() if "skipped" not in speed]
        has_durable = [name for name in peers if scenario["scenario"] != "durable" or name != "nats"]
        assert measured == ["fieldfare", *has_durable]
        if scenario["scenario"] == "idle":
            assert all("bytes_per_connection" in speeds[name] for name in measured)
            continue
        assert all(speeds[name]["deliveries_per_second"] > 0 for name in measured)
        assert all(speeds[name]["cpu_us_per_message"] >= 0 for name in measured)
        if scenario["scenario"] == "rates":
            points = [point for name in measured for point in speeds[name]["points"]]
            assert [point["events_per_second"] for point in points] == [20, 50] * len(measured)
            assert all(point["latency_p99_ms"] >= point["latency_p50_ms"] > 0 for point in points)
        elif scenario["scenario"] != "edge-10k":
            assert all(speeds[name]["latency_p99_ms"] >= speeds[name]["latency_p50_ms"] > 0 for name in measured)


def test_a_peer_that_is_not_installed_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "installed", lambda _: None)
    (result,) = run(BrokerOptions(scenarios=("fan-out",), peers=("nats",), is_quick=True), lambda _: None)
    assert "apt-get install nats-server" in (result.speeds["nats"].skipped or "")
    assert result.speeds["fieldfare"].latency_p50_ms is not None
    assert result.ratio_to_best_peer is None


@given(
    subscriptions=st.integers(1, 30),
    connections=st.integers(1, 7),
    share=st.sampled_from([0.01, 0.3, 1.0]),
    events=st.integers(0, 130),
)
def test_the_load_knows_who_has_to_receive_what(
    subscriptions: int, connections: int, share: float, events: int
) -> None:
    load = make_load(subscriptions, connections, share, pool_events=50)
    pool = [ReceivedEvent(number, 0, x, y) for number, (x, y) in enumerate(load.points.tolist())]
    counts, sums = np.zeros((2, connections), np.int64)
    for number in range(events):
        for connection in range(connections):
            times = sum(len(square.wanted([pool[number % 50]])) for square in load.of(connection))
            counts[connection] += times
            sums[connection] += number * times
    expected_counts, expected_sums = load.expected(events)
    assert expected_counts.tolist() == counts.tolist()
    assert expected_sums.tolist() == sums.tolist()
    assert load.deliveries(events) == counts.sum()


def test_a_lost_and_a_wrong_event_are_found() -> None:
    load = make_load(4, 4, 1.0, pool_events=10)
    counts, sums = (expected.tolist() for expected in load.expected(10))

    def received(process: int, counts: Sequence[int], sums: Sequence[int]) -> Received:
        return Received(list(counts[process::2]), list(sums[process::2]), 0, [], [])

    verify("ours", load, 10, [received(0, counts, sums), received(1, counts, sums)])
    for wrong_counts, wrong_sums in (([10, 9, 10, 10], sums), (counts, [45, 45, 45, 44])):
        parts = [received(process, wrong_counts, wrong_sums) for process in range(2)]
        with pytest.raises(BenchVerificationError, match="1 of 4 connections"):
            verify("ours", load, 10, parts)


EVENTS = [ReceivedEvent(number, 7, number / 4, 2.5) for number in range(9)]
TEXTS = [msgspec.json.encode(event) for event in EVENTS]


def _bulk(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _redis_stream(texts: Iterable[bytes]) -> bytes:
    entries = [b"*2\r\n$3\r\n%d-0\r\n" % number + _bulk(b"e", text) for number, text in enumerate(texts)]
    return b"*1\r\n*2\r\n$5\r\nbench\r\n*%d\r\n" % len(entries) + b"".join(entries)


def _nats(text: bytes) -> bytes:
    return b"MSG bench 1 %d\r\n%b\r\n" % (len(text), text)


def _websocket(text: bytes, header: int = 0x81) -> bytes:
    size = len(text)
    return bytes([header, size]) + text if size < 126 else bytes([header, 126]) + size.to_bytes(2, "big") + text


def _deliver(positions: Iterable[int]) -> bytes:
    deliveries = [{"position": place, "id": "i", "at": 1.5, "event": EVENTS[place]} for place in positions]
    return msgspec.json.encode({"type": "deliver", "subscription": "s", "events": deliveries})


SUBSCRIBED = b'{"type":"subscribed","ref":0,"subscription":"s","position":-1}'
STREAMS: dict[str, tuple[type[Wire] | None, bytes]] = {
    "redis": (
        RedisWire,
        b"*3\r\n$9\r\nsubscribe\r\n$5\r\nbench\r\n:1\r\n" + b"".join(_bulk(b"message", b"bench", t) for t in TEXTS),
    ),
    "nats": (NatsWire, b"INFO {}\r\nPONG\r\n" + b"PING\r\n".join(map(_nats, TEXTS))),
    "fieldfare": (
        None,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
        + _websocket(SUBSCRIBED)
        + _websocket(_deliver(range(2)) + b"\n" + _deliver(range(2, 5)))
        + _websocket(b"", header=0x89)
        + _websocket(_deliver(range(3, 9))),  # two of them for the second time
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@given(data=st.data())
def test_a_wire_reads_the_same_events_however_the_bytes_are_cut(name: str, data: st.DataObject) -> None:
    make, stream = STREAMS[name]
    wire: Wire = FieldfareWire(is_durable=False) if make is None else make()
    wire.greeting(make_load(1, 1, 1.0, pool_events=1).squares)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=12)))
    found: list[ReceivedEvent] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += wire.feed(stream[start:end])
    assert found == EVENTS
    assert wire.is_ready


def test_a_stream_is_read_on_from_the_last_event() -> None:
    wire = RedisStreamWire()
    wire.greeting(make_load(1, 1, 1.0, pool_events=1).squares)
    answer = b"+PONG\r\n" + _redis_stream(TEXTS[:4])
    assert wire.feed(answer[:-20]) == []
    assert wire.feed(answer[-20:]) == EVENTS[:4]
    assert wire.reply.endswith(_bulk(b"STREAMS", TOPIC.encode(), b"3-0")[4:])
    assert wire.feed(_redis_stream(TEXTS[4:])) == EVENTS[4:]


@pytest.mark.parametrize(
    ("wire", "answer"),
    [
        (RedisWire(), b"-ERR no\r\n"),
        (NatsWire(), b"INFO {}\r\n-ERR 'no'\r\n"),
        (FieldfareWire(is_durable=True), b"HTTP/1.1 403 no\r\n\r\n"),
    ],
)
def test_a_refusal_ends_the_run(wire: Wire, answer: bytes) -> None:
    wire.greeting([])
    with pytest.raises(WireError, match="no"):
        wire.feed(answer)


FAN_OUT_MS = {"fieldfare": 12.0, "redis": 6.0, "nats": 5.0}


def test_the_aims_are_compared_at_full_size() -> None:
    speeds = {
        "fieldfare": Speed(30_000.0, latency_p99_ms=5.0),
        "redis": Speed(1_500.0),
        "nats": Speed(skipped="no equal"),
    }
    points = tuple(RatePoint(rate, 1.0, 5.0, 26.0, 0.5, 0.5) for rate in (300.0, 2_000.0, 4_000.0, 8_000.0))
    at_rates = {"fieldfare": Speed(9_000.0, points=points), "redis": Speed(350.0)}
    fan_out = {name: Speed(latency_p50_ms=ms) for name, ms in FAN_OUT_MS.items()}
    results = [
        Result("selective", "many", 1_000, 1_000, 0.01, speeds),
        Result("one-core", "more", 100_000, 100, 1e-5, {"fieldfare": Speed(40_000.0)}),
        Result("rates", "many", 1_000, 1_000, 0.01, at_rates),
        Result("fan-out", "all", 1_000, 1_000, 1.0, fan_out),
        Result("idle", "none", 10_000, 10_000, 1e-3, {"fieldfare": Speed(bytes_per_connection=5_000.0)}),
        Result("idle", "small", 200, 200, 0.05, {"fieldfare": Speed(bytes_per_connection=5_000.0)}),
    ]
    assert [(aim.measured, aim.ratio) for aim in aims(results)] == [
        (20.0, 2.0),
        (5.0, 2.0),
        (40_000.0, 0.5),
        (26.0, 0.5),
        (5.0, 2.0),
        (5.0, 12.0),
        (2.4, 0.5),
        (5.0, 4.0),
    ]
    tables: list[Any] = list(render(results).renderables)
    assert len(tables) == 4
    shown = "".join(str(cell) for table in tables for column in table.columns for cell in column.cells)
    for text in ("no equal", "1.0 / 5.0", "at most 350 events/s", "5.00"):
        assert text in shown


@pytest.mark.parametrize(
    "wrong", [{"scenarios": ("none",)}, {"peers": ("kafka",)}, {"seconds": 0.0}, {"rates": (300.0, 0.0)}]
)
def test_senseless_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        BrokerOptions(**wrong)  # type: ignore[arg-type]
