"""An application of handlers: a client that connects, subscribes for each of them, and ends in good order.

    app = fieldfare.App("http://localhost:7380")

    @app.on("traffic", "speed < 25", name="slow-roads")
    async def slow(reading: Reading) -> None:
        print(reading.road)

    app.run()

On SIGTERM or Ctrl-C it takes no more events, finishes those in hand within `shutdown_seconds`, acknowledges them, and
leaves its lifespans; the others come again when it is back.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from fieldfare.client.aio import Client, connect
from fieldfare.client.options import ClientOptions
from fieldfare.client.transport import Transport
from fieldfare.errors import HandlerError, NotConnectedError
from fieldfare.handlers.decoding import parameter_of
from fieldfare.handlers.handler import Handler, HandlerOptions, HandlerSettings
from fieldfare.handlers.handler_task import HandlerTask

if TYPE_CHECKING:
    from fieldfare.handlers.harness import Harness

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_URL = "http://127.0.0.1:7380"


@dataclass(frozen=True, slots=True)
class Running:
    """The handlers of an application that runs, until `stopping` is set."""

    tasks: list[HandlerTask]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


class App:
    """Functions that are called for events of a service. The options are those of `fieldfare.connect`."""

    def __init__(
        self,
        url: str | Sequence[str] | Transport = DEFAULT_URL,
        *,
        token: str | None = None,
        ca_file: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
        options: ClientOptions | None = None,
        shutdown_seconds: float = 15.0,
    ) -> None:
        self.url = url
        self.token, self.ca_file, self.tls = token, ca_file, tls
        self.client_options = options or ClientOptions()
        self.shutdown_seconds = shutdown_seconds  # for events in hand, when it ends
        self.handlers: list[Handler] = []
        self._lifespans: list[Callable[[], AbstractAsyncContextManager[Any]]] = []
        self._client: Client | None = None
        self._stopping: asyncio.Event | None = None

    # What an application says

    def on(self, topic: str, condition: str = "TRUE", **options: Unpack[HandlerSettings]) -> Callable[[F], F]:
        """Call the decorated function for every event of a topic that satisfies a condition.

        The annotation of its parameter is the type that it is called with. An event is acknowledged when the function
        has returned; if it raises, the event comes again, and at last becomes a dead letter.
        """
        frame = inspect.currentframe()
        names = {} if frame is None or frame.f_back is None else frame.f_back.f_locals

        def decorate(function: F) -> F:
            handler = Handler(function, parameter_of(function, names), topic, condition, HandlerOptions(**options))
            named = [each.options.name for each in self.handlers if each.options.name is not None]
            if handler.options.name in named:
                raise HandlerError(f"two handlers have the name {handler.options.name!r}: each needs its own")
            self.handlers.append(handler)
            return function

        return decorate

    def lifespan(self, function: Callable[[], AsyncIterator[Any]]) -> Callable[[], AsyncIterator[Any]]:
        """Run the decorated async generator around the handlers: up to its `yield` before they get events.

        The rest of it runs when they have ended, and the client is still connected. Several are entered in the order
        in which they stand, and left in reverse.
        """
        self._lifespans.append(asynccontextmanager(function))
        return function

    @property
    def client(self) -> Client:
        """The client, while the application runs: for whatever it does besides."""
        if self._client is None:
            raise NotConnectedError("the application does not run: this is for handlers and lifespans")
        return self._client

    async def publish(self, topic: str, events: Any, **options: Any) -> None:
        """Publish, in a handler or a lifespan; see `Client.publish`."""
        await self.client.publish(topic, events, **options)

    # Running

    def run(self) -> None:
        """Connect, and call handlers until SIGTERM or Ctrl-C. A second one does not wait for what is in hand."""
        asyncio.run(self.run_until_signal())

    async def run_until_signal(self, on_ready: Callable[[], object] = lambda: None) -> None:
        """The same within an event loop."""
        loop = asyncio.get_running_loop()
        serving = asyncio.create_task(self.serve(on_ready))
        signals = 0

        def stop() -> None:
            nonlocal signals
            signals += 1
            if signals == 1 and self._stopping is not None:
                self.stop()
            else:
                serving.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            await serving
        except asyncio.CancelledError:
            if not signals:
                raise
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def serve(self, on_ready: Callable[[], object] = lambda: None) -> None:
        """Connect, and call handlers until `stop`; an error that no handler is to blame for ends it too."""
        made = connect(self.url, token=self.token, ca_file=self.ca_file, tls=self.tls, options=self.client_options)
        async with self.running(made) as running:
            on_ready()
            stopping = asyncio.create_task(running.stopping.wait())
            await asyncio.wait(
                [stopping, *(task.receiving for task in running.tasks)], return_when=asyncio.FIRST_COMPLETED
            )
            stopping.cancel()

    def stop(self) -> None:
        """Have `serve` and `run` end in good order."""
        if self._stopping is not None:
            self._stopping.set()

    @asynccontextmanager
    async def running(self, made: Client, *, waits: bool = True) -> AsyncIterator[Running]:
        """The handlers run, as a client of whatever service. `waits`: between attempts, as the retries say."""
        if self._client is not None:
            raise HandlerError("the application runs already")
        async with AsyncExitStack() as stack:
            self._client = await stack.enter_async_context(made)
            running = Running([HandlerTask(handler, made, waits=waits) for handler in self.handlers])
            self._stopping = running.stopping
            stack.callback(self._over)
            for lifespan in self._lifespans:
                await stack.enter_async_context(lifespan())
            try:
                for task in running.tasks:
                    await task.start()
                yield running
            finally:
                await asyncio.gather(*(task.stop(self.shutdown_seconds) for task in running.tasks))
            for task in running.tasks:
                task.raise_error()

    def _over(self) -> None:
        self._client = self._stopping = None

    def test(self) -> Harness:
        """Run the handlers against a broker inside this process, without a network: enter it with `async with`."""
        from fieldfare.handlers.harness import Harness

        return Harness(self)
