"""A handler: a function, the events that it wants, and what happens when it fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from msgspec.structs import replace

from fieldfare.errors import HandlerError
from fieldfare.handlers.decoding import Parameter
from fieldfare.messages import Subscribe
from fieldfare.qos import Consuming, Requested

CONCURRENCY_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Retries:
    """How often an event is tried before it becomes a dead letter, and how long to wait between attempts."""

    attempts_max: int = 5
    backoff_seconds: float = 1.0  # before the second attempt; then twice as long each time,
    backoff_seconds_max: float = 60.0  # up to this


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """What may be said of a handler besides the events that it wants."""

    name: str | None = None  # makes it durable: its events wait while the application is away
    shared: bool = False  # several applications may have this name: each event goes to one of them
    key: str | None = None  # events with the same value of this attribute are handled one after another
    concurrency: int = 1  # so many events are handled at the same time
    retries: Retries = field(default_factory=Retries)
    qos: Requested = field(default_factory=Requested)
    publish_to: str | None = None  # the topic in which is published what the function returns
    take_seconds: float | None = None  # of a shared one: how long an event may take before another gets it


class HandlerSettings(TypedDict, total=False):
    """The same as arguments of `App.on`."""

    name: str | None
    shared: bool
    key: str | None
    concurrency: int
    retries: Retries
    qos: Requested
    publish_to: str | None
    take_seconds: float | None


@dataclass(frozen=True, slots=True)
class Handler:
    """A function that is called for events of a topic that satisfy a condition."""

    function: Callable[..., Any]
    parameter: Parameter
    topic: str
    condition: str
    options: HandlerOptions

    def __post_init__(self) -> None:
        options = self.options
        if options.shared and options.name is None:
            raise HandlerError(f"{self.label}: a shared handler needs a name, by which the others know it")
        if not 1 <= options.concurrency <= CONCURRENCY_MAX:
            raise HandlerError(f"{self.label}: concurrency is 1 to {CONCURRENCY_MAX:,}, not {options.concurrency}")

    @property
    def label(self) -> str:
        """What it is called in logs: its name, or that of its function."""
        return self.options.name or str(getattr(self.function, "__qualname__", self.function))

    @property
    def is_coroutine(self) -> bool:
        """Whether the function is awaited; others run in a thread."""
        return inspect.iscoroutinefunction(self.function)

    @property
    def window(self) -> int:
        """How many events are on their way to it: of a shared one few, so that others get their part."""
        return 2 * self.options.concurrency if self.options.shared else max(1024, 2 * self.options.concurrency)

    def request(self, *, waits: bool) -> Subscribe:
        """What the edge is asked for."""
        options = self.options
        consuming = self.consuming(waits=waits)
        return Subscribe(
            0, self.topic, self.condition, options.qos, options.name, window=self.window, consuming=consuming
        )

    def consuming(self, *, waits: bool) -> Consuming:
        """What is to become of its events. A test does not wait between attempts."""
        options, retries = self.options, self.options.retries
        consuming = Consuming(
            is_shared=options.shared,
            key=options.key,
            attempts_max=retries.attempts_max,
            backoff_seconds=retries.backoff_seconds if waits else 0.0,
            backoff_seconds_max=retries.backoff_seconds_max if waits else 0.0,
        )
        return consuming if options.take_seconds is None else replace(consuming, take_seconds=options.take_seconds)
