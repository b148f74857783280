"""The demo itself: write the city's files, stream the events through Spark, and tell what happened."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from fieldfare.demo import traffic
from fieldfare.errors import FieldfareError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_FILES = 32
_FILES_PER_BATCH = 4
_POLL_SECONDS = 0.2
_SHOWN_MATCHES = 5
_CHECKED_SUBSCRIPTIONS = 3


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How large the story is, and where its files go."""

    drivers: int = 40_000
    events: int = 300_000
    seed: int = 7
    folder: Path = Path("fieldfare-demo")

    @property
    def subscriptions_file(self) -> Path:
        """What drivers want."""
        return self.folder / "subscriptions.parquet"

    @property
    def events_folder(self) -> Path:
        """What sensors report: the stream reads the files that appear here."""
        return self.folder / "events"

    @property
    def matches_folder(self) -> Path:
        """Each event that somebody wants, with the drivers who want it."""
        return self.folder / "matches"


def run(options: DemoOptions, console: Console) -> None:
    """Run the demo from start to end."""
    from fieldfare.pipeline.session import spark_session  # Spark is optional, and slow to import

    console.rule("[bold]Fieldfare: traffic in an invented city")
    city = _write_city(options)
    console.print(f"{options.drivers:,} drivers have said in SQL what they want to hear of. The first of them:")
    console.print(f"  {city['condition'][0]}", style="cyan", highlight=False, soft_wrap=True)
    console.print("Starting Spark on this machine ...")
    with spark_session("fieldfare-demo", options.folder / "spark.log") as spark:
        _stream(spark, options, console)
        matches = ds.dataset(options.matches_folder, format="parquet").to_table()
        _tell(matches, city, console)
        _verify(spark, matches, city, options, console)
    _show_the_way(options, console)


def _write_city(options: DemoOptions) -> pa.Table:
    """Write the subscriptions and the events; return the subscriptions."""
    for earlier in (options.events_folder, options.matches_folder):
        shutil.rmtree(earlier, ignore_errors=True)
    options.events_folder.mkdir(parents=True)
    rng = np.random.default_rng(options.seed)
    city = traffic.subscriptions(options.drivers, rng)
    pq.write_table(city, options.subscriptions_file)
    bounds = np.linspace(0, options.events, _FILES + 1).astype(int).tolist()
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        pq.write_table(traffic.events(start + 1, end - start, rng), options.events_folder / f"{number:03}.parquet")
    return city


def _stream(spark: SparkSession, options: DemoOptions, console: Console) -> None:
    """Match the events as a stream of micro-batches, with a progress bar."""
    from fieldfare.pipeline import match  # Spark is optional, and slow to import

    subscriptions = spark.read.parquet(str(options.subscriptions_file))
    events_folder = str(options.events_folder)
    schema = spark.read.parquet(events_folder).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", _FILES_PER_BATCH).parquet(events_folder)
    started = time.perf_counter()
    wanted = match(events, subscriptions).where("size(subscription_ids) > 0")
    seconds = time.perf_counter() - started
    console.print(f"Read {options.drivers:,} subscriptions and compiled them into an index in {seconds:.1f} s.")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fieldfare-checkpoint-") as checkpoint:
        writer = wanted.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(str(options.matches_folder))
        best_rate = _watch(query, options.events, console)
    seconds = time.perf_counter() - started
    rate = options.events / seconds
    console.print(
        f"Streamed [bold]{options.events:,} events[/] in {seconds:.1f} s: [bold]{rate:,.0f} events/s[/] over all, "
        f"start-up of the workers included, and {best_rate:,.0f} events/s in the best micro-batch."
    )


def _watch(query: StreamingQuery, events: int, console: Console) -> float:
    """Follow a query to its end; return the events per second of its best micro-batch."""
    columns = (TextColumn("micro-batch {task.fields[batch]}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    done: dict[int, StreamingQueryProgress] = {}
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=events, batch=0)
        running = True
        while running:
            time.sleep(_POLL_SECONDS)
            running = query.isActive
            done.update((step.batchId, step) for step in query.recentProgress if step.numInputRows)
            progress.update(bar, completed=sum(step.numInputRows for step in done.values()), batch=len(done))
    query.awaitTermination()  # raises what made it stop, if it was not the end of the events
    return max((step.processedRowsPerSecond for step in done.values()), default=0.0)


def _tell(matches: pa.Table, city: pa.Table, console: Console) -> None:
    """Count the matches, and show some of them, of different districts."""
    pairs = pc.sum(pc.list_value_length(matches["subscription_ids"])).as_py() or 0
    console.print(f"Found [bold]{pairs:,} matches[/]: {matches.num_rows:,} events concern somebody. Some of them:")
    conditions = dict(zip(city["subscription_id"].to_pylist(), city["condition"].to_pylist(), strict=True))
    for district in traffic.DISTRICTS[:_SHOWN_MATCHES]:
        for event in matches.filter(pc.field("district") == district.name).slice(0, 1).to_pylist():
            driver = event["subscription_ids"][0]
            listeners = len(event["subscription_ids"])
            console.print(
                f"  [bold]{driver}[/] is one of {listeners:,} who hear of: {event['kind']} at {event['district']}, "
                f"{event['speed']:.0f} km/h, {event['measured_at']:%H:%M}"
            )
            console.print(f"    {driver} wants: {conditions[driver]}", style="dim", highlight=False, soft_wrap=True)


def _verify(spark: SparkSession, matches: pa.Table, city: pa.Table, options: DemoOptions, console: Console) -> None:
    """Ask Spark itself, with where(), which events some drivers want, and compare."""
    events = spark.read.parquet(str(options.events_folder))
    pairs = pa.table(
        {
            "event_id": matches["event_id"].take(pc.list_parent_indices(matches["subscription_ids"])),
            "subscription_id": pc.list_flatten(matches["subscription_ids"]),
        }
    )
    checked = 0
    for subscription in city.slice(0, _CHECKED_SUBSCRIPTIONS).to_pylist():
        driver, condition = subscription["subscription_id"], subscription["condition"]
        ours = set(pairs.filter(pc.field("subscription_id") == driver)["event_id"].to_pylist())
        theirs = {row.event_id for row in events.where(condition).select("event_id").collect()}
        if ours != theirs:
            raise FieldfareError(
                f"the matches of {driver} are not those of Spark's where(): {sorted(ours ^ theirs)[:5]}"
            )
        checked += len(theirs)
    console.print(
        f"Checked: for {_CHECKED_SUBSCRIPTIONS} drivers Spark's own where() finds the same {checked:,} events.",
        style="green",
    )


def _show_the_way(options: DemoOptions, console: Console) -> None:
    """Say where the output is, and what to try next."""
    console.print(f"The matches are in [bold]{options.matches_folder}[/] (Parquet). Next, try:")
    inactive = not shutil.which("fieldfare")  # in a virtual environment that is not active
    command = Path(sys.executable).with_name("fieldfare") if inactive else "fieldfare"
    for arguments in (
        f"match {options.subscriptions_file} {options.events_folder} -o matches.jsonl",
        "explain \"latitude BETWEEN 52.4 AND 52.5 AND NOT kind IN ('flow', 'roadworks')\"",
        "bench engine --workload bluedove",
    ):
        console.print(f"  {command} {arguments}", style="cyan", highlight=False, soft_wrap=True)
