"""A service: settings in, a process that serves until it is told to stop.

What can go wrong goes wrong before the first client: `startup.py` looks at the settings and at what they name on this
machine, then the port is taken and the log opened. Stopping loses nothing: nobody new comes in, what is in hand is
answered and stored, the clients are told to come back, and the log is closed last.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from fieldfare.errors import FieldfareError, ServiceError
from fieldfare.messages import EDGE_RECORDS, DeclareTopic, Done, Identity, Record
from fieldfare.routing.edge import Edge
from fieldfare.routing.interest import warm_up
from fieldfare.runtime.absent import NoPipeline
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.compiling import Compiling
from fieldfare.runtime.config import Server, Settings, Topic
from fieldfare.runtime.gateway.application import application
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.ports import Gateway, GatewayOptions
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.sockets import ConnectionLimits, room_for_connections, server_options
from fieldfare.runtime.host import Host
from fieldfare.runtime.listening import bound
from fieldfare.runtime.log_thread import LogThread
from fieldfare.runtime.metrics import Metrics
from fieldfare.runtime.pipelines import Pipelines
from fieldfare.runtime.revoking import Revoking
from fieldfare.runtime.startup import check_startup, is_open
from fieldfare.runtime.tokens import EVERYBODY, Authenticator
from fieldfare.runtime.webhooks import WebhookOptions, Webhooks
from fieldfare.store.journal import Journal, JournalOptions

Announce = Callable[[str], None]
_BACKLOG = 2048
_SWITCH_SECONDS = 0.001  # that the loop waits at most for Python code in another thread, such as compiling
_log = logging.getLogger(__name__)


def serve(settings: Settings, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT. `announce` is told the address as soon as clients can connect."""
    check_startup(settings)
    folder = Path(settings.server.data)
    is_development = is_open(settings)
    with bound(settings.server) as listener:
        _make(folder)
        log = Journal(
            folder / "log",
            EDGE_RECORDS,
            JournalOptions(settings.log.segment_bytes, settings.log.retention_bytes),
        )
        with log as journal, asyncio.Runner(loop_factory=_loop_factory()) as runner:
            if is_development:
                _log.warning(
                    "DEVELOPMENT MODE: there are no tokens, so every program on this machine may do everything here; "
                    "`fieldfare tokens create` makes one, and ends this"
                )
            runner.run(_serve(settings, journal, Authenticator(folder, is_open=is_development), listener, announce))


async def _serve(
    settings: Settings,
    journal: Journal[Record],
    authenticator: Authenticator,
    listener: socket.socket,
    announce: Announce,
) -> None:
    webhooks = Webhooks(
        Addresses(settings.webhooks.allow), WebhookOptions(settings.webhooks.secret, settings.webhooks.secrets)
    )
    edge = Edge("edge", random.SystemRandom(), settings.edge)
    log = LogThread(journal)
    pipelines = Pipelines(settings) if settings.spark.enabled else None
    host = Host(edge, log, Compiling(), webhooks, pipelines or NoPipeline(), Revoking(authenticator))
    options = GatewayOptions(
        metrics=Metrics(
            edge.statistics,
            lambda tenant: edge.usage(tenant, host.now()),
            log,
            settings.limits.metrics_subscriptions_max,
        ).render,
        why_not_ready=lambda: host.failure or (None if pipelines is None else pipelines.why_not_ready()),
        is_development=authenticator.is_open,
        origins=frozenset(settings.server.origins),
        connections_max=settings.limits.connections_max,
    )
    gateway = Gateway(host, authenticator, options)
    config = uvicorn.Config(application(gateway), **_http_options(settings, gateway))

    async def stop() -> None:
        if pipelines is not None:
            await pipelines.close()
        await host.stop()

    warm_up()
    sys.setswitchinterval(_SWITCH_SECONDS)
    await host.start()
    # Many objects live here for long, and few form cycles: to look for those often would cost a third of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 1000)
    try:
        if pipelines is not None:
            await pipelines.open()
        await _declare(settings.topics, gateway)
    except FieldfareError:
        await stop()
        raise
    await _Server(config, stop, lambda: announce(_address(settings.server, listener))).serve([listener])


async def _declare(topics: Mapping[str, Topic], gateway: Gateway) -> None:
    """Make the topics of the settings, or change those there are."""
    for name, topic in topics.items():
        async with Exchange(gateway, Identity(topic.tenant, EVERYBODY.rights)) as exchange:
            try:
                await exchange.ask(DeclareTopic(REF, name, topic.offered, topic.matching), Done)
            except ProblemError as error:
                raise ServiceError(f"topics.{name}: {error}") from error


class _Server(uvicorn.Server):
    """A server that says when it is ready, and that parts from its clients before it closes their connections."""

    def __init__(
        self, config: uvicorn.Config, stop: Callable[[], Awaitable[None]], on_ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._stop = stop
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        _log.info("Stopping")
        for server in self.servers:
            server.close()
        await self._stop()
        await super().shutdown(sockets)
        _log.info("Stopped")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        """Stop; asked again, wait for nobody. To be stopped is no failure, so the signal is not raised again."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _http_options(settings: Settings, gateway: Gateway) -> dict[str, Any]:
    server = settings.server
    open_max = room_for_connections(2 * settings.limits.connections_max)  # as many may be idle as are at work
    return server_options(gateway, ConnectionLimits(open_max=open_max)) | {
        "ssl_certfile": server.tls_certificate,
        "ssl_keyfile": server.tls_key,
        "proxy_headers": server.behind_proxy,
        "backlog": _BACKLOG,
        "lifespan": "off",
        "log_config": None,
        "timeout_graceful_shutdown": server.shutdown_seconds,
    }


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _address(server: Server, listener: socket.socket) -> str:
    scheme = "http" if server.tls_certificate is None else "https"
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ServiceError(f"server.data: {folder} cannot be made: {error.strerror}") from error
