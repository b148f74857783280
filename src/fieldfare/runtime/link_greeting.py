"""How two brokers get to know each other over a new connection, without I/O.

Each end sends a hello: its protocol, its name and a random number. Then the dialling end sends its proof, and the
listening end answers with its own, which also says that the link is open. A proof is an HMAC with the deployment's
secret over both hellos and the side that sends it: it is worth nothing in another connection, nor sent back to its
maker. Where certificates alone say who is there, the proofs are empty.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Annotated

import msgspec
from msgspec import Meta

from fieldfare.errors import LinkRefusedError
from fieldfare.messages import Name

GREETING_BYTES_MAX = 1024
REASON_CHARACTERS_MAX = 300
_NONCE_BYTES = 32


class Hello(msgspec.Struct, frozen=True):
    """The first message of each end."""

    protocol: Annotated[str, Meta(max_length=64)]
    name: Name
    nonce: Annotated[bytes, Meta(min_length=_NONCE_BYTES, max_length=_NONCE_BYTES)]


class Proof(msgspec.Struct, frozen=True):
    """The second and last message of each end."""

    mac: Annotated[bytes, Meta(max_length=64)]


_decode_hello = msgspec.json.Decoder(Hello).decode
_decode_proof = msgspec.json.Decoder(Proof).decode
_encode = msgspec.json.Encoder().encode


class Greeting:
    """One end's part in it. `certificate_name` is the broker that the other end's certificate names, if it has one."""

    def __init__(self, protocol: str, name: str, secret: bytes | None, *, is_dialling: bool) -> None:
        self.certificate_name: str | None = None
        self._mine = Hello(protocol, name, secrets.token_bytes(_NONCE_BYTES))
        self._theirs: Hello | None = None
        self._secret, self._is_dialling = secret, is_dialling
        self._is_complete = False

    @property
    def name(self) -> str | None:
        """The broker at the other end, as soon as it has proved that."""
        return self._theirs.name if self._theirs is not None and self._is_complete else None

    def hello(self) -> bytes:
        """What this end says first, whatever the other says."""
        return _encode(self._mine)

    def receive(self, message: bytes) -> bytes | None:
        """What to answer to a message, if anything. A LinkRefusedError if the other end cannot be let in."""
        try:
            if self._theirs is None:
                return self._receive_hello(_decode_hello(message))
            return self._receive_proof(self._theirs, _decode_proof(message))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise LinkRefusedError("what came is no greeting of a broker") from None

    def _receive_hello(self, hello: Hello) -> bytes | None:
        mine = self._mine
        if hello.protocol != mine.protocol:
            raise LinkRefusedError(
                f"the two speak different protocols, {hello.protocol!r} and {mine.protocol!r}: update the older broker"
            )
        if hello.name == mine.name:
            raise LinkRefusedError(f"both ends are called {mine.name!r}: give each broker a name of its own")
        if self.certificate_name not in (None, hello.name):
            raise LinkRefusedError(f"the certificate is that of {self.certificate_name!r}, not of {hello.name!r}")
        self._theirs = hello
        return self._proof(hello, is_dialling=True) if self._is_dialling else None

    def _receive_proof(self, theirs: Hello, proof: Proof) -> bytes | None:
        expected = _mac(self._secret, theirs, self._mine, is_dialling=not self._is_dialling)
        if not hmac.compare_digest(proof.mac, expected):
            raise LinkRefusedError("the proof is wrong: the two brokers have different secrets")
        self._is_complete = True
        return None if self._is_dialling else self._proof(theirs, is_dialling=False)

    def _proof(self, theirs: Hello, *, is_dialling: bool) -> bytes:
        return _encode(Proof(_mac(self._secret, self._mine, theirs, is_dialling=is_dialling)))


def _mac(secret: bytes | None, prover: Hello, verifier: Hello, *, is_dialling: bool) -> bytes:
    """The proof of one end. Its own hello stands first, and `is_dialling` says which end that is."""
    if secret is None:
        return b""
    side = "dialling" if is_dialling else "listening"
    said = (side, prover.protocol, prover.name, prover.nonce, verifier.protocol, verifier.name, verifier.nonce)
    return hmac.digest(secret, msgspec.msgpack.encode(said), "sha256")


def readable(reason: bytes) -> str:
    """A reason that the other end gave, fit for a log: it may be anybody's."""
    text = reason.decode("utf-8", "replace")[:REASON_CHARACTERS_MAX]
    return "".join(character if character.isprintable() else "?" for character in text)
