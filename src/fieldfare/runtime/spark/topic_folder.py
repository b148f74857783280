"""The files of one topic: writes events for the pipeline, reads what it matched, and removes both when done."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from fieldfare.durable import NewFile
from fieldfare.messages import MatchedEvent
from fieldfare.runtime.pipeline_status import WaitingFile
from fieldfare.runtime.spark.event_lines import EVENT, MARK, Carried, Columns, EventRows
from fieldfare.runtime.spark.pipeline_subscriptions import subscription_of
from fieldfare.store.outputs import SUBSCRIPTION_IDS, batch_folder, read_commit

_file_name = re.compile(r"(\d{20})\.jsonl", re.ASCII)
_REMOVED = "_removed-"
_CHUNK_BYTES = 1024 * 1024
_carried = msgspec.json.Decoder(Carried)


class _Description(msgspec.Struct, frozen=True):
    tenant: str
    topic: str
    columns: dict[str, str] = {}


class PipelineBatch(NamedTuple):
    """A committed batch: its events for the edge, in the order in which they were handed over, and its marks."""

    events: list[MatchedEvent]
    marks: list[str]
    quarantined: int


class TopicFolder:
    """The folder of a topic. Its name is a hash: names of tenants and topics may not suit a file system."""

    def __init__(self, root: Path, tenant: str, topic: str) -> None:
        self.path = root.absolute() / sha256(f"{tenant}\0{topic}".encode()).hexdigest()[:32]
        self.events, self.output = self.path / "events", self.path / "output"
        self.checkpoint = self.path / "checkpoint"
        self._description = self.path / "topic.json"
        self._tenant, self._topic = tenant, topic
        self._last_number = 0
        self._numbering = threading.Lock()

    def open(self) -> dict[str, str]:
        """Make the folders, if they are not there; the columns that were learned."""
        for folder in (self.events, self.output):
            folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.events.glob(".*.partial"):
            leftover.unlink()
        for leftover in self.output.glob(f"{_REMOVED}*"):
            shutil.rmtree(leftover)
        names = (_file_name.fullmatch(entry.name) for entry in self.events.iterdir())
        self._last_number = max((int(name[1]) for name in names if name), default=0)
        if not self._description.exists():
            self.save({})
        return msgspec.json.decode(self._description.read_bytes(), type=_Description).columns

    def waiting(self) -> dict[str, WaitingFile]:
        """The files that are there, by their marks. Those whose batch is committed are removed soon."""
        found = {}
        for path in self.events.glob("*.jsonl"):
            with suppress(OSError), path.open("rb") as file:
                events = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(_CHUNK_BYTES), b"")) - 1
                if events > 0:  # the last line is the mark
                    found[path.name] = WaitingFile(events, path.stat().st_mtime)
        return found

    def save(self, columns: Mapping[str, str]) -> None:
        """Remember columns, durably."""
        _write(self._description, [msgspec.json.encode(_Description(self._tenant, self._topic, dict(columns)))])

    def write(self, publications: Sequence[EventRows], columns: Columns) -> str:
        """Hand events over: a file that is there whole and durably when this returns. Its name is its mark."""
        # Files are read in the order of their times, and then of their names: both grow, though the clock may not.
        with self._numbering:
            self._last_number = number = max(time.time_ns(), self._last_number + 1)
        path = self.events / f"{number:020d}.jsonl"
        try:
            _write(path, columns.lines(number, publications, path.name), time_ns=number)
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)  # it is not known to be durable, so it is not handed over
            raise
        return path.name

    def read(self, batch_id: int) -> PipelineBatch:
        """What the pipeline committed."""
        commit = read_commit(self.output, batch_id)
        table = commit.table([EVENT, MARK, SUBSCRIPTION_IDS])
        if not table.num_rows:
            return PipelineBatch([], [], commit.quarantined)
        texts, marks, ids = (table.column(name).to_pylist() for name in (EVENT, MARK, SUBSCRIPTION_IDS))
        found = [
            (_carried.decode(text), [subscription_of(self._tenant, key) for key in keys])
            for text, keys in zip(texts, ids, strict=True)
            if text is not None
        ]
        found.sort(key=lambda item: (item[0].file, item[0].row))
        events = [
            MatchedEvent(event.id, event.publisher, event.at, event.event, keys, event.beside) for event, keys in found
        ]
        return PipelineBatch(events, [mark for mark in marks if mark is not None], commit.quarantined)

    def remove(self, batch_id: int, marks: Iterable[str]) -> None:
        """Remove a batch, and the files whose last events it had. What could not be matched stays, with the reason."""
        for mark in marks:
            if _file_name.fullmatch(mark):
                (self.events / mark).unlink(missing_ok=True)
        if not read_commit(self.output, batch_id).quarantined:
            hidden = self.output / f"{_REMOVED}{batch_id}"  # first: half a batch must not be seen
            shutil.rmtree(batch_folder(self.output, batch_id).rename(hidden))


def _write(path: Path, content: Iterable[bytes], time_ns: int | None = None) -> None:
    """Write a file that appears whole, and durably."""
    with NewFile(path) as file:
        file.writelines(content)
        if time_ns is not None:
            file.flush()
            os.utime(file.fileno(), ns=(time_ns, time_ns))
