"""What clients ask of an edge: their links, and the part that deals with each of their frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from fieldfare.messages import (
    Ack,
    AckEach,
    Adopt,
    Advertise,
    Attach,
    Change,
    ClientFrame,
    Close,
    DeclareTopic,
    DeleteTopic,
    Detach,
    DropDeadLetters,
    EdgesPinged,
    Identity,
    List,
    Listed,
    Nack,
    PauseDelivery,
    Publish,
    Redrive,
    Refused,
    ResumeDelivery,
    Seal,
    Seek,
    SetWindow,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from fieldfare.routing import listing
from fieldfare.routing.edge_parts import EdgeParts
from fieldfare.routing.refusal import Refusal
from fieldfare.routing.ticket_rights import require_own_subscription

Answering: TypeAlias = Callable[[str, Identity, Any, float], None]
_EDGES_TOLD_MAX = 16


class ClientRequests:
    """The clients of an edge. What they ask is refused here, or handed to the part that answers."""

    def __init__(self, parts: EdgeParts) -> None:
        self._parts, self._emit = parts, parts.emit
        self._links, self._replies, self._auditing = parts.links, parts.replies, parts.auditing
        self._answering: dict[type, Answering] = self._table(parts)

    def opened(self, link: str, identity: Identity) -> None:
        """A client is at the other end of a link."""
        most = self._parts.options.connections_max
        if len(self._links) >= most:
            reason = f"this edge serves {most:,} clients already, its limit"
            self._replies.send(link, Refused(None, "full", reason, edges=self.edges_with_room()))
            self._emit(Close(link, reason))
        elif (reason_of_quota := self._parts.quotas.connect(identity.tenant)) is not None:
            self._emit(Close(link, reason_of_quota))
        else:
            self._links.add(link, identity)

    def edges_with_room(self) -> tuple[str, ...]:
        """Where clients can go for which there is no place here: the URLs of other edges that have room."""
        return tuple(edge.url for edge in self._parts.edges()[1:] if edge.url and edge.load < 1.0)[:_EDGES_TOLD_MAX]

    def closed(self, link: str, now: float) -> None:
        """A link is gone; perhaps it was not a client's."""
        if (identity := self._links.identity(link)) is not None:
            self._parts.quotas.disconnect(identity.tenant)
            self._parts.advertisements.closed(link)
            self._parts.subscribing.closed(link, now)

    def received(self, link: str, identity: Identity, frame: ClientFrame, now: float) -> None:
        """A client asks for something."""
        if self._auditing is not None:
            self._auditing.asked(link, identity, frame, now)
        try:
            if identity.subscription is not None:
                require_own_subscription(identity, frame)
            self._answering[type(frame)](link, identity, frame, now)
        except Refusal as refusal:
            self._replies.refuse(link, getattr(frame, "ref", None), refusal)

    def _table(self, parts: EdgeParts) -> dict[type, Answering]:
        return {
            Publish: parts.publishing.publish,
            Ack: parts.acknowledging.acknowledge,
            SetWindow: parts.acknowledging.set_window,
            Subscribe: parts.subscribing.subscribe,
            Attach: parts.subscribing.attach,
            Detach: parts.subscribing.detach,
            AckEach: parts.acknowledging.acknowledge_each,
            Nack: parts.acknowledging.refuse,
            Seek: parts.requests.seek,
            Change: parts.requests.change,
            PauseDelivery: parts.requests.pause,
            ResumeDelivery: parts.requests.resume,
            Redrive: parts.requests.redrive,
            DropDeadLetters: parts.requests.drop_dead_letters,
            Unsubscribe: parts.subscribing.unsubscribe,
            DeclareTopic: parts.declaring.declare,
            DeleteTopic: parts.deleting.delete,
            List: self._list,
            Advertise: parts.advertisements.advertise,
            Unadvertise: parts.advertisements.unadvertise,
            EdgesPinged: parts.asked.pinged,
            Seal: parts.moves.seal,
            Adopt: parts.moves.adopt,
        }

    def _list(self, link: str, identity: Identity, frame: List, now: float) -> None:
        parts, name = self._parts, frame.subscription
        is_elsewhere = name is not None and not parts.subscribing.has(identity.tenant, name)
        if is_elsewhere and parts.others.search(link, identity, frame, now):
            return
        self._replies.send(link, Listed(frame.ref, *listing.page(parts, identity, frame, now)))
