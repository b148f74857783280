"""How the brokers of a deployment know each other: by a secret that they share, by certificates, or by both.

A secret proves that the other end belongs to the deployment, but hides and protects nothing of what follows: without
TLS it is for loopback alone. With certificates (mutual TLS) each broker has one of its own, signed by the deployment's
authority. It names the broker by a URI, `urn:fieldfare:broker:NAME`, and not by a DNS name: a certificate that the same
authority made for a web server is then no broker's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fieldfare.errors import LinkRefusedError, LinkSecurityError
from fieldfare.runtime.exposure import is_loopback

CERTIFICATE_URI = "urn:fieldfare:broker:"
SECRET_BYTES_MIN = 16
_SECRET_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the certificate of the deployment's authority, this broker's own certificate, and its key."""

    authority: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class LinkSecurity:
    """What a broker proves itself with, and what it demands of others: all that is set here."""

    secret: bytes | None = field(default=None, repr=False)
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        if self.secret is None and self.tls is None:
            raise LinkSecurityError(
                "brokers need a secret or certificates to know each other: set broker.secret_file, or broker.tls_ca, "
                "broker.tls_certificate and broker.tls_key"
            )
        if self.secret is not None and len(self.secret) < SECRET_BYTES_MIN:
            raise LinkSecurityError(
                f"the secret of the deployment has {len(self.secret)} bytes, and {SECRET_BYTES_MIN} are the least: "
                "make one with `openssl rand -base64 32`"
            )

    def why_not(self, host: str) -> str | None:
        """Why links to or from this host are not safe; None if they are."""
        if self.tls is not None or is_loopback(host):
            return None
        return (
            f"{host} is not on this machine, and a secret alone protects links on loopback only: brokers on different "
            "machines need certificates (broker.tls_ca, broker.tls_certificate, broker.tls_key)"
        )


def read_secret(file: Path, setting: str = "broker.secret_file") -> bytes:
    """The secret of a deployment from a file, without the white space around it."""
    try:
        with file.open("rb") as opened:
            secret = opened.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise LinkSecurityError(f"{setting}: {file} cannot be read: {error.strerror}") from error
    if len(secret) > _SECRET_BYTES_MAX:
        raise LinkSecurityError(f"{setting}: {file} has more than {_SECRET_BYTES_MAX:,} bytes: is it the file?")
    return secret.strip()


class TlsContexts:
    """Mutual TLS with the files of a broker, for the links that it dials and for those that it lets in."""

    def __init__(self, files: TlsFiles) -> None:
        self.dialling = _context(files, ssl.PROTOCOL_TLS_CLIENT)
        self.listening = _context(files, ssl.PROTOCOL_TLS_SERVER)
        self.listening.num_tickets = 0  # sessions are not resumed, so that every link shows a certificate
        self._files = files

    def check(self, name: str) -> None:
        """Raise a LinkSecurityError unless other brokers with these files would take this broker for `name`."""
        try:
            found = certificate_name(_own_certificate(self))
        except ssl.SSLError as error:
            reason = getattr(error, "verify_message", "") or error.reason or error
            raise LinkSecurityError(
                f"{self._files.certificate} is no certificate with which a broker can dial and be dialled ({reason}): "
                f"it must be valid now, signed by {self._files.authority}, and for serverAuth and clientAuth"
            ) from error
        except LinkRefusedError as error:
            raise LinkSecurityError(f"{self._files.certificate}: {error}") from error
        if found != name:
            raise LinkSecurityError(
                f"{self._files.certificate} is the certificate of {found!r}, and this broker is {name!r}: use the "
                "broker's own certificate, or change broker.name"
            )


def certificate_name(certificate: Any) -> str:
    """The broker that a certificate names; it is what `SSLObject.getpeercert` returns. A LinkRefusedError if none."""
    uris = [text for kind, text in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]
    names: list[str] = [uri.removeprefix(CERTIFICATE_URI) for uri in uris if uri.startswith(CERTIFICATE_URI)]
    if len(names) != 1:
        raise LinkRefusedError(
            f"the certificate names {len(names)} brokers, and must name one: subjectAltName=URI:{CERTIFICATE_URI}NAME"
        )
    return names[0]


def _context(files: TlsFiles, protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # a broker is known by its name, wherever it is
    context.verify_mode = ssl.CERT_REQUIRED
    _load("broker.tls_ca", (files.authority,), lambda: context.load_verify_locations(files.authority))
    _load(  # with an empty password, since OpenSSL would ask for one at the terminal
        "broker.tls_certificate and broker.tls_key",
        (files.certificate, files.key),
        lambda: context.load_cert_chain(files.certificate, files.key, lambda: ""),
    )
    return context


def _load(setting: str, files: tuple[Path, ...], load: Callable[[], None]) -> None:
    for file in files:
        if not file.is_file():
            raise LinkSecurityError(f"{setting}: there is no file {file}")
    try:
        load()
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise LinkSecurityError(
            f"{setting}: {' and '.join(map(str, files))} cannot be loaded ({reason}): they must be PEM files, and a "
            "certificate and its key belong together, the key without a password"
        ) from error


def _own_certificate(contexts: TlsContexts) -> Any:
    """The certificate that others will see, from a handshake with oneself in memory."""
    to_listener, to_dialler = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialler = contexts.dialling.wrap_bio(to_dialler, to_listener, server_hostname="localhost")
    listener = contexts.listening.wrap_bio(to_listener, to_dialler, server_side=True)
    waiting = [dialler, listener]
    for _ in range(8):  # more turns than any handshake has
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    return listener.getpeercert()
