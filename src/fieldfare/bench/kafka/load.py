"""`python -m fieldfare.bench.kafka.load`: sends events at a rate, reads what comes back, prints how long it took."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass

import msgspec
import numpy as np
from confluent_kafka import Producer

from fieldfare.bench.kafka.topics import PARTITIONS, quiet, reader

_STEP_SECONDS = 0.01
_WARM_UP_SECONDS = 10.0  # at a quarter of the rate, and again at all of it; or as long as the measurement, if shorter
_WAIT_SECONDS_MAX = 180.0
_POINTS = 10_000  # events that differ


@dataclass(frozen=True, slots=True)
class Latency:
    """How long events took from produce to consume, at a rate."""

    events_per_second: float
    p50_seconds: float
    p99_seconds: float

    @staticmethod
    def of(waits: Sequence[float], seconds: float) -> Latency:
        """From the waits of all events that were sent in so many seconds."""
        p50, p99 = np.quantile(waits, [0.5, 0.99]).tolist()
        return Latency(len(waits) / seconds, p50, p99)


class _Sent(msgspec.Struct):
    sent: float


class Arrivals:
    """Reads the output in a thread, and notes how long each event took."""

    def __init__(self, address: str, name: str) -> None:
        self._place = address, name
        self._waits: list[float] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        decode = msgspec.json.Decoder(_Sent).decode
        with closing(reader(*self._place)) as client:
            while True:
                messages = client.consume(5_000, timeout=0.01)
                now = time.time()
                waits = [now - decode(message.value()).sent for message in messages if message.error() is None]
                self._waits.extend(waits)

    def of(self, count: int) -> list[float]:
        """The waits of the next events, when so many have come back."""
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while len(self._waits) < count:
            if time.monotonic() > deadline:
                sys.exit(f"{count - len(self._waits):,} of {count:,} events have not come back")
            time.sleep(0.05)
        waits, self._waits = self._waits, []  # nothing is on its way
        return waits


def produce(address: str, name: str, rate: int, seconds: float) -> int:
    """Send events evenly; each says when it was sent. Returns how many."""
    client = Producer({**quiet(address), "linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    points = np.random.default_rng(1).uniform(0.0, 1000.0, (_POINTS, 4)).tolist()
    started, sent = time.time(), 0
    while (now := time.time()) < started + seconds:
        for number in range(sent, int((now - started) * rate)):
            values = (now, number, *points[number % _POINTS])
            event = b'{"sent":%f,"event_id":%d,"a0":%f,"a1":%f,"a2":%f,"a3":%f}' % values
            client.produce(name, event, partition=number % PARTITIONS)
            sent = number + 1
        client.poll(0)
        time.sleep(_STEP_SECONDS)
    client.flush(30)
    return sent


def main(address: str, source: str, target: str, rate: int, seconds: float) -> None:
    """Begin when a first event has come back, warm up, and measure."""
    arrivals = Arrivals(address, target)
    arrivals.of(produce(address, source, 20, 1.0))
    for warm_rate in (max(1, rate // 4), rate):  # two JVMs compile what they run often; until then they are slow
        arrivals.of(produce(address, source, warm_rate, min(_WARM_UP_SECONDS, seconds)))
    waits = arrivals.of(produce(address, source, rate, seconds))
    print(json.dumps(asdict(Latency.of(waits, seconds))))  # noqa: T201 - read by who started it


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
