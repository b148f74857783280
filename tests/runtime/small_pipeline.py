"""A pipeline without Spark: it reads what a bridge hands over, matches it, and commits as the real one does."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pyarrow as pa

from fieldfare import Index
from fieldfare.pipeline.output import EventWriter, OutputFolder, WriteOptions
from fieldfare.pipeline.reports import BadEvent
from fieldfare.runtime.spark.event_lines import EVENT, MARK
from fieldfare.runtime.spark.topic_folder import TopicFolder
from fieldfare.store import open_store


class SmallPipeline:
    def __init__(self, root: Path, tenant: str, topic: str) -> None:
        self.folder = TopicFolder(root, tenant, topic)
        self._store = root / "subscriptions.db"
        self._scope = tenant, topic
        self._output = OutputFolder(self.folder.output, uuid.uuid4().hex)
        self._output.prepare()
        self._seen: set[str] = set()
        self._next_batch = 0

    def step(self, *, faults: int = 0, is_reversed: bool = False) -> None:
        """Match all files that are new, as one batch; the pipeline's tasks end in any order."""
        files = [path for path in self.folder.events.glob("*.jsonl") if path.name not in self._seen]
        files.sort(key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=is_reversed)
        self._seen |= {path.name for path in files}
        rows = [msgspec.json.decode(line) for path in files for line in path.read_bytes().splitlines()]
        rows = rows[::-1] if is_reversed else rows
        tenant, topic = self._scope
        with open_store(self._store) as store:
            index = Index(store.active(tenant=tenant, topic=topic).table.select(["subscription_id", "condition"]))
        events = pa.record_batch(
            {name: pa.array([row.get(name) for row in rows], pa.string()) for name in (EVENT, MARK)}
        )
        with EventWriter(
            self._output.stage(self._next_batch), WriteOptions(only_matched=True, string_ids=True)
        ) as writer:
            writer.write(events, index.match_rows(rows))
            written = writer.close()
        quarantine = [BadEvent("somewhere", "for a reason", "{")] * faults
        self._output.commit(self._next_batch, [written] if written else [], quarantine)
        self._next_batch += 1
