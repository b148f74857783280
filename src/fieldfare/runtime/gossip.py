"""Gossip on a real network: its datagrams, who may send them, and the addresses of its seeds."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from fieldfare.coordination.gossip_messages import gossip_codec
from fieldfare.errors import ConfigError
from fieldfare.runtime.datagrams import Datagrams
from fieldfare.runtime.exposure import is_loopback

SECRET_BYTES_MIN = 16


def gossip_datagrams(listen_at: tuple[str, int], secret: bytes | None) -> Datagrams:
    """The capability for a gossiping node. All members of a deployment have the same secret.

    Without one everybody is heard who can send a datagram, so that is for this machine only.
    """
    if secret is None and not is_loopback(listen_at[0]):
        raise ConfigError(
            f"gossip: others than this machine can reach {listen_at[0]}, so the deployment needs a secret, which all "
            "its brokers have"
        )
    if secret is not None and len(secret) < SECRET_BYTES_MIN:
        raise ConfigError(f"gossip: the deployment's secret has at least {SECRET_BYTES_MIN} bytes")
    codec = gossip_codec(secret)
    return Datagrams(codec.encode_line, codec.decode_packet, listen_at)


async def resolve_seeds(seeds: Iterable[str]) -> list[str]:
    """The addresses of seeds that are given as host:port; a ConfigError for one that has none."""
    addresses: list[str] = []
    for seed in seeds:
        host, _, port = seed.rpartition(":")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"gossip: the seed {seed!r} is no address host:port that can be found: {error}"
            ) from error
        addresses += [":".join(map(str, address[:2])) for *_, address in found]
    return list(dict.fromkeys(addresses))
