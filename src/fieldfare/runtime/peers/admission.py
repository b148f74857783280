"""Who is let into a group of peers: those who have its secret.

On loopback a group may do without one, as a service may do without tokens: every program of the machine is let in then.
"""

from __future__ import annotations

from fieldfare.errors import ConfigError
from fieldfare.pastry.admission import ClosedGroup
from fieldfare.runtime.exposure import is_loopback
from fieldfare.runtime.link_security import SECRET_BYTES_MIN

_NO_SECRET = b"on this machine everybody is let in"


def admitted_group(secret: str | bytes | None, addresses: tuple[str, ...]) -> ClosedGroup:
    """The group of a secret. `addresses` are this peer's and the members'; beyond loopback a secret is needed."""
    if secret is None:
        outside = [address for address in addresses if not is_loopback(address.rpartition(":")[0])]
        if outside:
            raise ConfigError(
                f"secret: {outside[0]} can be reached from other machines, so peers need a secret that they share: "
                "make one with `openssl rand -base64 32`"
            )
        return ClosedGroup(_NO_SECRET)
    shared = secret.encode() if isinstance(secret, str) else secret
    if len(shared) < SECRET_BYTES_MIN:
        raise ConfigError(
            f"secret: it has {len(shared)} bytes, and {SECRET_BYTES_MIN} are the least: make one with "
            "`openssl rand -base64 32`"
        )
    return ClosedGroup(shared)
