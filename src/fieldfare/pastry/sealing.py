"""Packets of nodes that have certificates: each is encrypted and sealed for one receiver by one sender.

Two nodes that do not know each other yet exchange greetings: a certificate, and the sender's life. Their keys, and
their lives, give one key for each direction (ECDH and HKDF). So nobody else can speak in a member's name, a packet
means nothing to any other receiver, and what was recorded in a former life of either cannot be opened. Greetings prove
nothing by themselves: a session counts when a packet has been opened with its key, and replaces another only then.

    greeting   1 | wants an answer | life, 8 bytes | certificate
    sealed     2 | the sender's key id, 8 bytes | counter, 8 bytes | ChaCha20-Poly1305 of a frame, or of nothing
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fieldfare.messages import DatagramReceived, Effect, Input, LoggingNode, Node, SendDatagram, Started
from fieldfare.pastry.certificates import KEY_ID_BYTES, CertificateRefusedError, Credentials, Member
from fieldfare.pastry.pastry_frames import AnyPastryFrame, PastryFrame
from fieldfare.pastry.recent import Age, LatestNumbers, Recent

_GREETING, _SEALED = 1, 2
_LIFE_BYTES = _COUNTER_BYTES = 8
_RANDOM_BITS = 22
_HEAD_BYTES = 1 + KEY_ID_BYTES + _COUNTER_BYTES
_SESSIONS_MAX = 10_000
_ADDRESSES_MAX = 10_000
_WAITING_ADDRESSES_MAX = 1_000
_WAITING_FRAMES_MAX = 16  # for one address, until its node has greeted; those before them are dropped
_GREETING_SECONDS = 0.3  # between greetings to one address
_CONFIRMED_SECONDS = 10.0  # for so long nobody else's greeting changes who is at an address
_CHECKS_PER_SECOND = 200  # certificates that are looked at
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AnyPastryFrame).decode


@dataclass(slots=True)
class SealCounts:
    """Packets that were refused since the start, by their fault."""

    unreadable: int = 0  # neither greeting nor sealed packet, or no frame inside
    unknown: int = 0  # from nodes that have not greeted yet, or in a former life
    unopened: int = 0  # not sealed for this node by the node that they name
    replayed: int = 0  # opened before
    forged: int = 0  # frames in another name than the certificate's
    refused_certificates: int = 0
    too_many_greetings: int = 0


@dataclass(slots=True)
class _Session:
    """The keys for one other node, in one life of both."""

    member: Member
    life: int
    sealing: ChaCha20Poly1305
    opening: ChaCha20Poly1305
    is_confirmed: bool = False


@dataclass(slots=True)
class _Known:
    """One other node: the session in use, and one that nobody has used yet."""

    current: _Session
    candidate: _Session | None = None


@dataclass(slots=True)
class _Place:
    """An address: which node is there, and when it was last heard there."""

    key_id: bytes
    confirmed_at: float = float("-inf")


@dataclass(slots=True)
class Opened:
    """What a packet leads to: a frame, if it was one, and packets to be sent."""

    frame: PastryFrame | None = None
    replies: list[tuple[str, bytes]] = field(default_factory=list)


class Sealing:
    """The sessions of one node."""

    def __init__(self, credentials: Credentials) -> None:
        self.counts = SealCounts()
        self._credentials = credentials
        self._me = credentials.member
        self._life = 0
        self._counter = 0
        self._known: OrderedDict[bytes, _Known] = OrderedDict()  # by key id
        self._places: OrderedDict[str, _Place] = OrderedDict()  # by address
        self._waiting: OrderedDict[str, list[PastryFrame]] = OrderedDict()  # by address
        self._greeted_at: OrderedDict[str, float] = OrderedDict()  # by address
        self._recent = Recent()
        self._latest = LatestNumbers()
        self._checks_left, self._checked_at = float(_CHECKS_PER_SECOND), 0.0

    def begin(self, now: float) -> None:
        """A new life. It has a random part, so that no key is used again, even if the clock was set back."""
        self._life = (int(now * 1000) << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)

    # Sending

    def seal(self, address: str, frame: PastryFrame, now: float) -> list[tuple[str, bytes]]:
        """Packets that bring a frame to an address: at first a greeting, while the frame waits."""
        place = self._places.get(address)
        known = None if place is None else self._known.get(place.key_id)
        if known is not None:
            return [(address, self._sealed(known.current, _encode(frame), now))]
        waiting = self._waiting.setdefault(address, [])
        waiting.append(frame)
        del waiting[:-_WAITING_FRAMES_MAX]
        if len(self._waiting) > _WAITING_ADDRESSES_MAX:
            self._waiting.popitem(last=False)
        return self._greet(address, now, wants_answer=True)

    def _sealed(self, session: _Session, body: bytes, now: float) -> bytes:
        self._counter = max(self._counter + 1, int(now * 1000) << 20)
        counter = self._counter.to_bytes(_COUNTER_BYTES, "big")
        head = bytes((_SEALED,)) + self._me.key_id + counter
        return head + session.sealing.encrypt(b"\0\0\0\0" + counter, body, head)

    def _greet(self, address: str, now: float, *, wants_answer: bool) -> list[tuple[str, bytes]]:
        if now - self._greeted_at.get(address, float("-inf")) < _GREETING_SECONDS:
            return []
        self._greeted_at[address] = now
        self._greeted_at.move_to_end(address)
        if len(self._greeted_at) > _ADDRESSES_MAX:
            self._greeted_at.popitem(last=False)
        head = bytes((_GREETING, wants_answer)) + self._life.to_bytes(_LIFE_BYTES, "big")
        return [(address, head + self._credentials.certificate)]

    # Receiving

    def open(self, address: str, packet: bytes, now: float) -> Opened:
        """What a packet is about. Nothing that others send raises."""
        if len(packet) > _HEAD_BYTES and packet[0] == _SEALED:
            return self._open_sealed(address, packet, now)
        if len(packet) > 2 + _LIFE_BYTES and packet[0] == _GREETING:
            return self._greeted(address, packet, now)
        self.counts.unreadable += 1
        return Opened()

    def _open_sealed(self, address: str, packet: bytes, now: float) -> Opened:
        head = packet[:_HEAD_BYTES]
        key_id, counter = head[1 : 1 + KEY_ID_BYTES], head[1 + KEY_ID_BYTES :]
        known = self._known.get(key_id)
        if known is None:
            self.counts.unknown += 1
            return Opened(replies=self._greet(address, now, wants_answer=True))
        for session in (known.current, known.candidate):
            if session is None:
                continue
            try:
                body = session.opening.decrypt(b"\0\0\0\0" + counter, packet[_HEAD_BYTES:], head)
            except InvalidTag:
                continue
            return self._take(address, known, session, int.from_bytes(counter, "big"), body, now)
        self.counts.unopened += 1
        return Opened(replies=self._greet(address, now, wants_answer=True))

    def _take(self, address: str, known: _Known, session: _Session, counter: int, body: bytes, now: float) -> Opened:
        """A packet has been opened: its sender is who it says."""
        member = session.member
        sender = int.from_bytes(member.key_id, "big")
        item = sender, session.life, counter
        if self._latest.age(sender, counter, now) is Age.TOO_OLD or not self._recent.is_new(item, now):
            self.counts.replayed += 1
            return Opened()
        if session is known.candidate:
            known.current, known.candidate = session, None
        session.is_confirmed = True
        self._known.move_to_end(member.key_id)
        opened = Opened(replies=self._is_at(address, member.key_id, now, is_confirmed=True))
        if not body:
            return opened
        try:
            frame = _decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            self.counts.unreadable += 1
            return opened
        if frame.name != member.name:
            self.counts.forged += 1
            return opened
        opened.frame = frame
        return opened

    def _greeted(self, address: str, packet: bytes, now: float) -> Opened:
        life = int.from_bytes(packet[2 : 2 + _LIFE_BYTES], "big")
        if not self._may_check(now):
            self.counts.too_many_greetings += 1
            return Opened()
        try:
            member = self._credentials.group.member(packet[2 + _LIFE_BYTES :], now)
        except CertificateRefusedError:
            self.counts.refused_certificates += 1
            return Opened()
        if member.key_id == self._me.key_id:
            return Opened()
        known = self._known.get(member.key_id)
        if known is None:
            self._known[member.key_id] = known = _Known(self._session(member, life))
            if len(self._known) > _SESSIONS_MAX:
                self._known.popitem(last=False)
        elif known.current.life != life:
            session = self._session(member, life)
            if known.current.is_confirmed:
                known.candidate = session
            else:
                known.current = session
        opened = Opened()
        if packet[1]:
            opened.replies += self._greet(address, now, wants_answer=False)
        opened.replies += self._is_at(address, member.key_id, now, is_confirmed=False)
        # So that the other learns that these keys are right, though there may be nothing to say.
        opened.replies.append((address, self._sealed(known.candidate or known.current, b"", now)))
        return opened

    def _may_check(self, now: float) -> bool:
        passed, self._checked_at = max(0.0, now - self._checked_at), now
        self._checks_left = min(_CHECKS_PER_SECOND, self._checks_left + passed * _CHECKS_PER_SECOND)
        if self._checks_left < 1:
            return False
        self._checks_left -= 1
        return True

    def _is_at(self, address: str, key_id: bytes, now: float, *, is_confirmed: bool) -> list[tuple[str, bytes]]:
        """A node seems to be at an address, or is: what has waited goes there."""
        place = self._places.get(address)
        if place is None or (
            place.key_id != key_id and (is_confirmed or now - place.confirmed_at > _CONFIRMED_SECONDS)
        ):
            place = self._places[address] = _Place(key_id)
            if len(self._places) > _ADDRESSES_MAX:
                self._places.popitem(last=False)
        if is_confirmed:
            place.confirmed_at = now
        if place.key_id != key_id:
            return []
        known = self._known[key_id]
        return [(address, self._sealed(known.current, _encode(frame), now)) for frame in self._waiting.pop(address, [])]

    def _session(self, member: Member, life: int) -> _Session:
        shared = self._credentials.key.exchange(ec.ECDH(), member.public_key)
        me, other = self._me.key_id + _life_bytes(self._life), member.key_id + _life_bytes(life)
        return _Session(member, life, _cipher(shared, me + other), _cipher(shared, other + me))


def _life_bytes(life: int) -> bytes:
    return life.to_bytes(_LIFE_BYTES, "big")


def _cipher(shared: bytes, direction: bytes) -> ChaCha20Poly1305:
    info = b"fieldfare pastry: packets " + direction
    return ChaCha20Poly1305(HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared))


class SealedNode:
    """A Pastry node whose datagrams are sealed packets: its host sends and receives bytes as they are.

    The node's name must be that of its certificate: `credentials.member.name`, in the group `credentials.group`.
    """

    def __init__(self, inner: Node, credentials: Credentials) -> None:
        self.inner = inner
        self.sealing = Sealing(credentials)

    def handle(self, message: Input, now: float) -> Sequence[Effect]:
        """What to do about something that happened."""
        if isinstance(message, DatagramReceived):
            return self._received(message, now)
        if isinstance(message, Started):
            self.sealing.begin(now)
        return self._sealed(self.inner.handle(message, now), now)

    def _received(self, message: DatagramReceived, now: float) -> list[Effect]:
        opened = self.sealing.open(message.address, message.message, now)
        effects: list[Effect] = [SendDatagram(address, packet) for address, packet in opened.replies]
        if opened.frame is not None:
            effects += self._sealed(self.inner.handle(DatagramReceived(message.address, opened.frame), now), now)
        return effects

    def _sealed(self, effects: Sequence[Effect], now: float) -> list[Effect]:
        sealed: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendDatagram):
                packets = self.sealing.seal(effect.address, effect.message, now)
                sealed += [SendDatagram(address, packet) for address, packet in packets]
            else:
                sealed.append(effect)
        return sealed

    def waits(self) -> list[str]:
        """What the node waits for, for people who look at a failed run."""
        waits: list[str] = getattr(self.inner, "waits", list)()
        return waits


class LoggingSealedNode(SealedNode):
    """The same for a node that keeps a log."""

    inner: LoggingNode

    def recover(self, record: Any) -> None:
        """Take up a record of the checkpoint or the log, in order, before the first message."""
        self.inner.recover(record)

    def checkpoint(self) -> Sequence[Any]:
        """Records that stand for all that were stored so far."""
        return self.inner.checkpoint()


def with_certificate(inner: Node, credentials: Credentials) -> SealedNode:
    """A node that proves itself by a certificate; it keeps a log if the node does."""
    kind = LoggingSealedNode if isinstance(inner, LoggingNode) else SealedNode
    return kind(inner, credentials)
