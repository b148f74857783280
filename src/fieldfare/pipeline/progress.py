"""Progress for people: a line for each pipeline that is kept up to date on a terminal, or some lines in a log."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from fieldfare.pipeline.summary import BatchSummary
from fieldfare.pipeline.watching import Watcher

_LOG_SECONDS = 5.0
_SMOOTHING = 0.3
_LOADS_SHOWN = 8


class Progress:
    """What people see of pipelines: a line for each. A context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, refresh_per_second=8) if console.is_terminal else None
        self._lines: dict[str, Text] = {}
        self._lock = threading.Lock()  # pipelines run in threads of their own

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def line(self, pipeline: str = "") -> ProgressLine:
        """The line of a pipeline. It begins with the pipeline's name, if it has one."""
        return ProgressLine(self, pipeline)

    def notice(self, text: str) -> None:
        """Print a sentence that stays."""
        self._console.print(text, style="cyan", highlight=False, soft_wrap=True, markup=False)

    def show(self, pipeline: str, text: str, *, is_worth_a_line: bool) -> None:
        """Replace a pipeline's line; where there is no terminal, print it if it is worth that."""
        if self._live:
            with self._lock:
                self._lines[pipeline] = Text(text, style="bold", no_wrap=True, overflow="ellipsis")
                self._live.update(Group(*self._lines.values()))
        elif is_worth_a_line:
            self._console.print(text, highlight=False, soft_wrap=True, markup=False)


class ProgressLine(Watcher):
    """Shows each batch of one pipeline; on a terminal in one line, elsewhere as a line every few seconds."""

    def __init__(self, progress: Progress, pipeline: str) -> None:
        self._progress, self._pipeline = progress, pipeline
        self._prefix = f"{pipeline}: " if pipeline else ""
        self._last_batch = self._last_line = time.monotonic()
        self._rates: tuple[float, float] | None = None
        self._total = 0

    def notice(self, text: str) -> None:
        """Print a sentence that stays."""
        self._progress.notice(self._prefix + text)

    def batch(self, summary: BatchSummary) -> None:
        """Show where the pipeline is."""
        now = time.monotonic()
        self._total += summary.events
        self._smooth(summary, max(now - self._last_batch, 1e-3))
        self._last_batch = now
        is_due = now - self._last_line >= _LOG_SECONDS or summary.batch_id == 0
        if is_due:
            self._last_line = now
        self._progress.show(self._pipeline, self._prefix + self._line(summary), is_worth_a_line=is_due)

    def _smooth(self, summary: BatchSummary, seconds: float) -> None:
        measured = summary.events / seconds, summary.matches / seconds
        before = self._rates or measured
        self._rates = tuple(  # type: ignore[assignment]
            _SMOOTHING * new + (1 - _SMOOTHING) * old for new, old in zip(measured, before, strict=True)
        )

    def _line(self, summary: BatchSummary) -> str:
        events, matches = self._rates or (0.0, 0.0)
        pieces = [
            f"batch {summary.batch_id}",
            f"{self._total:,} events",
            f"{events:,.0f} events/s",
            f"{matches:,.0f} matches/s",
        ]
        p50, p99 = summary.latency_seconds(0.5), summary.latency_seconds(0.99)
        if p50 is not None and p99 is not None:
            pieces.append(f"latency p50 {p50:.2f} s, p99 {p99:.2f} s")
        pieces += [f"{summary.subscriptions:,} subscriptions", f"{summary.layout} x {summary.matchers}"]
        if summary.hops_max > 1:
            pieces.append(f"hops {summary.hops:.2f}, at most {summary.hops_max}")
        pieces.append(f"load {loads(summary)}")
        if summary.quarantined:
            pieces.append(f"{summary.quarantined:,} quarantined")
        return " | ".join(pieces)


def loads(summary: BatchSummary) -> str:
    """Each matcher's share of the batch's time, in percent."""
    shares = [f"{100 * seconds / summary.seconds:.0f}" for seconds in summary.busy_seconds.values() if summary.seconds]
    more = "…" if len(shares) > _LOADS_SHOWN else ""
    return " ".join(shares[:_LOADS_SHOWN]) + more + "%"
