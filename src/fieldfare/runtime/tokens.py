"""Tokens: who a client is, proved by 256 random bits that are shown once and kept only as their SHA-256.

A token that random needs no salt or slow hash: it cannot be guessed, and so a table of hashes tells nothing. The file
is replaced as a whole, and a running service sees the change with the next client.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from fieldfare.durable import NewFile
from fieldfare.errors import ConfigError, UnauthenticatedError
from fieldfare.messages import Identity, Right
from fieldfare.runtime.exposure import is_loopback

PREFIX = "ff_"  # so that a token is recognised where it should not be
TICKET_PREFIX = "fft_"  # the same of a ticket, which a gateway makes
EVERYBODY = Identity("default", {"publish": ("*",), "subscribe": ("*",), "manage": ("*",)})
BRIDGE_RIGHTS: dict[Right, tuple[str, ...]] = {**EVERYBODY.rights, "create": ("*",)}  # its topics come from elsewhere
_FILE = "tokens.json"
_VERSION = 1
_log = logging.getLogger(__name__)


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as it is kept: all but itself. Moments are seconds since 1970."""

    id: str
    tenant: str
    rights: dict[Right, tuple[str, ...]]
    sha256: str
    created: float
    expires: float | None = None

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    tokens: list[Token]


class TokenFile:
    """The tokens of a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / _FILE

    def tokens(self) -> list[Token]:
        """All of them, the oldest first."""
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path}: damaged: {error}; restore it, or remove it and make new tokens") from error
        if kept.version != _VERSION:
            raise ConfigError(f"{self.path}: has version {kept.version}, and this program reads {_VERSION}")
        return kept.tokens

    def create(
        self, tenant: str, rights: Mapping[Right, tuple[str, ...]], now: float, lifetime_seconds: float | None = None
    ) -> tuple[Token, str]:
        """A new token, as it is kept and as its owner has to keep it: this is the only time it is seen."""
        secret = PREFIX + secrets.token_urlsafe(32)
        expires = None if lifetime_seconds is None else now + lifetime_seconds
        token = Token(secrets.token_hex(4), tenant, dict(rights), _hash(secret), now, expires)
        with self._changing() as tokens:
            tokens.append(token)
        return token, secret

    def revoke(self, token_id: str) -> Token:
        """Take a token back."""
        with self._changing() as tokens:
            for place, token in enumerate(tokens):
                if token.id == token_id:
                    return tokens.pop(place)
            raise ConfigError(f"there is no token {token_id!r}: `fieldfare tokens list` shows those there are")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        """The tokens, to be changed by one program at a time; written when the change is complete."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with (self._folder / f"{_FILE}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                tokens = self.tokens()
                yield tokens
                with NewFile(self.path, 0o600) as file:
                    file.write(msgspec.json.format(msgspec.json.encode(_Kept(_VERSION, tokens)), indent=2) + b"\n")
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written: {error.strerror}") from error


class Authenticator:
    """Says who a client is. With `is_open`, and for as long as there is no token at all, everybody here is everything.

    A damaged file lets nobody in. A service that has seen a token is never open again, even if the file goes away.
    """

    def __init__(self, folder: Path, *, is_open: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._file = TokenFile(folder)
        self.is_open = is_open
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None  # what the file looked like when it was read
        self._tokens: dict[str, Token] = {}
        self._valid: frozenset[str] = frozenset()  # ids, when `has_changed` was asked last

    def identify(self, token: str | None, client_host: str | None) -> Identity:
        """Who a token belongs to; raises UnauthenticatedError, which does not hold the token."""
        self._reload()
        if self.is_open and is_loopback(client_host or ""):
            return EVERYBODY
        if token is None:
            raise UnauthenticatedError(
                "a token is needed, as in `Authorization: Bearer TOKEN`; `fieldfare tokens create` makes one"
            )
        digest = _hash(token)
        found = self._tokens.get(digest)
        if found is None or not hmac.compare_digest(found.sha256, digest):
            raise UnauthenticatedError("the token is not known here, or it was revoked")
        if not found.is_valid(self._clock()):
            raise UnauthenticatedError(f"the token {found.id} has expired; `fieldfare tokens create` makes a new one")
        return Identity(found.tenant, found.rights, found.id)

    def is_valid(self, identity: Identity) -> bool:
        """Whether somebody who was let in may stay: its token was not revoked since, and has not expired."""
        if identity.token is None:
            return True
        return any(token.id == identity.token and token.is_valid(self._clock()) for token in self._tokens.values())

    def check_again(self, identity: Identity, client_host: str | None) -> None:
        """Raise UnauthenticatedError if who came with a ticket would no longer be let in with what it was made with."""
        self._reload()
        if identity.token is None:
            self.identify(None, client_host)
        elif not self.is_valid(identity):
            raise UnauthenticatedError("the token that this ticket was made with was revoked, or has expired")

    def has_changed(self) -> bool:
        """Whether a token that was valid when this was asked last may be no longer."""
        self._reload()
        valid = frozenset(token.id for token in self._tokens.values() if token.is_valid(self._clock()))
        before, self._valid = self._valid, valid
        return not before <= valid

    def _reload(self) -> None:
        """Read the file if it is not the one that was read last."""
        try:
            stat = self._file.path.stat()
            looks = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except OSError:
            looks = (0, 0, 0)
        if looks == self._seen:
            return
        self._seen = looks
        try:
            self._tokens = {token.sha256: token for token in self._file.tokens()}
        except ConfigError as error:
            self._tokens, self.is_open = {}, False
            _log.error("No client can be let in: %s", error)
        if self._tokens:
            self.is_open = False


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
