"""Runs the handlers of an application in a test: a real broker in this process, without a network.

    async with app.test() as harness:
        await harness.publish("traffic", {"road": "A10", "speed": 12})
        assert await harness.published("alerts") == [{"road": "A10"}]

The broker is the one that the service has: conditions, retries, keys and dead letters are as there. Only the waiting
between attempts is left out.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fieldfare.client.events import Event
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.errors import HandlerError
from fieldfare.handlers.handler_task import HandlerTask
from fieldfare.qos import Requested
from fieldfare.runtime.embedded import Embedded

if TYPE_CHECKING:
    from fieldfare.handlers.app import App

_AT_ONCE = ClientOptions(session=SessionOptions(ack_delay_seconds=0.0))
_FROM_START = Requested(durability="transient")


@dataclass(frozen=True, slots=True)
class Handled:
    """A call of a handler: the event that it was for, and the error if it was refused."""

    handler: str  # its name, or that of its function
    event: Event[Any]
    error: BaseException | None = None


@dataclass
class Harness:
    """The handlers of an application, and a broker for them. `handled` lists their calls."""

    app: App
    timeout_seconds: float = 30.0  # for handlers to be done with what was published
    handled: list[Handled] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="fieldfare-test-"))
            self.broker = Embedded(Path(folder), _AT_ONCE)
            self._tasks = (await stack.enter_async_context(self.app.running(self.broker, waits=False))).tasks
            for task in self._tasks:
                task.on_settled = partial(self._note, task)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)

    def _note(self, task: HandlerTask, event: Event[Any], error: BaseException | None) -> None:
        self.handled.append(Handled(task.handler.label, event, error))

    @property
    def errors(self) -> list[BaseException]:
        """What went wrong in handlers, in order."""
        return [each.error for each in self.handled if each.error is not None]

    async def publish(self, topic: str, events: Any, **options: Any) -> None:
        """Publish, and wait until the handlers are done with it, and with what they published in turn."""
        await self.broker.publish(topic, events, **options)
        await self.settled()

    async def settled(self) -> None:
        """Wait until every event is handled, or is a dead letter."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                while not await self._are_settled():  # noqa: ASYNC110 - it is the broker's own state
                    await asyncio.sleep(0.001)
        except TimeoutError:
            busy = [task.handler.label for task in self._tasks if task.in_hand]
            at_work = f"at work: {', '.join(busy)}" if busy else "none is at work: do they have a long backoff?"
            reason = f"handlers were not done after {self.timeout_seconds:g} s; {at_work}"
            raise HandlerError(reason) from None

    async def _are_settled(self) -> bool:
        for task in self._tasks:
            if task.receiving.done():
                task.raise_error()
        if any(task.in_hand for task in self._tasks):
            return False
        await self.broker.topics()  # what was on its way to the broker is there now,
        return self.broker.is_settled and not any(task.in_hand for task in self._tasks)

    async def published(self, topic: str) -> list[dict[str, Any]]:
        """The attributes of all events that were published in a topic, by handlers or by the test."""
        found = self.broker.subscribe(topic, "TRUE", qos=_FROM_START, wants_mark=True)
        async with found:
            return [event.attributes async for event in found]

    async def dead_letters(self, name: str) -> list[dict[str, Any]]:
        """The events that a handler with a name refused too often, each with the reason."""
        return await self.broker.dead_letters(name)
