"""What each request does: it becomes a frame for the broker, and the broker's answer becomes a response.

The broker checks rights, topics, events and conditions, the same for every way in; here is only what HTTP adds.
"""

from __future__ import annotations

import asyncio
import secrets
from urllib.parse import quote

from msgspec.structs import replace
from starlette.responses import Response

from fieldfare.messages import (
    Accepted,
    Ack,
    Attach,
    DeclareTopic,
    Done,
    List,
    Listed,
    Publish,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Unsubscribed,
)
from fieldfare.runtime.gateway.cloudevents import read_publication
from fieldfare.runtime.gateway.consuming import acknowledge_each, check_log
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.forms import (
    TAKEN_OVER,
    Acknowledgement,
    HomeQuery,
    NewSubscription,
    Page,
    PageQuery,
    Publication,
    PublishHeaders,
    PublishQuery,
    StreamHeaders,
    SubscriptionMade,
    TopicSettings,
    Trial,
    Verdicts,
)
from fieldfare.runtime.gateway.problems import ProblemError, invalid, unavailable, unknown
from fieldfare.runtime.gateway.requests import Call, json_response
from fieldfare.runtime.gateway.stream import STREAM_WINDOW, EventStream, poll
from fieldfare.runtime.gateway.tester import try_condition


async def publish(call: Call) -> Response:
    """One event, or many, or CloudEvents."""
    headers: PublishHeaders = call.headers
    query: PublishQuery = call.query
    publication = read_publication(call.media_type, call.content, call.all_headers)
    ids = publication.ids
    if headers.event_id is not None:
        if len(publication.events) != 1 or ids is not None:
            raise invalid("Idempotency-Key is the id of one event that has none of its own")
        ids = [headers.event_id]
    if headers.sequence is not None and headers.publisher is None:
        raise invalid("Fieldfare-Sequence needs a Fieldfare-Publisher")
    frame = Publish(
        REF,
        call.path["topic"],
        publication.events,
        headers.publisher or publication.publisher,
        headers.sequence,
        ids,
        query.qos,
    )
    async with _exchange(call) as exchange:
        accepted, _ = await exchange.ask(frame, Accepted)
    return json_response(Publication(accepted.count, accepted.duplicates))


async def subscribe(call: Call) -> Response:
    """Make a subscription. It is durable, because there is no connection that it could live with."""
    body: NewSubscription = call.body
    name = body.name or f"http-{secrets.token_hex(8)}"
    frame = Subscribe(REF, body.topic, body.condition, body.qos, name, body.after, 1, body.webhook)
    frame = replace(frame, is_name_new=body.name is None, consuming=body.consuming, start=body.start)
    async with _exchange(call) as exchange:
        made, _ = await exchange.ask(replace(frame, log=exchange.log(body.log)), Subscribed)
    answer = SubscriptionMade(made.subscription, made.position, made.is_new, made.log)
    location = f"/v1/subscriptions/{quote(made.subscription, safe='')}"
    return json_response(answer, 201 if made.is_new else 200, {"Location": location})


async def subscriptions(call: Call) -> Response:
    """A page of the subscriptions."""
    query: PageQuery = call.query
    return await _listed(call, List(REF, "subscriptions", query.after, query.limit))


async def topics(call: Call) -> Response:
    """A page of the topics."""
    query: PageQuery = call.query
    return await _listed(call, List(REF, "topics", query.after, query.limit))


async def edges(call: Call) -> Response:
    """The edges of this edge's network, this one first."""
    return await _listed(call, List(REF, "edges"))


async def placement(call: Call) -> Response:
    """The publishers of a tree's broker, and what is known of where they should be."""
    return await _listed(call, List(REF, "placement"))


async def dead_letters(call: Call) -> Response:
    """A page of what a webhook did not take."""
    query: PageQuery = call.query
    async with _exchange(call) as exchange:
        frame = List(REF, "dead_letters", query.after, query.limit, call.path["subscription"], log=exchange.log(""))
        listed, _ = await exchange.ask(frame, Listed)
    return json_response(Page(listed.items, listed.next))


async def subscription(call: Call) -> Response:
    """One subscription."""
    query: HomeQuery = call.query
    async with _exchange(call) as exchange:
        return json_response(await _described(exchange, call.path["subscription"], query.topic))


async def unsubscribe(call: Call) -> Response:
    """End a subscription."""
    query: HomeQuery = call.query
    async with _exchange(call) as exchange:
        frame = Unsubscribe(REF, call.path["subscription"], exchange.log(""), query.topic)
        await exchange.ask(frame, Unsubscribed)
    return Response(status_code=204)


async def take(call: Call) -> Response:
    """Poll."""
    async with _exchange(call) as exchange:
        return json_response(await poll(exchange, call.path["subscription"], call.query))


async def acknowledge(call: Call) -> Response:
    """Move the cursor of a subscription. The broker hears it from whom it serves, or, if nobody, from anybody."""
    body: Acknowledgement = call.body
    name = call.path["subscription"]
    check_log(call, body.log)
    if body.position is None:
        return await acknowledge_each(call, body.positions or [])
    async with _exchange(call) as exchange:
        described = await _described(exchange, name)
        if described["is_shared"]:
            raise ProblemError(409, "shared", "it is shared: name the positions of single events")
        taker = call.gateway.streams.get((call.identity.tenant, name))
        if taker is None and described["is_attached"]:
            raise ProblemError(
                409, "attached", "it is delivered by a WebSocket or a webhook, which acknowledges itself"
            )
        (taker or exchange).send(Ack(name, body.position))
    return Response(status_code=204)


async def stream(call: Call) -> Response:
    """Server-sent events. A reader that another one took over from is told, by 204, not to come again."""
    headers: StreamHeaders = call.headers
    if headers.last_event_id is not None and headers.last_event_id.endswith(TAKEN_OVER):
        return Response(status_code=204)
    place = call.query.after if headers.last_event_id is None else headers.last_event_id
    name = call.path["subscription"]
    exchange = _exchange(call)
    try:
        after, log = exchange.position(place)
        attach = Attach(REF, name, after, STREAM_WINDOW, log=log, topic=call.query.topic)
        subscribed, frames = await exchange.ask(attach, Subscribed)
    except BaseException:
        exchange.close()
        raise
    streams, key = call.gateway.streams, (call.identity.tenant, name)
    streams[key] = exchange

    def ended() -> None:
        exchange.close()
        if streams.get(key) is exchange:
            del streams[key]

    return EventStream(exchange, subscribed, frames, call.gateway.options, ended)


async def declare(call: Call) -> Response:
    """Create or change a topic."""
    body: TopicSettings = call.body
    async with _exchange(call) as exchange:
        await exchange.ask(DeclareTopic(REF, call.path["topic"], body.offered, body.matching), Done)
    return json_response(body)


async def test(call: Call) -> Response:
    """Try a condition on events."""
    body: Trial = call.body
    if body.topic is not None and not call.identity.may("subscribe", body.topic):
        raise ProblemError(403, "forbidden", "this token has no right to subscribe to this topic")
    return json_response(Verdicts(await asyncio.to_thread(try_condition, body.condition, body.events)))


async def websocket(_: Call) -> Response:
    """What a client hears that asks for the WebSocket with a plain request."""
    raise ProblemError(426, "upgrade", "this is a WebSocket: ask for an upgrade", {"Upgrade": "websocket"})


async def health(_: Call) -> Response:
    """The process is alive."""
    return json_response({"status": "alive"})


async def readiness(call: Call) -> Response:
    """The service can do its work."""
    reason = call.gateway.options.why_not_ready()
    if reason is not None:
        raise unavailable(reason)
    return json_response({"status": "ready"})


async def metrics(call: Call) -> Response:
    """Counts of the service, and of the tenant's subscriptions: for those who manage all of its topics."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "metrics are for tokens with the right to manage all topics")
    return Response(
        call.gateway.options.metrics(call.identity.tenant), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def tree(call: Call) -> Response:
    """The tree of brokers as this one sees it, with the tenant's topics: for those who manage all of these."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "the tree is shown to tokens with the right to manage all topics")
    view = call.gateway.options.tree(call.identity.tenant)
    if view is None:
        raise ProblemError(404, "unknown", "this broker is not one of a tree")
    return json_response(view)


def _exchange(call: Call) -> Exchange:
    return Exchange(call.gateway, call.identity)


async def _listed(call: Call, frame: List) -> Response:
    async with _exchange(call) as exchange:
        listed, _ = await exchange.ask(frame, Listed)
    return json_response(Page(listed.items, listed.next))


async def _described(exchange: Exchange, name: str, topic: str | None = None) -> dict[str, object]:
    """A subscription as lists show it; a ProblemError if there is none, or another edge has it."""
    frame = List(REF, "subscriptions", subscription=name, log=exchange.log(""), topic=topic)
    listed, _ = await exchange.ask(frame, Listed)
    if not listed.items:
        raise unknown()
    return listed.items[0]
