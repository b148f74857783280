"""The whole of `fieldfare match`: subscriptions from one file, events from another, results to a third."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from fieldfare.bisection import Bisection
from fieldfare.errors import EventError, InputError
from fieldfare.files.atomic import AtomicFile
from fieldfare.files.event_source import EventBatch, EventSource
from fieldfare.files.formats import Format, format_of
from fieldfare.files.quarantine import Quarantine
from fieldfare.files.results import EventMatches, plain, result_writer
from fieldfare.files.subscriptions import read_index
from fieldfare.matching.index import Index
from fieldfare.matching.unknown_names import told_unknown

Progress = Callable[[int, int], None]  # how much of the events has been read, and how much there is


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """What to match, and where the results go; no output means standard output."""

    subscriptions: Path
    events: Path
    output: Path | None = None
    quarantine: Path | None = None
    include_unmatched: bool = False
    now: datetime | None = None  # the time of now in conditions; None: when the run begins

    @property
    def quarantine_path(self) -> Path:
        """Beside the output, unless it was given."""
        if self.quarantine:
            return self.quarantine
        return Path("fieldfare.quarantine.jsonl") if self.output is None else Path(f"{self.output}.quarantine.jsonl")


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """What `match_files` did."""

    subscriptions: int
    events: int
    matched_events: int
    matches: int
    quarantined: int
    seconds: float  # reading, matching and writing events, without building the index
    hints: tuple[str, ...] = ()  # about attributes that conditions ask about and the events do not have


def match_files(options: MatchOptions, progress: Progress) -> MatchSummary:
    """Find, for every event, the subscriptions it satisfies."""
    _check_paths(options)
    source = EventSource.open(options.events)
    with Quarantine(options.quarantine_path) as quarantine:
        names = source.names()
        index = read_index(options.subscriptions, quarantine, names)
        hints = () if names is None else tuple(told_unknown(index.attributes, names))
        source.check(index)
        id_type = plain(index.match_rows([])).type.value_type
        started, now = time.perf_counter(), options.now or datetime.now(UTC)
        events = matched_events = pairs = 0
        with _output(options.output) as (stream, file_format):
            writer = result_writer(stream, file_format, source.key_type, id_type)
            for batch in source.batches(quarantine):
                for matches in match_batch(index, batch, quarantine, now):
                    matched = matches.matched()
                    events += len(matches)
                    matched_events += len(matched)
                    pairs += matched.pairs
                    writer.write(matches if options.include_unmatched else matched)
                progress(batch.position, source.length)
            writer.finish()
        seconds = time.perf_counter() - started
        return MatchSummary(len(index), events, matched_events, pairs, quarantine.rows, seconds, hints)


def match_batch(index: Index, batch: EventBatch, quarantine: Quarantine, now: datetime) -> list[EventMatches]:
    """Match a batch; events in it that cannot be matched go to quarantine."""
    found = []
    parts = Bisection(len(batch))
    for part in parts:
        piece = batch.slice(part.start, part.stop)
        try:
            found.append(EventMatches(piece.keys(), piece.match(index, now)))
        except EventError as error:
            if not parts.halve(part):
                quarantine.add(piece.bad_row(str(error)))
    return found


def _check_paths(options: MatchOptions) -> None:
    inputs = {options.subscriptions.resolve(), options.events.resolve()}
    for output in (options.output, options.quarantine_path):
        if output and output.resolve() in inputs:
            raise InputError(f"{output}: the output would replace an input")
    if options.output:
        format_of(options.output)
        if not options.output.resolve().parent.is_dir():
            raise InputError(f"{options.output}: there is no folder {options.output.resolve().parent}")


@contextmanager
def _output(path: Path | None) -> Iterator[tuple[BinaryIO, Format]]:
    if path is None:
        yield sys.stdout.buffer, Format.JSON_LINES
        return
    file = AtomicFile(path)
    try:
        yield file.open(), format_of(path)
    except BaseException:
        file.discard()
        raise
    file.commit()
