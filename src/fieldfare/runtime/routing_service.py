"""A routing broker as a process: settings in, a process that connects edges until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from fieldfare.coordination.leading import Leading
from fieldfare.messages import Withdraw
from fieldfare.overlay.routing_broker import RoutingBroker
from fieldfare.runtime.broker_parts import BrokerParts, broker_parts
from fieldfare.runtime.busy_share import BusyShare
from fieldfare.runtime.config import Settings
from fieldfare.runtime.freed_memory import keep_freed_memory
from fieldfare.runtime.host import Host
from fieldfare.runtime.service import loop_factory

_log = logging.getLogger(__name__)
_WITHDRAW_SECONDS_MAX = 10.0  # for edges to go over to another routing broker
_LOOK_SECONDS = 0.05


def route(settings: Settings, announce: Callable[[BrokerParts], None]) -> None:
    """Route until SIGTERM or SIGINT, and until others have the topics. `announce` is called when edges can dial."""
    keep_freed_memory()
    with ExitStack() as stack:
        parts = broker_parts(settings, stack)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_route(parts, announce))


async def _route(parts: BrokerParts, announce: Callable[[BrokerParts], None]) -> None:
    broker = RoutingBroker(parts.member, Leading(parts.member.name), BusyShare())
    host = Host(parts.wrap(broker), *parts.capabilities)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await host.start()
    announce(parts)
    await stopping.wait()
    _log.info("Stopping")
    if broker.can_withdraw:
        stopping.clear()
        await _withdraw(broker, host, stopping)
    await host.stop("the routing broker is stopping")
    _log.info("Stopped")


async def _withdraw(broker: RoutingBroker, host: Host, is_hurried: asyncio.Event) -> None:
    """Serve on until edges have gone over to another routing broker, for a while, or until asked to stop again."""
    host.tell(Withdraw())
    end = time.monotonic() + _WITHDRAW_SECONDS_MAX
    while broker.topics and time.monotonic() < end and not is_hurried.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(is_hurried.wait(), _LOOK_SECONDS)
