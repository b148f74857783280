"""Watchers: objects that the pipeline tells what it does. A progress line, metrics and the benchmark are watchers.

A watcher is told on the driver, and the next batch waits for it: it should be quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from fieldfare.pipeline.summary import BatchSummary


class Watcher:
    """Is told what the pipeline does. Override the methods that matter to you."""

    def batch(self, summary: BatchSummary) -> None:
        """A batch was committed."""

    def notice(self, text: str) -> None:
        """Something happened that a person may want to know."""

    def failed(self, reason: str) -> None:
        """One of several pipelines has ended by a failure; it is perhaps tried again."""


class Watchers(Watcher):
    """Several watchers that are told the same."""

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

    def failed(self, reason: str) -> None:
        """One of several pipelines has ended by a failure; it is perhaps tried again."""
        for watcher in self._watchers:
            watcher.failed(reason)
