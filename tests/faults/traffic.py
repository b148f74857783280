"""What goes on while faults happen: a publisher appends events, and subscribers come and go, both writing a history."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.faults.history import NEVER, Append, Floats, History, Subscription

from fieldfare.errors import StoreUnavailableError
from fieldfare.store.subscription_store import SubscriptionStore, open_store

LASTING = 2_000  # subscriptions from the start
_EVENTS_PER_FILE = 40
_FILE_SECONDS = 0.1
_CHANGES_AT_ONCE = 100  # so many begin, some for a lifetime, and so many of the others end
_MORTAL_SHARE = 5  # one in so many
_CHANGE_SECONDS = 0.4
_LIFETIME_SECONDS = 4.0
_SIDE = 100.0


@dataclass
class Traffic:
    """Publisher and subscribers of one pipeline, in threads of their own."""

    folder: Path
    history: History
    suffix: str = "parquet"

    @property
    def store(self) -> Path:
        return self.folder / "subscriptions.db"

    @property
    def events(self) -> Path:
        return self.folder / "in"

    def prepare(self) -> None:
        """Subscriptions and events for the pipeline to begin with."""
        self._rng = random.Random(7)
        self._stopping = threading.Event()
        self.events.mkdir()
        with open_store(self.store) as store:
            self._subscribe(store, LASTING, None)
        self.append()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Events and changes come for as long as this lasts, or until they are stopped."""
        with open_store(self.store, timeout_seconds=0.2) as store, ThreadPoolExecutor(2) as threads:
            self._threads = [
                threads.submit(self._repeat, self.append, _FILE_SECONDS),
                threads.submit(self._repeat, lambda: self._change(store), _CHANGE_SECONDS),
            ]
            try:
                yield
            finally:
                self.stop()

    def stop(self) -> None:
        """No more of it. An error in a thread is raised here."""
        self._stopping.set()
        for thread in self._threads:
            thread.result()

    def _repeat(self, step: Callable[[], None], seconds: float) -> None:
        while not self._stopping.wait(seconds):
            step()

    def append(self) -> None:
        """Append a file of new events."""
        first = self.history.events
        rng = np.random.default_rng(first)
        points = rng.uniform(0, _SIDE, (_EVENTS_PER_FILE, 2))
        name = f"{first:09}.{self.suffix}"
        self._write(self.events / f".{name}", first, points)
        self.history.appends.append(Append(name, first, points, time.time()))
        (self.events / f".{name}").rename(self.events / name)

    def append_poison(self) -> None:
        """Append what cannot be read: a Parquet file that lacks its end, or lines that are no events."""
        name = f"poison-{len(self.history.poison)}.{self.suffix}"
        hidden = self.events / f".{name}"
        if self.suffix == "parquet":
            self._write(hidden, 0, np.zeros((100, 2)))
            hidden.write_bytes(hidden.read_bytes()[:-100])
            self.history.poison.append(name)
        else:
            hidden.write_bytes(b'{"event_id": 1, "x"\n\xff\xfe\n{"event_id": "many", "x": 1.0, "y": 2.0}\n')
            self.history.poison += [f"{name}:{line}" for line in (1, 2, 3)]
        hidden.rename(self.events / name)

    def _write(self, path: Path, first: int, points: Floats) -> None:
        ids = np.arange(first, first + len(points))
        if self.suffix == "parquet":
            pq.write_table(pa.table({"event_id": ids, "x": points[:, 0], "y": points[:, 1]}), path)
        else:
            rows = zip(ids.tolist(), *points.T.tolist(), strict=True)
            path.write_text("".join(json.dumps({"event_id": n, "x": x, "y": y}) + "\n" for n, x, y in rows))

    def _change(self, store: SubscriptionStore) -> None:
        """Some begin, most of them for good and some for a lifetime, and others end."""
        mortal = _CHANGES_AT_ONCE // _MORTAL_SHARE
        self._subscribe(store, mortal, _LIFETIME_SECONDS)
        self._subscribe(store, _CHANGES_AT_ONCE - mortal, None)
        lasting = [number for number, known in enumerate(self.history.subscriptions) if known.end_begun == NEVER]
        self._unsubscribe(store, self._rng.sample(lasting, _CHANGES_AT_ONCE - mortal))

    def _subscribe(self, store: SubscriptionStore, count: int, lifetime_seconds: float | None) -> None:
        known = self.history.subscriptions
        new = [self._box() for _ in range(count)]
        conditions = {len(known) + place: subscription.condition for place, subscription in enumerate(new)}
        begun = time.time()
        for subscription in new:
            subscription.begun = begun
            if lifetime_seconds is not None:
                subscription.end_begun = subscription.end_acked = begun + lifetime_seconds
        known += new

        def add() -> None:
            store.add(conditions, now_seconds=begun, lifetime_seconds=lifetime_seconds, replace=True)

        _insisting(add)
        acked = time.time()
        for subscription in new:
            subscription.acked = acked
        self.history.changes += count

    def _unsubscribe(self, store: SubscriptionStore, numbers: list[int]) -> None:
        ending = [self.history.subscriptions[number] for number in numbers]
        begun = time.time()
        for subscription in ending:
            subscription.end_begun = begun

        def remove() -> None:
            store.remove(numbers)

        _insisting(remove)
        acked = time.time()
        for subscription in ending:
            subscription.end_acked = acked
        self.history.changes += len(numbers)

    def _box(self) -> Subscription:
        low_x, low_y = (self._rng.uniform(0, _SIDE) for _ in range(2))
        wide, high = (self._rng.uniform(5, 20) for _ in range(2))
        return Subscription((low_x, low_x + wide, low_y, low_y + high))


def _insisting(change: Callable[[], None]) -> None:
    """Make a change, however long the store is away."""
    while True:
        try:
            return change()
        except StoreUnavailableError:
            time.sleep(0.1)
