"""What a client may do that came with a ticket: take the events of one subscription, and nothing else."""

from __future__ import annotations

from fieldfare.messages import Ack, AckEach, Attach, ClientFrame, Detach, Identity, List, Nack, SetWindow
from fieldfare.routing.refusal import Refusal

_ALLOWED = (Attach, Ack, AckEach, Nack, Detach, List, SetWindow)


def require_own_subscription(identity: Identity, frame: ClientFrame) -> None:
    """Refuse what is not about the subscription that a client's ticket is for; who came with a token has no such."""
    own = identity.subscription
    if own is None or (isinstance(frame, _ALLOWED) and frame.subscription == own and not _is_list_of_others(frame)):
        return
    raise Refusal("forbidden", "a ticket is good for taking the events of one subscription, and for nothing else")


def _is_list_of_others(frame: ClientFrame) -> bool:
    return isinstance(frame, List) and frame.what != "subscriptions"
