"""The demo itself: a city's files and subscriptions, the streaming pipeline, a change while it runs, and a check."""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.console import Console

from fieldfare.demo import live, traffic
from fieldfare.errors import FieldfareError
from fieldfare.store.subscription_store import SubscriptionStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fieldfare.pipeline.run import Pipeline
    from fieldfare.pipeline.source import FolderSource
    from fieldfare.pipeline.summary import Summary

_FILES = 32
_FILES_PER_BATCH = 4
_CHANGED_SHARE = 0.1  # of the drivers go home, and as many set out
_SHOWN_MATCHES = 5
_LIVE_DRIVERS, _LIVE_EVENTS = 1000, 4000
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How large the story is, and where its files go."""

    drivers: int = 40_000
    events: int = 300_000
    seed: int = 7
    folder: Path = Path("fieldfare-demo")

    @property
    def subscriptions_file(self) -> Path:
        """What drivers want, for commands to try afterwards."""
        return self.folder / "subscriptions.parquet"

    @property
    def store_file(self) -> Path:
        """The store that the pipeline reads: what drivers want now."""
        return self.folder / "fieldfare.db"

    @property
    def events_folder(self) -> Path:
        """What sensors report: the pipeline reads the files that appear here."""
        return self.folder / "events"

    @property
    def matches_folder(self) -> Path:
        """Each event that somebody wants, with the drivers who want it."""
        return self.folder / "matches"

    @property
    def checkpoint_folder(self) -> Path:
        """What the pipeline remembers."""
        return self.folder / "checkpoint"


@dataclass(frozen=True, slots=True)
class _City:
    """All that happens: who is on the road from the beginning, who sets out later, and what the sensors report."""

    drivers: pa.Table
    newcomers: pa.Table
    reports: Sequence[pa.Table]

    @property
    def leaving(self) -> list[str]:
        """The drivers who go home, as many as set out."""
        ids: list[str] = self.drivers["subscription_id"].slice(0, self.newcomers.num_rows).to_pylist()
        return ids


def run(options: DemoOptions, console: Console) -> None:
    """Run the demo from start to end."""
    from fieldfare.pipeline.spark_session import spark_session  # Spark is optional, and slow to import

    console.rule("[bold]Fieldfare: traffic in an invented city")
    shutil.rmtree(options.folder, ignore_errors=True)
    options.events_folder.mkdir(parents=True)
    city = _city(options)
    pq.write_table(city.drivers, options.subscriptions_file)
    console.print(f"{options.drivers:,} drivers say in SQL what they want to hear of. The first of them:")
    console.print(f"  {city.drivers['condition'][0]}", style="cyan", highlight=False, soft_wrap=True)
    with open_store(options.store_file) as store:
        started = time.perf_counter()
        store.add(city.drivers, now_seconds=time.time())
        console.print(
            f"They are in the subscription store after {time.perf_counter() - started:.1f} s. Starting Spark ..."
        )
        with spark_session("fieldfare-demo", options.folder / "spark.log") as spark:
            _tell_rates(_stream(spark, store, city, options, console), console)
            matches = ds.dataset(options.matches_folder, format="parquet", partitioning="hive").to_table()
            _tell_matches(matches, city, console)
            _verify(spark, matches, city, options, console)
    live.run(city.drivers.slice(0, _LIVE_DRIVERS), city.reports[0].slice(0, _LIVE_EVENTS), options.folder, console)
    _show_the_way(options, console)


def _city(options: DemoOptions) -> _City:
    rng = np.random.default_rng(options.seed)
    newcomers = max(1, int(options.drivers * _CHANGED_SHARE))
    people = traffic.subscriptions(options.drivers + newcomers, rng)
    bounds = np.linspace(0, options.events, _FILES + 1).astype(int).tolist()
    reports = [traffic.events(start + 1, end - start, rng) for start, end in itertools.pairwise(bounds)]
    return _City(people.slice(0, options.drivers), people.slice(options.drivers), reports)


def _stream(
    spark: SparkSession, store: SubscriptionStore, city: _City, options: DemoOptions, console: Console
) -> Summary:
    """Run the pipeline while sensors report, and change subscriptions in the middle."""
    from fieldfare.pipeline.output import WriteOptions
    from fieldfare.pipeline.progress import Progress
    from fieldfare.pipeline.run import Pipeline, PipelineOptions
    from fieldfare.pipeline.source import FolderSource

    _append(city.reports[:1], 0, options)
    with Progress(console) as progress:
        pipeline_options = PipelineOptions(
            store=str(options.store_file),
            output=options.matches_folder,
            checkpoint=options.checkpoint_folder,
            write=WriteOptions(only_matched=True),
        )
        source = FolderSource(
            options.events_folder,
            options.checkpoint_folder / "ledger",
            events_per_batch_max=max(1, _FILES_PER_BATCH * options.events // _FILES),
        )
        pipeline = Pipeline(spark, pipeline_options, watcher=progress.line())
        with _Running(pipeline, source) as running:
            half = _FILES // 2
            _append(city.reports[1:half], 1, options)
            running.wait_for(sum(table.num_rows for table in city.reports[:half]))
            _change(store, city)
            progress.notice(
                f"Meanwhile {city.newcomers.num_rows:,} drivers go home and as many others set out: "
                "the next events find the new ones only."
            )
            _append(city.reports[half:], half, options)
            running.wait_for(options.events)
    return pipeline.summary


def _append(reports: Sequence[pa.Table], first: int, options: DemoOptions) -> None:
    """Put files into the folder of events as every writer should: whole, by a rename."""
    for number, table in enumerate(reports, first):
        unfinished = options.events_folder / f".{number:03}.parquet"
        pq.write_table(table, unfinished)
        unfinished.rename(options.events_folder / f"{number:03}.parquet")


def _change(store: SubscriptionStore, city: _City) -> None:
    """Some drivers go home and others set out, while the pipeline runs."""
    store.remove(city.leaving)
    store.add(city.newcomers, now_seconds=time.time())


class _Running:
    """A pipeline in a thread of its own; what ends it is raised here."""

    def __init__(self, pipeline: Pipeline, source: FolderSource) -> None:
        self._pipeline = pipeline
        self._source = source
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._pipeline.run(self._source)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pipeline.stop()
        self._thread.join()
        if self._error:
            raise self._error

    def wait_for(self, events: int) -> None:
        """Wait until so many events are matched."""
        while self._pipeline.summary.events < events and self._thread.is_alive():
            time.sleep(_POLL_SECONDS)


def _tell_rates(summary: Summary, console: Console) -> None:
    console.print(f"Streamed, exactly once: [bold]{summary.sentence()}[/]", highlight=False, soft_wrap=True)


def _tell_matches(matches: pa.Table, city: _City, console: Console) -> None:
    """Show some matches, of different districts."""
    console.print(f"{matches.num_rows:,} events concern somebody. Some of them:")
    people = pa.concat_tables([city.drivers, city.newcomers])
    wants = dict(zip(people["subscription_id"].to_pylist(), people["condition"].to_pylist(), strict=True))
    for district in traffic.DISTRICTS[:_SHOWN_MATCHES]:
        for event in matches.filter(pc.field("district") == district.name).slice(0, 1).to_pylist():
            listeners = event["subscription_ids"]
            console.print(
                f"  {len(listeners):,} hear of: {event['kind']} at {event['district']}, {event['speed']:.0f} km/h, "
                f"{event['measured_at']:%H:%M}. One of them is [bold]{listeners[0]}[/], who wants:",
                soft_wrap=True,
            )
            console.print(f"    {wants[listeners[0]]}", style="dim", highlight=False, soft_wrap=True)


def _verify(spark: SparkSession, matches: pa.Table, city: _City, options: DemoOptions, console: Console) -> None:
    """Ask Spark itself, with where(), which events a driver of each sort wants, and compare."""
    events = spark.read.parquet(str(options.events_folder))
    half = sum(table.num_rows for table in city.reports[: _FILES // 2])
    pairs = pa.table(
        {
            "event_id": matches["event_id"].take(pc.list_parent_indices(matches["subscription_ids"])),
            "subscription_id": pc.list_flatten(matches["subscription_ids"]).cast(pa.string()),
        }
    )
    checked = 0
    stays, leaves, comes = city.drivers.num_rows - 1, city.drivers.slice(0, 1), city.newcomers.slice(0, 1)
    sorts = [(city.drivers.slice(stays, 1), "true"), (leaves, f"event_id <= {half}"), (comes, f"event_id > {half}")]
    for someone, when in sorts:
        driver, condition = someone["subscription_id"][0].as_py(), someone["condition"][0].as_py()
        ours = set(pairs.filter(pc.field("subscription_id") == driver)["event_id"].to_pylist())
        theirs = {row.event_id for row in events.where(condition).where(when).select("event_id").collect()}
        if ours != theirs:
            raise FieldfareError(
                f"the matches of {driver} are not those of Spark's where(): {sorted(ours ^ theirs)[:5]}"
            )
        checked += len(theirs)
    console.print(
        f"Checked: for a driver who stayed, one who left and one who came, Spark's own where() finds "
        f"the same {checked:,} events.",
        style="green",
        soft_wrap=True,
    )


def _show_the_way(options: DemoOptions, console: Console) -> None:
    """Say where the output is, and what to try next."""
    console.print(f"The matches are in [bold]{options.matches_folder}[/] (Parquet). Next, try:")
    inactive = not shutil.which("fieldfare")  # in a virtual environment that is not active
    command = Path(sys.executable).with_name("fieldfare") if inactive else "fieldfare"
    for arguments in (
        f"subscriptions list --store {options.store_file} --limit 3",
        f"match {options.subscriptions_file} {options.events_folder} -o matches.jsonl",
        "explain \"latitude BETWEEN 52.4 AND 52.5 AND NOT kind IN ('flow', 'roadworks')\"",
        "bench pipeline",
        "demo networks",
    ):
        console.print(f"  {command} {arguments}", style="cyan", highlight=False, soft_wrap=True)
