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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import uvicorn

from fieldfare.errors import ConfigError, FieldfareError, ServiceError
from fieldfare.messages import EDGE_RECORDS, DeclareTopic, Done, Identity, Member, Record
from fieldfare.partitioning import few_boxes
from fieldfare.routing.edge import Edge
from fieldfare.routing.interest import warm_up
from fieldfare.routing.overlay_ports import OverlayOptions
from fieldfare.routing.tree.tree_broker import TreeBroker
from fieldfare.routing.tree.tree_options import tree_overlay
from fieldfare.routing.tree.view import tree_view
from fieldfare.runtime.absent import NoPipeline
from fieldfare.runtime.addresses import Addresses
from fieldfare.runtime.audit import Auditor, audit_log
from fieldfare.runtime.bridges import Bridges, bridges_of
from fieldfare.runtime.broker_parts import BrokerParts, broker_parts
from fieldfare.runtime.compiling import Compiling
from fieldfare.runtime.config import Server, Settings, Topic
from fieldfare.runtime.freed_memory import keep_freed_memory
from fieldfare.runtime.gateway.application import application
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.ports import Gateway, GatewayOptions
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.sockets import ConnectionLimits, room_for_connections, server_options
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.lag_metrics import LagMetrics
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
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - clients cannot connect to these
_SWITCH_SECONDS = 0.001  # that the loop waits at most for Python code in another thread, such as compiling
_log = logging.getLogger(__name__)


def serve(settings: Settings, announce: Announce, *, is_one_of_many: bool = False) -> None:
    """Serve until SIGTERM or SIGINT. `announce` is told the address as soon as clients can connect.

    An edge that is one of many is a broker among others, as `[broker]` says.
    """
    check_startup(settings)
    if is_one_of_many:
        keep_freed_memory()
    folder = Path(settings.server.data)
    is_development = is_open(settings)
    with bound(settings.server) as listener, ExitStack() as stack:
        _make(folder)
        parts = _parts(settings, listener, stack) if is_one_of_many else None
        log = Journal(
            folder / "log",
            EDGE_RECORDS,
            JournalOptions(settings.log.segment_bytes, settings.log.retention_bytes),
        )
        with log as journal, asyncio.Runner(loop_factory=loop_factory()) as runner:
            if is_development:
                _log.warning(
                    "DEVELOPMENT MODE: there are no tokens, so every program on this machine may do everything here; "
                    "`fieldfare tokens create` makes one, and ends this"
                )
            authenticator = Authenticator(folder, is_open=is_development)
            runner.run(_serve(settings, _Opened(journal, authenticator, listener, parts), announce))


@dataclass(frozen=True, slots=True)
class _Opened:
    """What was opened before the loop runs."""

    journal: Journal[Record]
    authenticator: Authenticator
    listener: socket.socket
    parts: BrokerParts | None  # None: there are no other brokers


def _parts(settings: Settings, listener: socket.socket, stack: ExitStack) -> BrokerParts:
    parts = broker_parts(settings, stack)
    is_named = settings.server.host not in _ANY_ADDRESS
    url = settings.server.url or (_address(settings.server, listener) if is_named else "")
    member = msgspec.structs.replace(parts.member, url=url)
    return replace(parts, member=member)


async def _serve(settings: Settings, opened: _Opened, announce: Announce) -> None:
    authenticator, parts = opened.authenticator, opened.parts
    webhooks = Webhooks(
        Addresses(settings.webhooks.allow), WebhookOptions(settings.webhooks.secret, settings.webhooks.secrets)
    )
    edge = _edge(settings, opened)
    audit = audit_log(settings)
    log = LogThread(opened.journal)
    pipelines = Pipelines(settings) if settings.spark.enabled else None
    node = edge if parts is None else parts.wrap(edge)
    host = Host(
        node,
        log,
        Compiling(),
        webhooks,
        pipelines or NoPipeline(),
        Revoking(authenticator),
        *_telemetry(settings, lambda: metrics.render("")),
        *(() if audit is None else (Auditor(audit),)),
        *(() if parts is None else parts.capabilities),
    )
    bridges = bridges_of(settings, host, edge)
    metrics = _metrics(settings, host, edge, log, pipelines, bridges)
    options = GatewayOptions(
        metrics=metrics.render,
        why_not_ready=lambda: (
            host.failure or (None if pipelines is None else pipelines.why_not_ready()) or bridges.failure
        ),
        log_id=lambda: edge.log_id,
        other_edges=edge.edges_with_room,
        pipelines=lambda tenant: [] if pipelines is None else pipelines.statuses(tenant),
        kafka=lambda tenant: [status.told() for status in bridges.kafka_statuses(tenant)],
        tree=lambda tenant: tree_view(node, tenant) if isinstance(node, TreeBroker) else None,
        is_development=authenticator.is_open,
        origins=frozenset(settings.server.origins),
        connections_max=settings.limits.connections_max,
    )
    gateway = Gateway(host, authenticator, options)
    config = uvicorn.Config(application(gateway), **_http_options(settings, gateway))

    async def stop() -> None:
        await bridges.close()
        if pipelines is not None:
            await pipelines.close()
        await host.stop()

    warm_up()
    if edge.parts.overlay is not None:
        few_boxes.warm_up()
    sys.setswitchinterval(_SWITCH_SECONDS)
    await host.start()
    _collect_rarely()
    try:
        if pipelines is not None:
            await pipelines.open()
        await _declare(settings.topics, gateway)
        await bridges.open()
    except FieldfareError:
        await stop()
        raise
    ready = _address(settings.server, opened.listener)
    if parts is not None and parts.member.role == "tree":
        ready += f" {parts.how_to_join()}"
    await _Server(config, stop, lambda: announce(ready)).serve([opened.listener])


def _edge(settings: Settings, opened: _Opened) -> Edge:
    parts, creates = opened.parts, settings.server.auto_create
    if creates is None:
        creates = opened.authenticator.is_open or parts is not None
    options = replace(settings.edge, auto_create=creates)
    if parts is None:
        return Edge("edge", random.SystemRandom(), options)
    return Edge(parts.member.name, random.SystemRandom(), options, _overlay_options(parts.member))


def _metrics(
    settings: Settings, host: Host, edge: Edge, log: LogThread, pipelines: Pipelines | None, bridges: Bridges
) -> Metrics:
    lags = LagMetrics(
        lambda tenant: edge.lags(tenant, host.now()),
        lambda tenant: edge.topic_loads(tenant, host.now()),
        lambda tenant: () if pipelines is None else pipelines.statuses(tenant),
        settings.limits.metrics_subscriptions_max,
        bridges.kafka_statuses,
    )
    return Metrics(
        edge.statistics,
        lambda tenant: edge.usage(tenant, host.now()),
        log,
        lags,
        lambda: {} if bridges.dds is None else bridges.dds.counts,
        lambda: {} if bridges.peers is None else bridges.peers.counts,
    )


def _collect_rarely() -> None:
    """Many objects live here for long, and few form cycles: to look for those often would cost a third of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 1000)


def _overlay_options(member: Member) -> OverlayOptions:
    return tree_overlay(member) if member.role == "tree" else OverlayOptions(member)


async def _declare(topics: Mapping[str, Topic], gateway: Gateway) -> None:
    """Make the topics of the settings, or change those there are."""
    for name, topic in topics.items():
        async with Exchange(gateway, Identity(topic.tenant, EVERYBODY.rights)) as exchange:
            try:
                await exchange.ask(DeclareTopic(REF, name, topic.offered, topic.matching), Done)
            except ProblemError as error:
                raise ServiceError(f"topics.{name}: {error}") from error


def _telemetry(settings: Settings, metrics: Callable[[], str]) -> Sequence[Capability]:
    """What sends traces and metrics, if somebody wants them."""
    wanted = settings.telemetry
    if wanted.endpoint is None:
        return ()
    try:
        from fieldfare.runtime.telemetry import Telemetry
    except ImportError as error:
        raise ConfigError("telemetry.endpoint needs the extra otel: pip install 'fieldfare[otel]'") from error
    return (Telemetry.to(wanted.endpoint, wanted.metrics_seconds, metrics),)


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


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes event loops: uvloop, where it is installed."""
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
