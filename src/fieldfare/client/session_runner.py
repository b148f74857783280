"""Runs a session on asyncio: opens connections one after another, and carries frames between each and the session.

Where there are several edges, `edge_choice` says which is next.

One task opens connections and reads, one writes. An event costs no task and no future, only its place in a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import secrets
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from fieldfare.client.awaited_answers import Repeatable
from fieldfare.client.edge_choice import EdgeChoice
from fieldfare.client.inbox import Inbox
from fieldfare.client.options import ClientOptions
from fieldfare.client.outputs import (
    Completed,
    Delivered,
    Failed,
    GoElsewhere,
    Key,
    LogChanged,
    MoveAsked,
    Moved,
    Noticed,
    Output,
    PingsAsked,
    Reconnect,
    Transmit,
    Withdrawn,
)
from fieldfare.client.publisher_move import PublisherMove
from fieldfare.client.session import ClientSession
from fieldfare.client.transport import Connection, Edges, edges_of, log_of
from fieldfare.client.window_budget import WindowBudget
from fieldfare.errors import EdgeFullError, FieldfareError, MovedError, NotConnectedError
from fieldfare.messages import ClientFrame, Delivery, Position, Subscribed, Unsubscribe

Command: TypeAlias = Callable[[Key, float], list[Output]]

_log = logging.getLogger("fieldfare.client")


class SessionRunner:
    """Runs a session over one connection after another, until it is closed.

    `runner_at` finds a runner for the home of a subscription that another edge has, by its URL; None: it may not be
    used.
    """

    def __init__(
        self,
        edges: Edges,
        options: ClientOptions,
        budget: WindowBudget | None = None,
        runner_at: Callable[[str], SessionRunner | None] = lambda _: None,
    ) -> None:
        publisher = f"{options.publisher}-{secrets.token_hex(8)}"
        self.session = ClientSession(publisher, options.session, may_move=len(edges.urls) > 1, budget=budget)
        self.session.windows.on_change = self._set_timer
        self.is_closed = False
        self.on_move: Callable[[Completed | Failed | MoveAsked], None] = lambda _: None  # see `publisher_mover`
        self.on_pings: Callable[[SessionRunner, PingsAsked], None] = lambda *_: None
        self._options = options
        self._edges, self._runner_at = edges, runner_at
        self._choice = EdgeChoice(edges.urls, random.Random(), options, edges.allows)  # noqa: S311 - it is no secret
        self._connection: Connection | None = None
        self._outgoing: list[ClientFrame] = []  # bounded by the publications and windows that the session allows
        self._is_outgoing = asyncio.Event()
        self._answered = asyncio.Event()  # a publication has its answer
        self._opened = asyncio.Event()  # the first connection was opened, or the runner has ended
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._task: asyncio.Task[None] | None = None
        self._failure = "the client is not connected: enter it with `async with`"
        self._ended_by: FieldfareError | None = None  # the error that all which is open ends with; None while it runs

    # Opening and closing

    def start(self) -> None:
        """Begin to open connections."""
        if self._task is not None:
            raise NotConnectedError("a client is entered once: make another with fieldfare.connect")
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._run_ended)

    async def open(self) -> None:
        """Begin, and wait for the first connection."""
        self.start()
        try:
            async with asyncio.timeout(self._options.connect_timeout_seconds):
                await self._opened.wait()
        except (TimeoutError, asyncio.CancelledError) as error:
            await self._stop(NotConnectedError(self._failure))
            if isinstance(error, TimeoutError):
                raise NotConnectedError(self._failure) from None
            raise
        if self._ended_by is not None:
            raise self._ended_by

    async def close(self, *, is_patient: bool) -> None:
        """Acknowledge what was taken, and close; if patient, wait first until all publications have their answers."""
        if is_patient and self._ended_by is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._options.close_timeout_seconds):
                    await self._until(lambda: not self.session.unanswered)
        self.is_closed = True
        await self._stop(NotConnectedError("the client is closed"))

    async def _stop(self, error: FieldfareError) -> None:
        self._end(error)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _end(self, error: FieldfareError) -> None:
        """Fail all that is open: nothing will be answered any more."""
        if self._ended_by is None:
            self._ended_by = error
            self._do(self.session.close(error))
            self._answered.set()
            self._opened.set()
        if self._timer is not None:
            self._timer.cancel()

    def _run_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(
                error if isinstance(error, FieldfareError) else NotConnectedError(f"the client failed: {error!r}")
            )

    @property
    def has_ended(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._ended_by is not None

    @property
    def url(self) -> str:
        """The edge that it uses, or tries to reach."""
        return self._choice.current

    # What the application asks

    def ask(self, command: Command) -> asyncio.Future[Any]:
        """Give the session a command; the future is done when it is answered."""
        self._check()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._do(command(future, self.now))
        return future

    async def wait_for_room(self) -> None:
        """Wait until one more publication may be on its way."""
        await self._until(lambda: self.session.has_room)
        self._check()

    def subscribe(self, inbox: Inbox) -> None:
        """Begin to deliver."""
        self._check()
        self._do(self.session.subscribe(inbox, inbox.request, self.now, is_manual=inbox.is_manual))

    def acknowledge(self, inbox: Inbox, position: Position) -> None:
        """The application is done with all events up to a position."""
        if self._ended_by is None:
            outputs = self.session.ack(inbox, position, self._loop.time())
            if outputs or self.session.subscriptions.ack_at < self._timer_at:
                self._do(outputs)

    def acknowledge_each(self, inbox: Inbox, position: Position) -> None:
        """The application is done with one event."""
        self.perform(self.session.ack_each(inbox, position, self._loop.time()))

    def refuse(self, inbox: Inbox, event: Delivery, reason: str, delay_seconds: float | None) -> None:
        """The application could not deal with an event."""
        self.perform(self.session.nack(inbox, event, reason, delay_seconds))

    def detach(self, inbox: Inbox) -> None:
        """Deliver no more here."""
        self.perform(self.session.detach(inbox))

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function in its loop, from any thread; or not at all if the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def request(self, frame: Repeatable) -> Any:
        """The answer to a request; if it is about a subscription that another edge has, the answer of that edge."""
        try:
            return await self.ask(lambda key, now: self.session.request(key, frame, now))
        except MovedError as error:
            return await self._home(error).request(frame)

    async def unsubscribe(self, inbox: Inbox) -> None:
        """End a subscription."""
        try:
            await self.ask(lambda key, now: self.session.unsubscribe(key, inbox, now))
        except MovedError as error:
            await self._home(error).request(Unsubscribe(0, inbox.id))

    def _home(self, error: MovedError) -> SessionRunner:
        """The runner for the edge that has what was asked for; raises the error if there is no way there."""
        home = None if error.home is None else self._runner_at(error.home)
        if home is None:
            raise error
        return home

    def _check(self) -> None:
        if self._ended_by is not None or self._task is None:
            raise self._ended_by or NotConnectedError(self._failure)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so() and self._ended_by is None:
            self._answered.clear()
            await self._answered.wait()

    # Connections

    async def _run(self) -> None:
        delay_seconds, delay_seconds_max = (
            self._options.reconnect_delay_seconds,
            self._options.reconnect_delay_seconds_max,
        )
        while True:
            url = self._choice.next(self.now, is_in_doubt=self.session.is_in_doubt)
            try:
                connection = await self._edges.transport_to(url).connect()
            except EdgeFullError as error:
                self._failure = str(error)
                if self._choice.full(error.edges) and not self.session.is_in_doubt:
                    continue
            except NotConnectedError as error:
                self._failure = str(error)
            except FieldfareError as error:
                self._failure = str(error)
                if not self._choice.denied():
                    raise
            else:
                opened_at = self.now
                self._choice.opened(edges_of(connection))
                self._opened.set()
                await self._serve(connection)
                self._choice.lost(self.now)
                if self.now - opened_at > delay_seconds_max:
                    delay_seconds = self._options.reconnect_delay_seconds
            _log.info("%s; connecting again", self._failure)
            varied_seconds = delay_seconds * random.uniform(0.5, 1.0)  # noqa: S311 - it is no secret
            is_in_doubt = self.session.is_in_doubt
            await asyncio.sleep(self._choice.pause_seconds(varied_seconds, self.now, is_in_doubt=is_in_doubt))
            delay_seconds = min(2 * delay_seconds, delay_seconds_max)

    async def _serve(self, connection: Connection) -> None:
        """Carry frames until the connection is gone."""
        self._connection = connection
        self._outgoing.clear()
        self._do(self.session.connected(self.now, log_of(connection)))
        writer = asyncio.create_task(self._write(connection))
        try:
            while True:
                frames = await connection.receive()
                now = self.now
                self._do(output for frame in frames for output in self.session.received(frame, now))
        except NotConnectedError as error:
            self._failure = str(error)
        finally:
            self._connection = None
            self.perform(self.session.disconnected(self.now))
            writer.cancel()
            await asyncio.wait([writer])
            with contextlib.suppress(NotConnectedError):
                await connection.send(self._outgoing)  # when the client is closed, these are its last acknowledgements
            await connection.close()

    async def _write(self, connection: Connection) -> None:
        """Send what came together in one turn of the loop, together."""
        while True:
            await self._is_outgoing.wait()
            self._is_outgoing.clear()
            frames, self._outgoing = self._outgoing, []
            try:
                await connection.send(frames)
            except NotConnectedError:
                return  # the task that reads gets the same error, and opens another connection

    # What the session says

    @property
    def now(self) -> float:
        """The time by the clock of its event loop."""
        return self._loop.time()

    def perform(self, outputs: Iterable[Output]) -> None:
        """Do what its session says."""
        if self._ended_by is None:
            self._do(outputs)

    def wake(self) -> None:
        """Have those look again who wait for room."""
        self._answered.set()

    def _do(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Transmit():
                    self._outgoing.append(output.frame)
                    self._is_outgoing.set()
                case Delivered(Inbox() as inbox, events):
                    inbox.give(events)
                case Noticed() | LogChanged() | Withdrawn():
                    self._tell(output)
                case Completed():
                    self._complete(output)
                case Failed():
                    self._fail(output)
                case Moved():
                    self._move(output)
                case MoveAsked():
                    self.on_move(output)
                case PingsAsked():
                    self.on_pings(self, output)
                case GoElsewhere() | Reconnect():
                    self._leave(output)
        self._set_timer()

    def _tell(self, output: Noticed | LogChanged | Withdrawn) -> None:
        """Tell an inbox what became of its subscription."""
        inbox = output.subscription
        if not isinstance(inbox, Inbox):
            return
        if isinstance(output, Noticed):
            inbox.notice(output.notice)
        else:
            inbox.begin_anew(output.log if isinstance(output, LogChanged) else inbox.log)

    def _move(self, moved: Moved) -> None:
        """Have a subscription go on at its home, if there is a way there."""
        home = None if moved.error.home is None else self._runner_at(moved.error.home)
        if home is None:
            self._fail(Failed(moved.subscription, moved.error))
        elif isinstance(moved.subscription, Inbox):
            moved.subscription.follow(home)
            home._do(home.session.adopt(moved.progress, home.now))

    def _leave(self, output: GoElsewhere | Reconnect) -> None:
        """Close the connection, and open another."""
        if isinstance(output, GoElsewhere):
            self._choice.full(output.edges)
        self._failure = output.reason
        if self._connection is not None:
            self._connection.abort()

    def _complete(self, completed: Completed) -> None:
        match completed.key, completed.answer:
            case PublisherMove(), _:
                self.on_move(completed)
            case Inbox() as inbox, Subscribed() as answer:
                inbox.confirm(answer.subscription, answer.log)
            case asyncio.Future() as future, answer:
                if not future.done():
                    future.set_result(answer)
                self._answered.set()

    def _fail(self, failed: Failed) -> None:
        match failed.key:
            case PublisherMove():
                self.on_move(failed)
            case Inbox() as inbox:
                inbox.end(failed.error)
            case asyncio.Future() as future:
                if not future.done():
                    future.set_exception(failed.error)
                self._answered.set()
            case _:
                _log.warning("the service refused something: %s", failed.error)

    def _set_timer(self) -> None:
        at = self.session.next_timer
        if at is not None and at < self._timer_at:  # a timer that comes too early does no harm
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_at(at, self._due)

    def _due(self) -> None:
        self._timer_at = math.inf
        self._do(self.session.timer(self.now))
