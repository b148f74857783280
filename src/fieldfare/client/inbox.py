"""Events of a subscription that wait in the client for the application to take them.

The session keeps an inbox, not the `Subscription` that the application has: so an application that forgets its
subscription loses the last reference to it, and the inbox is let go.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from fieldfare.errors import FieldfareError
from fieldfare.messages import Attach, Delivery, Notice, Position, Subscribe

if TYPE_CHECKING:
    from fieldfare.client.session_runner import SessionRunner

NOTICES_MAX = 100
FORMER_EVENTS_MAX = 10_000


class Inbox:
    """What came for a subscription, and what is known of it. The runner fills it, `Subscription` empties it."""

    def __init__(
        self,
        runner: SessionRunner,
        request: Subscribe | Attach,
        on_notice: Callable[[Notice], object] | None,
        *,
        is_manual: bool = False,
    ) -> None:
        self.id = request.subscription if isinstance(request, Attach) else request.name or ""
        self.topic = "" if isinstance(request, Attach) else request.topic
        self.is_durable = isinstance(request, Attach) or request.name is not None
        self.log = ""  # to which the positions of its events belong, if the service says it
        self.notices: deque[Notice] = deque(maxlen=NOTICES_MAX)
        self.runner = runner
        self.request = request
        self.is_manual = is_manual  # the application says when it is done with an event
        self.events: deque[Delivery] = deque()  # no more than the window
        # Events that were not taken when the log changed. The oldest of too many are dropped: a gap was told then.
        self.of_former_logs: deque[tuple[Delivery, str]] = deque(maxlen=FORMER_EVENTS_MAX)
        self.given: Position | None = None  # and not yet acknowledged
        self.settled = asyncio.Event()  # it is in force, or has ended
        self.arrived = asyncio.Event()  # there are events, or it has ended
        self.error: FieldfareError | None = None
        self.is_ended = False
        self.has_caught_up = False
        self._on_notice = on_notice

    # What the application asks

    def acknowledge_given(self) -> None:
        """The application asks for the next event: it is done with the last."""
        if self.given is not None:
            self.runner.acknowledge(self, self.given)
            self.given = None

    def take(self) -> Delivery:
        """The next event; the application has it from now on."""
        delivery = self.events.popleft()
        self.given = None if self.is_manual else delivery.position
        return delivery

    def settle(self, event: Delivery) -> None:
        """The application is done with one event."""
        self._forget_given(event)
        self.runner.acknowledge_each(self, event.position)

    def refuse(self, event: Delivery, reason: str, delay_seconds: float | None) -> None:
        """The application could not deal with an event."""
        self._forget_given(event)
        self.runner.refuse(self, event, reason, delay_seconds)

    def _forget_given(self, event: Delivery) -> None:
        if self.given == event.position:
            self.given = None

    def detach(self) -> None:
        """Deliver no more of it here: the edge ends a subscription without a name, and keeps one with a name."""
        if not self.is_ended:
            self.end(None)
            self.runner.detach(self)

    def let_go(self) -> None:
        """Nobody has the subscription any more. This may be called in any thread, and after its loop has ended."""
        self.runner.call_soon(self._drop)

    def _drop(self) -> None:
        self.detach()
        self.clear()

    def clear(self) -> None:
        """Nobody will take what came."""
        self.events.clear()
        self.of_former_logs.clear()

    # What the runner tells

    def confirm(self, subscription_id: str, log: str) -> None:
        """It is in force."""
        self.id, self.log = subscription_id, log
        self.settled.set()

    def begin_anew(self, log: str) -> None:
        """What was not taken cannot be acknowledged: it belongs to another log, or is another consumer's now."""
        if log == self.log:
            self.events.clear()
            return
        self.of_former_logs.extend((delivery, self.log) for delivery in self.events)
        self.events.clear()
        self.given, self.log = None, log

    def follow(self, runner: SessionRunner) -> None:
        """Its home is another edge, which this runner connects to."""
        self.runner = runner

    def give(self, events: list[Delivery]) -> None:
        """Events came."""
        self.events.extend(events)
        self.arrived.set()

    def notice(self, notice: Notice) -> None:
        """Something that the subscriber has to know came."""
        if notice.kind == "caught_up":
            self.has_caught_up = True
            self.arrived.set()
            return
        self.notices.append(notice)
        if self._on_notice is not None:
            asyncio.get_running_loop().call_soon(self._on_notice, notice)

    def end(self, error: FieldfareError | None) -> None:
        """No more events come: because of an error, or because nobody wants them."""
        if not self.is_ended:
            self.is_ended, self.error = True, error
            self.settled.set()
            self.arrived.set()
