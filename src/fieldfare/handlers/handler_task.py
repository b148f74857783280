"""Runs a handler: takes events from its subscription, calls the function, and says to the edge what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from fieldfare.client.aio import Client
from fieldfare.client.events import Event
from fieldfare.client.subscription import Subscription
from fieldfare.client.tracing import processing
from fieldfare.errors import DetachedError, EventError
from fieldfare.handlers.decoding import published
from fieldfare.handlers.handler import Handler
from fieldfare.messages import REASON_CHARACTERS_MAX, Position

_log = logging.getLogger("fieldfare.handlers")


class HandlerTask:
    """A handler that runs. `on_settled` is told of every event that was acknowledged or refused, with the error."""

    def __init__(self, handler: Handler, client: Client, *, waits: bool = True) -> None:
        self.handler = handler
        self.receiving: asyncio.Task[None]
        self.on_settled: Callable[[Event[Any], BaseException | None], object] = lambda *_: None
        self._client, self._waits = client, waits
        self._subscription: Subscription[Any] | None = None
        self._free = asyncio.Semaphore(handler.options.concurrency)
        self._in_hand: dict[tuple[str, Position], asyncio.Task[None]] = {}  # by where their events lie
        self._is_stopping = False

    @property
    def in_hand(self) -> int:
        """How many events are being handled."""
        return len(self._in_hand)

    async def start(self) -> None:
        """Subscribe, and begin to call the function; it is in force when this returns."""
        request = self.handler.request(waits=self._waits)
        inbox = self._client.receive(request, is_manual=True)
        self._subscription = await Subscription(inbox, self.handler.parameter.decoder)
        self.receiving = asyncio.create_task(self._receive(self._subscription))

    async def _receive(self, subscription: Subscription[Any]) -> None:
        while True:
            await self._free.acquire()  # before the next event is asked for: so none waits here in hand
            try:
                event = await anext(subscription)
            except StopAsyncIteration:
                return
            place = event.log, event.position
            if place in self._in_hand:  # the connection broke: what becomes of it is known when it is done
                self._free.release()
                continue
            task = asyncio.create_task(self._handle(subscription, event))
            self._in_hand[place] = task
            task.add_done_callback(partial(self._handled, place))

    def _handled(self, place: tuple[str, Position], _: asyncio.Task[None]) -> None:
        del self._in_hand[place]
        self._free.release()

    async def _handle(self, subscription: Subscription[Any], event: Event[Any]) -> None:
        """Call the function for one event. An error is never more than a refusal of this event."""
        try:
            argument = self.handler.parameter.of(event)
        except EventError as error:
            _log.warning("%s: event %s does not decode: %s", self.handler.label, event.id, error.reason)
            self._refuse(subscription, event, error, error.reason, delay_seconds=0.0)  # no time heals it
            return
        try:
            with processing(event):
                await self._publish(await self._call(argument))
        except asyncio.CancelledError as error:
            if not self._is_stopping:  # else it comes again by itself
                self._refuse(subscription, event, error, "the handler was cancelled")
        except Exception as error:  # noqa: BLE001 - whatever a handler does wrong, the others go on
            _log.warning("%s: event %s is refused", self.handler.label, event.id, exc_info=error)
            self._refuse(subscription, event, error, f"{type(error).__name__}: {error}")
        else:
            subscription.ack(event)
            self.on_settled(event, None)

    def _refuse(
        self,
        subscription: Subscription[Any],
        event: Event[Any],
        error: BaseException,
        reason: str,
        delay_seconds: float | None = None,
    ) -> None:
        subscription.nack(event, reason[:REASON_CHARACTERS_MAX], delay_seconds=delay_seconds)
        self.on_settled(event, error)

    async def _call(self, argument: Any) -> Any:
        if self.handler.is_coroutine:
            return await self.handler.function(argument)
        return await asyncio.to_thread(self.handler.function, argument)

    async def _publish(self, result: Any) -> None:
        topic = self.handler.options.publish_to
        if topic is not None and (events := published(result)):
            await self._client.publish(topic, events)

    # Ending

    async def stop(self, seconds: float) -> None:
        """Take no more events, finish those in hand within some seconds, and leave the subscription."""
        if self._subscription is None:
            return
        self.receiving.cancel()
        await asyncio.wait([self.receiving])
        if self._in_hand:
            await asyncio.wait(list(self._in_hand.values()), timeout=seconds)
        self._is_stopping = True
        for task in list(self._in_hand.values()):
            _log.warning("%s: an event is not done after %g s, and is given up", self.handler.label, seconds)
            task.cancel()
        if self._in_hand:
            await asyncio.wait(list(self._in_hand.values()))
        await self._subscription.aclose()

    def raise_error(self) -> None:
        """Raise what ended it, if it did not end because it was stopped."""
        if self._subscription is None or not self.receiving.done() or self.receiving.cancelled():
            return
        error = self.receiving.exception()
        if isinstance(error, DetachedError):
            reason = f"{error.reason}: another application has the handler's name: give both shared=True"
            raise DetachedError(error.subscription, reason) from error
        if error is not None:
            raise error
