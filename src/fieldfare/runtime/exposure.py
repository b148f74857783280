"""What a service needs before the world may reach it: tokens, TLS, and a folder that it can write.

Deny by default. Only on a loopback address, with no token made yet, is everybody let in, so that a first try is easy.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from pathlib import Path

from fieldfare.errors import ConfigError
from fieldfare.runtime.config import Server


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_development(server: Server, *, has_tokens: bool) -> bool:
    """Whether everybody is let in; raises if the service would be open to others than this machine."""
    is_local = is_loopback(server.host) and not server.behind_proxy
    problems = []
    if not is_local and not has_tokens:
        problems.append(
            f"server.host: others than this machine can reach {server.host}, so clients need tokens, and there are "
            "none: make one with `fieldfare tokens create --publish '*' --subscribe '*' --manage '*'`"
        )
    if not is_local and not server.behind_proxy and server.tls_certificate is None:
        problems.append(
            f"server.host: others than this machine can reach {server.host}, so TLS is needed: set tls_certificate and "
            "tls_key; or, behind a proxy that has TLS, behind_proxy = true, which is also --insecure"
        )
    if problems:
        raise ConfigError(*problems)
    return is_local and not has_tokens


def check_data_folder(server: Server) -> None:
    """Raise if the folder is not there and cannot be made, or cannot be written."""
    folder = Path(server.data).absolute()
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir():
        raise ConfigError(f"server.data: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ConfigError(f"server.data: {nearest} cannot be written by this user")


def check_certificate(server: Server) -> None:
    """Raise if TLS is wanted, and the certificate or its key cannot be loaded."""
    if server.tls_certificate is None and server.tls_key is None:
        return
    if server.tls_certificate is None or server.tls_key is None:
        raise ConfigError("server: tls_certificate and tls_key go together: set both, or neither")
    for name, path in (("tls_certificate", server.tls_certificate), ("tls_key", server.tls_key)):
        if not Path(path).is_file():
            raise ConfigError(f"server.{name}: there is no file {path}")
    try:  # with an empty password, since OpenSSL would ask for one at the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server.tls_certificate, server.tls_key, lambda: "")
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise ConfigError(
            f"server.tls_certificate: {server.tls_certificate} and {server.tls_key} cannot be loaded ({reason}): "
            "they must be PEM files that belong together, the key without a password"
        ) from error
