"""What subscribers say of events: that they have them, could not deal with them, or have room for more."""

from __future__ import annotations

from fieldfare.messages import Ack, AckEach, Done, Identity, Nack, SetWindow
from fieldfare.routing.delivery import Deliveries
from fieldfare.routing.ports import Replies
from fieldfare.routing.refusal import Refusal, require
from fieldfare.routing.takers import Takers


class Acknowledging:
    """Acknowledgements and windows, on their way to the delivery of a subscription."""

    def __init__(self, takers: Takers, deliveries: Deliveries, replies: Replies) -> None:
        self._takers, self._deliveries, self._replies = takers, deliveries, replies

    def acknowledge(self, link: str, identity: Identity, frame: Ack, now: float) -> None:
        """A subscriber has got events. Only the client that takes them may say so, or any where there is none."""
        taker = self._takers.get(identity.tenant, frame.subscription)
        if taker is None or not identity.may("subscribe", taker.subscription.topic):
            return
        if taker.link in (link, None) and link not in taker.deaf_to:
            self._deliveries.acknowledge(taker, frame.position, now, is_final=frame.is_final, link=link)

    def acknowledge_each(self, link: str, identity: Identity, frame: AckEach, now: float) -> None:
        """Single events are dealt with. The client that has them says so, or a request over HTTP for that client."""
        taker = self._takers.get(identity.tenant, frame.subscription)
        if taker is not None and link not in taker.deaf_to:
            require(identity, "subscribe", taker.subscription.topic)
            self._deliveries.acknowledge_each(taker, frame.positions, now)

    def refuse(self, link: str, identity: Identity, frame: Nack, now: float) -> None:
        """A consumer could not deal with an event."""
        taker = self._takers.get(identity.tenant, frame.subscription)
        if taker is not None and link not in taker.deaf_to:
            require(identity, "subscribe", taker.subscription.topic)
            self._deliveries.refuse(taker, [frame], now, link)

    def set_window(self, link: str, identity: Identity, frame: SetWindow, now: float) -> None:
        """A subscriber that is served on this link has room for more events, or for fewer."""
        taker = self._takers.get(identity.tenant, frame.subscription)
        if taker is None or link not in taker.links:
            raise Refusal("unknown", f"subscription {frame.subscription!r} is not delivered on this connection")
        self._replies.send(link, Done(frame.ref))
        self._deliveries.set_window(taker, link, frame.window, now)
