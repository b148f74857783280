"""Asking for a ticket, on behalf of a web page."""

from __future__ import annotations

import time
from urllib.parse import quote

from starlette.responses import Response

from fieldfare.runtime.gateway.endpoints import described
from fieldfare.runtime.gateway.exchange import Exchange
from fieldfare.runtime.gateway.forms import NewTicket, TicketMade
from fieldfare.runtime.gateway.requests import UnderstoodRequest, json_response


async def issue(call: UnderstoodRequest) -> Response:
    """A ticket for a subscription that exists here, and that whoever asks may take the events of."""
    body: NewTicket = call.body
    async with Exchange(call.gateway, call.identity) as exchange:
        await described(exchange, body.subscription)  # a ProblemError for what whoever asks may not know of
    secret = call.gateway.tickets.issue(call.identity, body.subscription, body.lifetime_seconds)
    made = TicketMade(
        secret,
        time.time() + body.lifetime_seconds,
        f"/v1/subscriptions/{quote(body.subscription, safe='')}/stream?ticket={secret}",
        f"/v1/ws?ticket={secret}",
    )
    return json_response(made, 201)
