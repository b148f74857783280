"""Who is let into a group of peers: those who have its secret, or a certificate of its authority.

On loopback a group may do without either, as a service may do without tokens: every program of the machine is let in
then.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from fieldfare.errors import ConfigError, NotConnectedError, UnauthenticatedError
from fieldfare.messages import Node
from fieldfare.pastry.admission import ClosedGroup, Ids
from fieldfare.runtime.exposure import is_loopback
from fieldfare.runtime.link_security import SECRET_BYTES_MIN

if TYPE_CHECKING:
    from fieldfare.pastry.certificates import PeerFiles

_NO_SECRET = b"on this machine everybody is let in"
_ADVICE = "make one with `openssl rand -base64 32`"


@dataclass(frozen=True, slots=True)
class Credentials:
    """By what a peer and the others know each other, as a program gives it."""

    secret: str | bytes | None = field(default=None, repr=False)
    certificate: PeerFiles | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and self.certificate is not None:
            raise ConfigError("secret: peers know each other by a secret or by certificates: leave one of them out")

    @property
    def hint(self) -> str:
        """What may be wrong where nobody answers. Who has a certificate of another authority is not answered."""
        return "" if self.certificate is None else " Are all certificates signed by the same authority?"


@dataclass(frozen=True, slots=True)
class Admission:
    """A peer's way into its group: which places there are, and how packets are sealed."""

    name: str  # of this peer; empty: it may choose one
    group: Ids
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    proving: Callable[[Any], Node]  # the node, and whatever seals its packets


def admission_by(proof: Credentials, name: str, addresses: tuple[str, ...]) -> Admission:
    """The way in by a secret or a certificate; a ConfigError or LinkSecurityError if there is none.

    `addresses` are this peer's and the members'. If all are on loopback, nothing has to be proved.
    """
    if proof.certificate is not None:
        return _by_certificate(proof.certificate, name)
    group = ClosedGroup(_secret(proof.secret, addresses))
    codec = group.codec()
    return Admission(name, group, codec.encode_line, codec.decode_packet, lambda node: node)


def _secret(secret: str | bytes | None, addresses: tuple[str, ...]) -> bytes:
    if secret is None:
        outside = [address for address in addresses if not is_loopback(address.rpartition(":")[0])]
        if outside:
            raise ConfigError(
                f"secret: {outside[0]} can be reached from other machines, so peers need a secret that they share "
                f"({_ADVICE}), or certificates"
            )
        return _NO_SECRET
    shared = secret.encode() if isinstance(secret, str) else secret
    if len(shared) < SECRET_BYTES_MIN:
        raise ConfigError(f"secret: it has {len(shared)} bytes, and {SECRET_BYTES_MIN} are the least: {_ADVICE}")
    return shared


def _by_certificate(files: PeerFiles, name: str) -> Admission:
    from fieldfare.pastry.certificates import Credentials
    from fieldfare.pastry.sealing import with_certificate

    credentials = Credentials.load(files, time.time())
    certified = credentials.member.name
    if name not in ("", certified):
        raise ConfigError(f"name: {files.certificate} is the certificate of {certified!r}, and not of {name!r}")
    return Admission(certified, credentials.group, bytes, _packet, lambda node: with_certificate(node, credentials))


def _packet(packet: bytes) -> bytes:
    """A packet as it is. What can only be of a group that knows no certificates is not readable."""
    if packet[:1] not in {b"\x01", b"\x02"}:
        raise msgspec.DecodeError("this is no sealed packet")
    return packet


def not_let_in(
    proof: Credentials,
    address: str,
    seeds: Sequence[str],
    strangers: Collection[str],
    seconds: float,
    *,
    is_joined: bool,
) -> NotConnectedError | UnauthenticatedError:
    """Why a peer did not get in by the members that it asked; `strangers` are those that could not read it."""
    if strangers:
        return UnauthenticatedError(
            f"the peer at {', '.join(sorted(strangers))} has another secret, or knows its group by other means: all "
            "peers of a ring need the same secret, or certificates of the same authority"
        )
    if is_joined:
        return NotConnectedError(
            f"the peers around this one did not tell within {seconds:g} s what it has to keep: try again"
        )
    return NotConnectedError(
        f"nobody let this peer in within {seconds:g} s (asked: {', '.join(seeds)}). Is a peer running there, can UDP "
        f"pass both ways, and can others reach this one at {address}?{proof.hint}"
    )


def unguessable_numbers() -> Iterator[int]:
    """Numbers of requests, by which only a peer that was asked can answer."""
    while True:
        yield secrets.randbits(63)
