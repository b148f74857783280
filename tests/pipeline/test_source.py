from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from fieldfare.errors import InputError
from fieldfare.files.formats import Format
from fieldfare.pipeline.source import FolderSource, stream_folder

SCHEMA = "id BIGINT, price DOUBLE"


class Feed:
    """A folder that events are put into, and the batches that came out of it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder / "events"
        self.checkpoint = folder / "checkpoint"
        self.folder.mkdir()
        self.batches: dict[int, list[Row]] = {}
        self.clock = 1_700_000_000

    def put(self, name: str, ids: list[int] | bytes) -> None:
        """A new file, a second younger than the one before."""
        partial = self.folder / f".{name}"
        if isinstance(ids, bytes):
            partial.write_bytes(ids)
        elif name.endswith(".parquet"):
            pq.write_table(pa.table({"id": ids, "price": [float(number) for number in ids]}), partial)
        else:
            partial.write_text("".join(json.dumps({"id": number, "price": number}) + "\n" for number in ids))
        self.clock += 1
        os.utime(partial, (self.clock, self.clock))
        partial.rename(self.folder / name)

    def run(self, each: Callable[[int], object] = lambda _: None, **options: Any) -> None:
        """Read all that is there now; `each` may stop it in a batch by raising."""
        source = FolderSource(self.folder, self.checkpoint / "files", **{"tasks_per_batch": 2} | options)

        def keep(events: DataFrame, batch_id: int) -> None:
            self.batches[batch_id] = events.collect()
            each(batch_id)

        writer = stream_folder(self.spark, source).events().writeStream.foreachBatch(keep)
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    @property
    def ids(self) -> list[list[int | None]]:
        return [[row.id for row in self.batches[batch]] for batch in sorted(self.batches)]

    @property
    def faults(self) -> list[tuple[str, str]]:
        rows = [row for batch in sorted(self.batches) for row in self.batches[batch]]
        return [(row["_fault"].place, row["_fault"].reason) for row in rows if row["_fault"] is not None]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path)


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
def test_batches_are_full_in_order_and_end(feed: Feed, suffix: str) -> None:
    feed.put(f"z.{suffix}", [1, 2, 3])
    feed.put(f"b.{suffix}", [4, 5, 6, 7, 8])
    feed.put(f"empty.{suffix}", [])
    feed.put(f"a.{suffix}", [9])
    for ignored in ("_SUCCESS", ".hidden", "c.tmp", "c.parquet.crc", "c.inprogress"):
        (feed.folder / ignored).write_bytes(b"no events")
    (feed.folder / "folder").mkdir()
    feed.run(events_per_batch_max=4)
    assert feed.ids == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert feed.faults == []
    times = [row["_appended_at"] for row in feed.batches[0]]
    assert times[0] == times[2] == datetime.datetime(2023, 11, 14, 22, 13, 21)  # noqa: DTZ001
    assert times[3] - times[0] == datetime.timedelta(seconds=1)


def test_restarts_read_every_event_once(feed: Feed) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    def stop_in(batch: int) -> Callable[[int], None]:
        def each(batch_id: int) -> None:
            if batch_id == batch:
                raise Stop

        return each

    feed.put("a.parquet", list(range(5)))
    feed.put("b.parquet", list(range(5, 12)))
    with pytest.raises(Exception, match="Stop"):
        feed.run(stop_in(1), events_per_batch_max=4)
    assert feed.ids == [[0, 1, 2, 3], [4, 5, 6, 7]]
    feed.put("c.parquet", list(range(12, 14)))
    os.utime(feed.folder / "c.parquet", (1, 1))  # older than the others, but found after them
    with pytest.raises(Exception, match="Stop"):
        feed.run(stop_in(2), events_per_batch_max=5)  # batch 1 comes again as it was, with the old limit
    assert feed.ids == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12]]
    (feed.folder / "a.parquet").unlink()
    feed.put("d.parquet", list(range(14, 20)))
    feed.run(events_per_batch_max=100)
    feed.run()
    assert [number for batch in feed.ids for number in batch] == list(range(20))
    assert feed.faults == []


def test_the_ledger_is_compacted_while_the_stream_goes_on(feed: Feed) -> None:
    for number in range(1_200):
        (feed.folder / f"{number:04}.jsonl").write_text(json.dumps({"id": number}))
    feed.run(schema=SCHEMA, events_per_batch_max=600)
    ledger = feed.checkpoint / "files" / "files.jsonl"
    assert ledger.read_bytes().startswith(b'{"consumed":600}\n{"name":"')  # Spark has told what it has committed
    feed.put("last.jsonl", [1_200])
    feed.run(schema=SCHEMA, events_per_batch_max=600)
    assert sorted(number or 0 for batch in feed.ids for number in batch) == list(range(1_201))
    assert ledger.stat().st_size < 60 * 1_201


def test_several_tasks_share_a_batch(feed: Feed) -> None:
    feed.put("a.parquet", list(range(3_000)))
    feed.put("b.parquet", list(range(3_000, 10_000)))
    source = FolderSource(feed.folder, feed.checkpoint / "files", tasks_per_batch=3)
    counts: list[int] = []
    stream = stream_folder(feed.spark, source)

    def count(slices: DataFrame, _: int) -> None:
        batch = stream.batch(slices)
        reader = batch.reader
        assert reader

        def rows(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield pa.record_batch({"rows": [sum(events.num_rows for events in reader(tasks))]})

        counts.extend(row.rows for row in batch.rows.mapInArrow(rows, "rows BIGINT").collect())

    query = stream.slices.writeStream.foreachBatch(count).option("checkpointLocation", str(feed.checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(counts) == [3_333, 3_333, 3_334]


def test_bad_files_cost_only_themselves(feed: Feed) -> None:
    feed.put("1.parquet", [1])
    feed.put("garbage.parquet", b"PAR1 this is no Parquet PAR1")
    feed.put("2.parquet", [2])
    (feed.folder / "truncated.parquet").write_bytes((feed.folder / "2.parquet").read_bytes()[:-9])
    feed.put("text.parquet", b"")
    os.utime(feed.folder / "truncated.parquet", (feed.clock, feed.clock))
    (feed.folder / os.fsdecode(b"\xff.parquet")).write_bytes(b"x")
    feed.put("3.parquet", [3])
    feed.run(schema=SCHEMA)
    assert sorted(number for number in feed.ids[0] if number is not None) == [1, 2, 3]
    places = [place for place, _ in feed.faults]
    assert sorted(places) == ["\\xff.parquet", "garbage.parquet", "text.parquet", "truncated.parquet"]
    feed.run(schema=SCHEMA)
    assert len(feed.batches) == 1


def test_files_that_go_between_finding_and_reading_are_faults(feed: Feed) -> None:
    for number in range(4):
        feed.put(f"{number}.jsonl", [number, number])
    feed.run(lambda _: (feed.folder / "2.jsonl").unlink(missing_ok=True), events_per_batch_max=5)
    assert feed.ids == [[0, 0, 1, 1, 2], [None, 3, 3]]
    ((place, reason),) = feed.faults
    assert place == "2.jsonl"
    assert "No such file" in reason


def test_bad_lines_cost_one_row_each(feed: Feed) -> None:
    feed.put("a.jsonl", b'{"id":1}\nnull\n{"id":2,"price":"x"}\n{"id":3}\n')
    feed.put("b.jsonl", [4])
    feed.run(schema=SCHEMA)
    assert feed.ids == [[1, None, None, 3, 4]]
    assert [place for place, _ in feed.faults] == ["a.jsonl:2", "a.jsonl:3"]
    assert feed.batches[0][2]["_fault"].raw == '{"id":2,"price":"x"}'


def test_a_folder_may_be_empty_at_first(feed: Feed) -> None:
    with pytest.raises(InputError, match="it is empty, so its format is not known"):
        feed.run()
    with pytest.raises(InputError, match="cannot tell the events' schema"):
        feed.run(format=Format.PARQUET)
    feed.run(format=Format.PARQUET, schema=SCHEMA)
    assert feed.ids == [[]]  # Spark's first batch may be empty
    feed.put("a.parquet", [1])
    feed.run(format=Format.PARQUET, schema=SCHEMA)
    assert feed.ids == [[], [1]]


def test_the_schema_that_was_inferred_stays(feed: Feed) -> None:
    feed.put("a.jsonl", b'{"id":1,"price":2.5}\n')
    feed.run()
    (feed.folder / "a.jsonl").unlink()
    feed.put("b.jsonl", b'{"id":2,"price":3,"extra":true}\n')
    feed.run()
    assert [row.asDict(recursive=True) for batch in feed.batches.values() for row in batch] == [
        {"id": 1, "price": 2.5, "_appended_at": feed.batches[0][0]["_appended_at"], "_fault": None},
        {"id": 2, "price": 3.0, "_appended_at": feed.batches[1][0]["_appended_at"], "_fault": None},
    ]


def test_a_running_stream_finds_new_files(feed: Feed) -> None:
    source = FolderSource(feed.folder, feed.checkpoint / "files", Format.JSON_LINES, SCHEMA, events_per_batch_max=3)
    stream = stream_folder(feed.spark, source).events().writeStream.trigger(processingTime="100 milliseconds")
    stream = stream.foreachBatch(lambda rows, batch: feed.batches.update({batch: rows.collect()}))
    query = stream.option("checkpointLocation", str(feed.checkpoint)).start()
    try:
        query.processAllAvailable()
        feed.put("a.jsonl", [1, 2])
        query.processAllAvailable()
        feed.put("b.jsonl", [3, 4, 5, 6])
        query.processAllAvailable()
    finally:
        query.stop()
    assert feed.ids == [[], [1, 2], [3, 4, 5], [6]]


def test_times_are_the_same_in_every_zone(feed: Feed) -> None:
    feed.put("a.jsonl", b'{"id":1,"at":"2024-07-01T12:00:00Z"}\n')
    feed.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        source = FolderSource(feed.folder, feed.checkpoint / "files", schema="id BIGINT, at TIMESTAMP")
        moments: list[Row] = []
        stream = (
            stream_folder(feed.spark, source)
            .events()
            .selectExpr("unix_seconds(at) at", "unix_seconds(_appended_at) appended")
        )
        query = stream.writeStream.foreachBatch(lambda rows, _: moments.extend(rows.collect()))
        query.option("checkpointLocation", str(feed.checkpoint)).trigger(availableNow=True).start().awaitTermination()
    finally:
        feed.spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert moments == [Row(at=1719835200, appended=1_700_000_001)]


def test_a_checkpoint_does_not_go_on_in_another_folder(feed: Feed, tmp_path: Path) -> None:
    """Its files could have the names of those that were read."""
    feed.put("a.jsonl", b'{"id":1}\n')
    stream_folder(feed.spark, FolderSource(feed.folder, tmp_path / "files"))
    moved = feed.folder.rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"this checkpoint has read .*; if the folder was moved, remove") as refused:
        stream_folder(feed.spark, FolderSource(moved, tmp_path / "files"))
    Path(str(refused.value).rpartition(" ")[2]).unlink()
    stream_folder(feed.spark, FolderSource(moved, tmp_path / "files"))


def test_what_cannot_be_read_from_is_an_error(feed: Feed, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        stream_folder(feed.spark, FolderSource(tmp_path / "nowhere", tmp_path / "files"))
    for name in ("_fault", "_part"):
        with pytest.raises(InputError, match=f"'{name}', which is the pipeline's own"):
            stream_folder(feed.spark, FolderSource(feed.folder, tmp_path / "files", Format.PARQUET, f"{name} STRING"))
    for unclear in (b'{"id":1}\n{"id":"x"}\n', b'{"id":' + b"9" * 30 + b"}\n", b"oops\n", b"{}\n"):
        feed.put("a.jsonl", unclear)
        with pytest.raises(InputError, match="cannot tell the events' schema"):
            stream_folder(feed.spark, FolderSource(feed.folder, tmp_path / "files"))
    (feed.folder / "a.jsonl").rename(feed.folder / "a.csv")
    with pytest.raises(InputError, match="cannot tell the events' schema: no record can be read"):
        stream_folder(feed.spark, FolderSource(feed.folder, tmp_path / "files"))
    with pytest.raises(InputError, match="at least one event"):
        FolderSource(feed.folder, tmp_path / "files", events_per_batch_max=0)
