"""What a bridge is told: where its files are, how it gathers, and which topics there are when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where files are, and how much is gathered for how long."""

    folder: Path
    store: str | None = None  # the address of the subscriptions; None: a file in the folder
    runs_pipelines: bool = True  # False: somebody else runs `fieldfare pipeline run` on these folders
    master: str | None = None  # Spark's; None: this machine
    schemas: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by tenant and topic, as in 'price DOUBLE'
    collect_seconds: float = 0.05  # that events wait for others, to become one file
    file_events_max: int = 5_000
    waiting_events_max: int = 100_000  # beyond these, a topic refuses more
    batch_events_max: int = 20_000  # in one batch of the pipeline, which the edge stores as one record
    interval_seconds: float = 0.2  # from one batch to the next
    poll_seconds: float = 0.05
    stop_seconds: float = 30.0  # for a pipeline to finish its batch

    @property
    def store_address(self) -> str:
        """The store of the subscriptions."""
        return self.store or str(self.folder.absolute() / "subscriptions.db")


@dataclass(frozen=True, slots=True)
class SparkTopic:
    """A topic that the edge has when the bridge starts, with the conditions of its subscriptions by their ids."""

    tenant: str
    topic: str
    subscriptions: Mapping[str, str] = field(default_factory=dict)
