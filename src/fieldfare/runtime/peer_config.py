"""The section `[peers]` of the settings: an edge that is a peer, too, and carries some topics between both.

Here are types and defaults, and how they become a bridge.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fieldfare.errors import ConfigError
from fieldfare.messages import Name
from fieldfare.runtime.socket_addresses import AddressText

if TYPE_CHECKING:
    from fieldfare.client.transport import Transport
    from fieldfare.pastry.certificates import PeerFiles
    from fieldfare.runtime.peers.bridge import PeerBridge

PEER_PATHS = ("secret_file", "tls_ca", "tls_certificate", "tls_key")
_PATIENT_SECONDS = 10 * 365 * 86_400.0  # to be let into the ring: the edge serves its clients meanwhile


class PeerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the edge is a peer, who its ring is, and what is carried."""

    listen: AddressText | None = None  # for other peers, by UDP; none: there is no bridge
    join: tuple[AddressText, ...] = ()  # members of the ring; none: this one is the first
    advertise: AddressText | None = None  # where others reach this peer, if that is not where it listens
    name: Name | None = None  # no other peer has it; none: of the machine, and random
    secret_file: str | None = None  # of the ring, the same for all
    tls_ca: str | None = None  # or certificates: of the authority that admits peers,
    tls_certificate: str | None = None  # this peer's own
    tls_key: str | None = None
    topics: tuple[Name, ...] = ()  # that are carried
    tenant: Name = "default"  # whose topics they are
    lifespan_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] = 60.0  # of events of this edge, among the peers


def peer_bridge(settings: PeerSettings, transport: Transport, folder: Path) -> PeerBridge:
    """The bridge that the settings describe; a ConfigError or LinkSecurityError if they do not fit together."""
    from fieldfare.runtime.link_security import read_secret
    from fieldfare.runtime.peers.bridge import BridgedTopics, PeerBridge
    from fieldfare.runtime.peers.options import PeerOptions
    from fieldfare.runtime.peers.peer import peer

    options = PeerOptions(
        advertise=settings.advertise, join_seconds=_PATIENT_SECONDS, lifespan_seconds=settings.lifespan_seconds
    )
    made = peer(
        settings.join,
        listen=settings.listen or "",
        secret=None if settings.secret_file is None else read_secret(Path(settings.secret_file), "peers.secret_file"),
        certificate=_files(settings),
        name=settings.name,
        folder=folder,
        options=options,
    )
    return PeerBridge(transport, made, BridgedTopics(settings.topics))


def _files(settings: PeerSettings) -> PeerFiles | None:
    ca, certificate, key = settings.tls_ca, settings.tls_certificate, settings.tls_key
    if ca is None and certificate is None and key is None:
        return None
    if ca is None or certificate is None or key is None:
        raise ConfigError("peers: tls_ca, tls_certificate and tls_key go together: set all three, or none")
    from fieldfare.pastry.certificates import PeerFiles

    return PeerFiles(Path(ca), Path(certificate), Path(key))
