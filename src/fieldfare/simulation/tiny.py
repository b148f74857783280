"""Limits so small that a short run meets them all: queues that are full, windows that are closed, logs that forget."""

from __future__ import annotations

import random

from fieldfare.routing.options import EdgeOptions
from fieldfare.store.journal import JournalOptions


def tiny_edge_options(rng: random.Random) -> EdgeOptions:
    """An edge that can keep little in memory, and writes small frames. It refuses nothing for good."""
    return EdgeOptions(
        unstored_bytes_max=rng.choice((500, 2_000)),
        waiting_max=rng.choice((1, 2, 8)),
        frame_bytes_max=rng.choice((1, 200)),
        webhook_events_max=rng.choice((1, 3)),
        webhook_attempts_max=1_000_000,  # so that no event becomes a dead letter, and all must come
        webhook_backoff_seconds_max=5.0,
    )


def tiny_journal_options(rng: random.Random) -> JournalOptions:
    """A log that keeps so little that living events leave it.

    Set it as `host.log.options` before the first start, and let checkpoints be made often (`host.checkpoint_records`):
    only what lies before one is removed.
    """
    return JournalOptions(
        segment_bytes=rng.choice((300, 1_000)),
        retention_bytes=rng.choice((1_000, 5_000)),
        block_bytes=rng.choice((64, 512)),
        piece_records_max=rng.choice((1, 4)),
    )
