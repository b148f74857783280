"""The history of a run, as publishers and subscribers know it, and the law that the output is held against.

An event that was appended stands in the output exactly once. Its list holds every subscription that it satisfies, that
was acknowledged before it was appended and whose end had not begun when its batch was committed; and none that does
not match, had ended before it was appended, or had not begun when its batch was committed. What lies between is maybe.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds

NEVER = float("inf")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Append:
    """A file of events, and when it was appended."""

    name: str
    first: int  # of its event ids, which are dense
    points: Floats  # a row for each event: x and y
    at_seconds: float


@dataclass
class Subscription:
    """A box of x and y, and when what was done with it; a moment that never came is far away."""

    box: tuple[float, float, float, float]  # x from, x below, y from, y below
    begun: float = NEVER
    acked: float = NEVER
    end_begun: float = NEVER
    end_acked: float = NEVER

    @property
    def condition(self) -> str:
        low_x, high_x, low_y, high_y = self.box
        return f"x >= {low_x!r} AND x < {high_x!r} AND y >= {low_y!r} AND y < {high_y!r}"


@dataclass
class History:
    """What was done; each list is added to by one thread. The place of a subscription is its id."""

    appends: list[Append] = field(default_factory=list)
    poison: list[str] = field(default_factory=list)  # places of events that cannot be read
    subscriptions: list[Subscription] = field(default_factory=list)
    changes: int = 0  # of subscriptions, that were acknowledged

    @property
    def events(self) -> int:
        return self.appends[-1].first + len(self.appends[-1].points) if self.appends else 0


@dataclass(frozen=True)
class Verdict:
    """What is wrong with an output, and how long events waited for it."""

    lost: list[int]
    duplicated: list[int]
    unexpected: list[int]
    missing_pairs: list[tuple[int, int]]  # an event and a subscription
    extra_pairs: list[tuple[int, int]]
    repeated_pairs: int
    poison_differs: list[str]
    appended_at: Floats = field(repr=False)
    latency_seconds: Floats = field(repr=False)
    pairs: int = field(repr=False)

    @property
    def is_sound(self) -> bool:
        """What is there is right, so far."""
        pairs = [*self.missing_pairs, *self.extra_pairs]
        return not (self.duplicated or self.unexpected or pairs or self.repeated_pairs)

    @property
    def is_clean(self) -> bool:
        """All is there, and right."""
        return self.is_sound and not (self.lost or self.poison_differs)

    def latency(self, start: float, end: float) -> float:
        """The median, of the events that were appended in this time."""
        return float(np.median(self.latency_seconds[(self.appended_at >= start) & (self.appended_at < end)]))

    def rise(self, fault: str, start: float, end: float, usual: float) -> str:
        """For how long after a fault events were appended that waited twice as long as usual."""
        committed_at = self.appended_at + self.latency_seconds
        these = (committed_at > start) & (committed_at <= end)
        late = self.appended_at[these & (self.latency_seconds > 2 * usual)]
        seconds = max(0.0, late.max(initial=start) - start)
        highest = self.latency_seconds[these].max(initial=0.0)
        return f"{fault}: latency rose for {seconds:.1f} s, to {highest:.1f} s at most"


def check(history: History, output: Path) -> Verdict:
    """Hold an output, read as any Parquet table, against a history."""
    table = ds.dataset(output, partitioning="hive").to_table(columns=["event_id", "subscription_ids", "batch_id"])
    table = table.combine_chunks()
    ids = table["event_id"].to_numpy()
    counts = Counter(ids.tolist())
    appended = set(range(history.events))
    commits = {commit.batch: commit.at_seconds for commit in map(_commit, output.glob("batch_id=*"))}
    subscriptions = _Subscriptions.of(history.subscriptions)
    missing: list[tuple[int, int]] = []
    extra: list[tuple[int, int]] = []
    repeated = pairs = 0
    first_row = {event: row for row, event in reversed(list(enumerate(ids.tolist())))}
    waited: list[tuple[float, float]] = []
    for append in history.appends:
        events = [event for event in range(append.first, append.first + len(append.points)) if event in first_row]
        if not events:
            continue
        rows = table.take(pa.array([first_row[event] for event in events]))
        found = _membership(rows["subscription_ids"].combine_chunks(), len(history.subscriptions))
        matches = subscriptions.contain(append.points[np.array(events) - append.first])
        committed = np.array([commits[batch] for batch in rows["batch_id"].to_pylist()])
        waited += [(append.at_seconds, moment - append.at_seconds) for moment in committed.tolist()]
        must = matches & subscriptions.must(append.at_seconds, committed)
        may = matches & subscriptions.may(append.at_seconds, committed)
        missing += [(events[row], int(sub)) for row, sub in np.argwhere(must & (found == 0))]
        extra += [(events[row], int(sub)) for row, sub in np.argwhere((found > 0) & ~may)]
        repeated += int((found > 1).sum())
        pairs += int(found.sum())
    times = np.array(waited).reshape(-1, 2)
    return Verdict(
        lost=sorted(appended - set(counts)),
        duplicated=sorted(event for event, count in counts.items() if count > 1),
        unexpected=sorted(set(counts) - appended),
        missing_pairs=missing,
        extra_pairs=extra,
        repeated_pairs=repeated,
        poison_differs=_differences(history.poison, quarantined(output)),
        appended_at=times[:, 0],
        latency_seconds=times[:, 1],
        pairs=pairs,
    )


def quarantined(output: Path) -> list[str]:
    """The places of the events in quarantine."""
    files = output.glob("batch_id=*/_quarantine.jsonl")
    faults = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert all(fault["reason"] for fault in faults)
    return [fault["place"] for fault in faults]


def committed_events(output: Path) -> int:
    """How many events stand in the output, or in quarantine."""
    return sum(commit.events for commit in map(_commit, output.glob("batch_id=*")))


@dataclass(frozen=True)
class _Commit:
    batch: int
    events: int
    at_seconds: float


@cache
def _commit(folder: Path) -> _Commit:
    """What a batch says of itself. It is asked as soon as it is seen: all of it has to be there from then on."""
    record = json.loads((folder / "_commit.json").read_bytes())
    assert {file["path"] for file in record["files"]} == {file.name for file in folder.glob("*.parquet")}
    at = datetime.fromisoformat(record["committed_at"]).timestamp()
    return _Commit(record["batch_id"], record["rows"] + record["quarantined"], at)


def _differences(wanted: list[str], found: list[str]) -> list[str]:
    counts = Counter(wanted)
    counts.subtract(found)
    return sorted(place for place, count in counts.items() if count)


def _membership(lists: pa.ListArray, subscriptions: int) -> npt.NDArray[np.int64]:
    """How often each subscription stands in each list."""
    rows = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
    found = np.zeros((len(lists), subscriptions), np.int64)
    np.add.at(found, (rows, lists.flatten().to_numpy()), 1)
    return found


@dataclass(frozen=True)
class _Subscriptions:
    """All subscriptions, as columns."""

    boxes: Floats
    begun: Floats
    acked: Floats
    end_begun: Floats
    end_acked: Floats

    @staticmethod
    def of(subscriptions: list[Subscription]) -> _Subscriptions:
        times = np.array([(s.begun, s.acked, s.end_begun, s.end_acked) for s in subscriptions])
        return _Subscriptions(np.array([s.box for s in subscriptions]), *times.T)

    def contain(self, points: Floats) -> npt.NDArray[np.bool_]:
        x, y = points[:, :1], points[:, 1:]
        low_x, high_x, low_y, high_y = self.boxes.T
        inside: npt.NDArray[np.bool_] = (x >= low_x) & (x < high_x) & (y >= low_y) & (y < high_y)
        return inside

    def must(self, appended: float, committed: Floats) -> npt.NDArray[np.bool_]:
        return (self.acked < appended) & (self.end_begun > committed[:, None])

    def may(self, appended: float, committed: Floats) -> npt.NDArray[np.bool_]:
        return (self.begun < committed[:, None]) & (self.end_acked > appended)
