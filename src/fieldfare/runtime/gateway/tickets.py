"""Tickets: what a web page shows in a URL, since a browser's WebSocket and EventSource cannot send a token in a header.

A ticket is for one subscription and a short time. It may be used again until then, because an EventSource connects
again to the same URL. It is random, kept in memory as its hash only, bounded in number, worth nothing at other edges or
after a restart, and worth nothing any more when the token that it was made with is revoked.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from fieldfare.errors import UnauthenticatedError
from fieldfare.messages import Identity
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.tokens import TICKET_PREFIX

TICKET_SECONDS, TICKET_SECONDS_MAX = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who may use it, for what and until when; the time is that of `Tickets`."""

    identity: Identity
    expires_at: float


@dataclass(slots=True)
class Tickets:
    """All that are valid. Of those of one tenant and of all together there is a bound; who wants more has to wait."""

    tickets_max: int = 10_000
    tenant_tickets_max: int = 1_000
    clock: Callable[[], float] = time.monotonic
    _tickets: dict[str, Ticket] = field(default_factory=dict)  # by hash

    def issue(self, identity: Identity, subscription: str, lifetime_seconds: float) -> str:
        """A new ticket with which nothing can be done but take this subscription's events."""
        now = self.clock()
        self._tickets = {key: ticket for key, ticket in self._tickets.items() if now < ticket.expires_at}
        own = sum(ticket.identity.tenant == identity.tenant for ticket in self._tickets.values())
        if own >= self.tenant_tickets_max or len(self._tickets) >= self.tickets_max:
            raise ProblemError(429, "limit", "there are many tickets already: use those, or wait until some expire")
        secret = TICKET_PREFIX + secrets.token_urlsafe(32)
        narrow = replace(
            identity, rights={"subscribe": identity.rights.get("subscribe", ())}, subscription=subscription
        )
        self._tickets[_hash(secret)] = Ticket(narrow, now + lifetime_seconds)
        return secret

    def identify(self, secret: str) -> Identity:
        """Whose ticket it is; an UnauthenticatedError, which does not hold the ticket, if nobody's."""
        ticket = self._tickets.get(_hash(secret))
        if ticket is None or self.clock() >= ticket.expires_at:
            raise UnauthenticatedError("the ticket is not known here, or it has expired: ask for a new one")
        return ticket.identity


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
