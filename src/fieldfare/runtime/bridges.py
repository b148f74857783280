"""What a service has to other systems: DDS, Kafka and peers. A bridge is a client of the edge in the same process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fieldfare.messages import Identity
from fieldfare.routing.edge import Edge
from fieldfare.runtime.config import Settings
from fieldfare.runtime.embedded import HostTransport
from fieldfare.runtime.host import Host
from fieldfare.runtime.kafka.options import EdgeView
from fieldfare.runtime.kafka.status import LinkStatus
from fieldfare.runtime.peer_config import peer_bridge
from fieldfare.runtime.startup import kafka_links
from fieldfare.runtime.tokens import BRIDGE_RIGHTS

if TYPE_CHECKING:
    from fieldfare.runtime.dds import DdsBridge
    from fieldfare.runtime.kafka.bridge import KafkaBridge
    from fieldfare.runtime.peers.bridge import PeerBridge


@dataclass(frozen=True, slots=True)
class Bridges:
    """The bridges that the settings ask for."""

    dds: DdsBridge | None
    peers: PeerBridge | None
    kafka: KafkaBridge | None

    @property
    def failure(self) -> str | None:
        """Why one of them does nothing any more."""
        bridges = (self.dds, self.peers, self.kafka)
        return next((bridge.failure for bridge in bridges if bridge is not None and bridge.failure), None)

    def kafka_statuses(self, tenant: str) -> list[LinkStatus]:
        """How a tenant's links to Kafka are."""
        return [] if self.kafka is None else self.kafka.statuses(tenant)

    async def open(self) -> None:
        """Begin. The ring of peers may not be there yet, and is not waited for."""
        await asyncio.gather(*[bridge.open() for bridge in (self.dds, self.kafka) if bridge is not None])
        if self.peers is not None:
            self.peers.open_in_background()

    async def close(self) -> None:
        """End all of them."""
        for bridge in (self.dds, self.peers, self.kafka):
            if bridge is not None:
                await bridge.close()


def bridges_of(settings: Settings, host: Host, edge: Edge) -> Bridges:
    """Make the bridges of a service; they do nothing before `open`."""
    return Bridges(_dds_bridge(settings, host), _peer_bridge(settings, host), _kafka_bridge(settings, host, edge))


def _dds_bridge(settings: Settings, host: Host) -> DdsBridge | None:
    if settings.dds.domain is None:
        return None
    from fieldfare.runtime.dds import DdsBridge, DdsOptions, some_name

    dds = settings.dds
    options = DdsOptions(
        settings.dds.domain,
        dds.name or some_name(),
        deployment=dds.deployment,
        topics=dds.topics,
        lease_seconds=dds.lease_seconds,
    )
    return DdsBridge(HostTransport(host, Identity(dds.tenant, BRIDGE_RIGHTS)), options)


def _kafka_bridge(settings: Settings, host: Host, edge: Edge) -> KafkaBridge | None:
    if not (links := kafka_links(settings, [])):
        return None
    from fieldfare.runtime.kafka.bridge import KafkaBridge

    return KafkaBridge(links, lambda tenant: HostTransport(host, Identity(tenant, BRIDGE_RIGHTS)), EdgeView.of(edge))


def _peer_bridge(settings: Settings, host: Host) -> PeerBridge | None:
    if settings.peers.listen is None:
        return None
    transport = HostTransport(host, Identity(settings.peers.tenant, BRIDGE_RIGHTS))
    return peer_bridge(settings.peers, transport, Path(settings.server.data) / "peer")
