"""Who is at the other end of a link: a client with rights, a broker of this deployment, or a peer."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

# `create`: a topic comes into being by being used, also where that is not so for everybody.
Right: TypeAlias = Literal["publish", "subscribe", "manage", "create"]


class Identity(msgspec.Struct, frozen=True, gc=False):
    """A client: its tenant, and the topics for each right, where `*` stands for all."""

    tenant: str
    rights: dict[Right, tuple[str, ...]]
    token: str | None = None  # the id of the token that it proved itself with
    subscription: str | None = None  # it came with a ticket, and may take the events of this one only

    def may(self, right: Right, topic: str) -> bool:
        """Whether this right is given for this topic."""
        return any(
            given in ("*", topic) or (given.endswith("*") and topic.startswith(given[:-1]))
            for given in self.rights.get(right, ())
        )


class BrokerIdentity(msgspec.Struct, frozen=True, gc=False):
    """A broker of the same deployment."""

    name: str


class PeerIdentity(msgspec.Struct, frozen=True, gc=False):
    """A peer of the infrastructure-less mode."""

    id: str


LinkIdentity: TypeAlias = Identity | BrokerIdentity | PeerIdentity
