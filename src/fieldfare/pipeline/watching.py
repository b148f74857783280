"""Who hears what the pipeline does: a line for people, metrics, a benchmark, or somebody's own.

A watcher is told on the driver, and the next batch waits for it: it should be quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.pipeline.summary import BatchSummary


class Watcher:
    """Who wants to hear what the pipeline does; every method may be overridden."""

    def batch(self, summary: BatchSummary) -> None:
        """A batch was committed."""

    def notice(self, text: str) -> None:
        """Something happened that a person may want to know."""


class Watchers(Watcher):
    """Several of them."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        self._watchers = watchers

    def batch(self, summary: BatchSummary) -> None:
        """A batch was committed."""
        for watcher in self._watchers:
            watcher.batch(summary)

    def notice(self, text: str) -> None:
        """Something happened that a person may want to know."""
        for watcher in self._watchers:
            watcher.notice(text)
