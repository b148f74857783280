"""Who may be on the ring, and at which place: a closed group, whose members share a secret.

A node's id is a keyed hash of its name. Ids never travel: everybody finds them out from names, so nobody can claim
another place than its name gives. Every packet is sealed with an HMAC.

The secret excludes outsiders only. A member can try names until the hash lies where it wants to be, and can speak in
another member's name. A group whose members do not trust each other needs certificates: see `certificates`.
"""

from __future__ import annotations

import hashlib
import hmac
from abc import ABC, abstractmethod

from fieldfare.messages import PacketCodec
from fieldfare.pastry.ids import ID_BYTES
from fieldfare.pastry.pastry_frames import AnyPastryFrame
from fieldfare.pastry.ports import Card, Contact, NodeId

_REMEMBERED_MAX = 100_000  # names whose ids need not be computed again


class Ids(ABC):
    """The places of nodes on a ring, which follow from their names."""

    def __init__(self) -> None:
        self._ids: dict[str, NodeId] = {}
        self._contacts: dict[Card, Contact] = {}

    @abstractmethod
    def _make_id(self, name: str) -> NodeId:
        """The place that a name gives."""

    def id_of(self, name: str) -> NodeId:
        """The place of a node on the ring."""
        known = self._ids.get(name)
        if known is None:
            if len(self._ids) >= _REMEMBERED_MAX:
                self._ids.clear()
            known = self._ids[name] = self._make_id(name)
        return known

    def contact(self, card: Card) -> Contact:
        """How a node is reached, and its id; the same object for the same card, which saves memory."""
        known = self._contacts.get(card)
        if known is None:
            if len(self._contacts) >= _REMEMBERED_MAX:
                self._contacts.clear()
            known = self._contacts[card] = Contact(self.id_of(card.name), card)
        return known


class ClosedGroup(Ids):
    """The members of one group. Nodes of one process may share it."""

    def __init__(self, secret: bytes) -> None:
        super().__init__()
        self._id_key = _derived(secret, b"the ids of nodes")
        self._seal_key = _derived(secret, b"the seals of packets")

    def _make_id(self, name: str) -> NodeId:
        keyed = hmac.digest(self._id_key, name.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return int.from_bytes(keyed[:ID_BYTES], "big")

    def codec(self) -> PacketCodec[AnyPastryFrame]:
        """How frames become sealed packets and back. What is not sealed with the secret cannot be read."""
        return PacketCodec(AnyPastryFrame, self._seal_key)


def _derived(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"fieldfare pastry: " + purpose, hashlib.sha256)
