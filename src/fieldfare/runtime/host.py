"""A node on asyncio: the kernel's rounds in an event loop, and the capabilities that perform what the node asks for.

The host knows nothing of what its node is for. What it can do for a node are its capabilities: links to the processes
and clients around it, and where they are given, a log in a thread, webhooks, a pipeline, datagrams.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from fieldfare.kernel import Kernel
from fieldfare.messages import Identity, Input, LinkIdentity, Node, Started, Warn
from fieldfare.runtime.links import Connection, Frames, Links

_SETTLE_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Capability:
    """Something that a host can do for its node. It provides performers for the types of effects that it knows."""

    is_busy = False  # whether what it was given is not finished; a host that stops waits for that

    def install(self, host: Host) -> None:
        """Provide performers to `host.kernel`. Called once, before anything else."""
        raise NotImplementedError

    async def start(self) -> None:
        """Called before the node is told that it has started."""

    async def stop(self) -> None:
        """Called last, those that were installed first after the others."""


class Host:
    """Runs one node. Everything but what capabilities do in threads happens in the event loop of `start`."""

    def __init__(self, node: Node, *capabilities: Capability) -> None:
        self.kernel = Kernel(node)
        self.failure: str | None = "it has not started"
        self._links = Links(self.kernel.tell, self.wake)
        self._links.provide(self.kernel)
        self.kernel.provide(Warn, lambda effect: _log.warning("%s", effect.text))
        self._capabilities = capabilities
        for capability in capabilities:
            capability.install(self)
        self.kernel.at_round_end(self._check_idle)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: float | None = None
        self._is_round_due = self._has_ended = False
        self._is_idle = asyncio.Event()
        self._epoch = time.time() - time.monotonic()  # the time is read once: when the clock jumps, this does not

    def now(self) -> float:
        """Seconds since 1970, by a clock that only goes forward evenly."""
        return self._epoch + time.monotonic()

    # Living

    async def start(self) -> None:
        """Start the capabilities, of which a log recovers the node, and begin."""
        self.loop = asyncio.get_running_loop()
        for capability in self._capabilities:
            await capability.start()
        self.failure = None
        self.tell(Started())
        await asyncio.sleep(0)

    async def stop(self, reason: str = "the service is stopping: come back soon") -> None:
        """Finish what is in hand, part from the clients, and let the capabilities end."""
        self.failure = reason
        self._links.is_closed = reason
        await self._settle()
        self._links.close_all(reason)
        await self._settle()
        if self._alarm is not None:
            self._alarm.cancel()
        self._has_ended = True
        for capability in reversed(self._capabilities):
            await capability.stop()

    def fail(self, failure: str) -> None:
        """The node can no longer do its work: say so to whoever asks."""
        if failure != self.failure:
            _log.error("%s", failure)
        self.failure = failure

    async def _settle(self) -> None:
        """Until nothing waits and no capability is busy, or for a while: publishing without a pause may prevent it."""
        self._is_idle.clear()
        self.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                await self._is_idle.wait()

    def _check_idle(self) -> None:
        if not self.kernel.has_inputs and not any(capability.is_busy for capability in self._capabilities):
            self._is_idle.set()

    # Links

    def connect(self, identity: Identity, on_frames: Frames, on_close: Callable[[str], None]) -> Connection:
        """A client, which gets, round by round, what the node sends to it."""
        return self._links.accept(identity, on_frames, on_close)

    def part_from(self, reason: str, may_stay: Callable[[LinkIdentity], bool]) -> None:
        """Close the links of all who may not stay."""
        self._links.close_all(reason, may_stay)

    def open_link(
        self, link: str | None, identity: LinkIdentity, on_frames: Frames, on_close: Callable[[str], None]
    ) -> Connection:
        """A link to another node, under the name that this node gave it when it dialled."""
        if link is None:
            return self._links.accept(identity, on_frames, on_close)
        return self._links.open(link, identity, on_frames, on_close)

    # Rounds

    def tell(self, message: Input) -> None:
        """Something happened."""
        self.kernel.tell(message)
        self.wake()

    def tell_first(self, message: Input) -> None:
        """Something happened that has to be handled before all that waits."""
        self.kernel.tell_first(message)
        self.wake()

    def wake(self) -> None:
        """Run a round soon."""
        if not self._is_round_due:
            self._is_round_due = True
            self.loop.call_soon(self._round)

    def _round(self) -> None:
        self._is_round_due = False
        if self._has_ended:
            return
        self.kernel.run_round(self.now())
        self._set_alarm()
        if self.kernel.has_inputs:
            self.wake()

    def _set_alarm(self) -> None:
        at = self.kernel.next_timer_at
        if at == self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = None if at is None else self.loop.call_later(max(0.0, at - self.now()), self._alarm_rang)

    def _alarm_rang(self) -> None:
        self._alarm, self._alarm_at = None, None
        self.wake()
