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
    is_trace,
)
from fieldfare.runtime.cloudevents import BATCH
from fieldfare.runtime.gateway.cloudevents import Publication as NewEvents
from fieldfare.runtime.gateway.cloudevents import read_publications
from fieldfare.runtime.gateway.consuming import acknowledge_each, check_log
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.forms import (
    TAKEN_OVER,
    Acknowledgement,
    HomeQuery,
    NewSubscription,
    Page,
    PageQuery,
    Polled,
    PollQuery,
    Publication,
    PublishHeaders,
    StreamHeaders,
    StreamQuery,
    SubscriptionMade,
    TopicSettings,
    Trial,
    Verdicts,
)
from fieldfare.runtime.gateway.problems import ProblemError, invalid, unavailable, unknown
from fieldfare.runtime.gateway.requests import UnderstoodRequest, json_response
from fieldfare.runtime.gateway.stream import STREAM_WINDOW, EventStream, StreamForm, attached, poll
from fieldfare.runtime.gateway.tester import try_condition


async def publish(call: UnderstoodRequest) -> Response:
    """One event, or many, or CloudEvents. Those of several sources are accepted one after the other."""
    headers: PublishHeaders = call.headers
    publications = read_publications(call.media_type, call.content, call.all_headers)
    first = publications[0]
    if headers.event_id is not None and (len(first.events) != 1 or first.ids is not None):
        raise invalid("Idempotency-Key is the id of one event that has none of its own")
    if headers.sequence is not None and headers.publisher is None:
        raise invalid("Fieldfare-Sequence needs a Fieldfare-Publisher")
    count = duplicates = 0
    async with _exchange(call) as exchange:
        for publication in publications:
            frame = _publish_frame(call, publication, None if headers.sequence is None else headers.sequence + count)
            accepted, _ = await exchange.ask(frame, Accepted)
            count, duplicates = count + accepted.count, duplicates + accepted.duplicates
    return json_response(Publication(count, duplicates))


def _publish_frame(call: UnderstoodRequest, publication: NewEvents, sequence: int | None) -> Publish:
    headers: PublishHeaders = call.headers
    return Publish(
        REF,
        call.path["topic"],
        publication.events,
        headers.publisher or publication.publisher,
        sequence,
        publication.ids if headers.event_id is None else [headers.event_id],
        call.query.qos,
        publication.payloads,
        publication.envelopes,
        headers.trace if headers.trace is not None and is_trace(headers.trace) else None,
    )


async def subscribe(call: UnderstoodRequest) -> Response:
    """Make a subscription. It is durable, because there is no connection that it could live with."""
    body: NewSubscription = call.body
    name = body.name or f"http-{secrets.token_hex(8)}"
    frame = Subscribe(REF, body.topic, body.condition, body.qos, name, body.after, 1, body.webhook)
    frame = replace(frame, is_name_new=body.name is None, consuming=body.consuming, start=body.start)
    frame = replace(frame, webhook_form=body.webhook_form)
    async with _exchange(call) as exchange:
        made, _ = await exchange.ask(replace(frame, log=exchange.log(body.log)), Subscribed)
    answer = SubscriptionMade(made.subscription, made.position, made.is_new, made.log)
    location = f"/v1/subscriptions/{quote(made.subscription, safe='')}"
    return json_response(answer, 201 if made.is_new else 200, {"Location": location})


async def subscriptions(call: UnderstoodRequest) -> Response:
    """A page of the subscriptions."""
    query: PageQuery = call.query
    return await _listed(call, List(REF, "subscriptions", query.after, query.limit))


async def topics(call: UnderstoodRequest) -> Response:
    """A page of the topics."""
    query: PageQuery = call.query
    return await _listed(call, List(REF, "topics", query.after, query.limit))


async def edges(call: UnderstoodRequest) -> Response:
    """The edges of this edge's network, this one first."""
    return await _listed(call, List(REF, "edges"))


async def placement(call: UnderstoodRequest) -> Response:
    """The publishers of a tree's broker, and what is known of where they should be."""
    return await _listed(call, List(REF, "placement"))


async def dead_letters(call: UnderstoodRequest) -> Response:
    """A page of what a webhook did not take."""
    query: PageQuery = call.query
    async with _exchange(call) as exchange:
        frame = List(REF, "dead_letters", query.after, query.limit, call.path["subscription"], log=exchange.log(""))
        listed, _ = await exchange.ask(frame, Listed)
    return json_response(Page(listed.items, listed.next))


async def subscription(call: UnderstoodRequest) -> Response:
    """One subscription."""
    query: HomeQuery = call.query
    async with _exchange(call) as exchange:
        return json_response(await described(exchange, call.path["subscription"], query.topic))


async def unsubscribe(call: UnderstoodRequest) -> Response:
    """End a subscription."""
    query: HomeQuery = call.query
    async with _exchange(call) as exchange:
        frame = Unsubscribe(REF, call.path["subscription"], exchange.log(""), query.topic)
        await exchange.ask(frame, Unsubscribed)
    return Response(status_code=204)


async def take(call: UnderstoodRequest) -> Response:
    """Poll."""
    async with _exchange(call) as exchange:
        name, query = call.path["subscription"], call.query
        polled = await poll(exchange, name, query, await _topic_of(exchange, name, query))
    if isinstance(polled, Polled):
        return json_response(polled)
    where = {"Fieldfare-Position": str(polled.position), "Fieldfare-Log": polled.log}
    return Response(polled.body, headers=where, media_type=BATCH)


async def acknowledge(call: UnderstoodRequest) -> Response:
    """Move the cursor of a subscription. The broker hears it from whom it serves, or, if nobody, from anybody."""
    body: Acknowledgement = call.body
    name = call.path["subscription"]
    check_log(call, body.log)
    if body.position is None:
        return await acknowledge_each(call, body.positions or [])
    async with _exchange(call) as exchange:
        subscription = await described(exchange, name)
        if subscription["is_shared"]:
            raise ProblemError(409, "shared", "it is shared: name the positions of single events")
        taker = call.gateway.streams.get((call.identity.tenant, name))
        if taker is None and subscription["is_attached"]:
            raise ProblemError(
                409, "attached", "it is delivered by a WebSocket or a webhook, which acknowledges itself"
            )
        (taker or exchange).send(Ack(name, body.position))
    return Response(status_code=204)


async def stream(call: UnderstoodRequest) -> Response:
    """Server-sent events. A reader that another one took over from is told, by 204, not to come again."""
    headers: StreamHeaders = call.headers
    if headers.last_event_id is not None and headers.last_event_id.endswith(TAKEN_OVER):
        return Response(status_code=204)
    place = call.query.after if headers.last_event_id is None else headers.last_event_id
    name = call.path["subscription"]
    exchange = _exchange(call)
    try:
        after, log = exchange.position(place)
        topic = await _topic_of(exchange, name, call.query)
        attach = Attach(REF, name, after, STREAM_WINDOW, log=log, topic=call.query.topic)
        subscribed, frames = await attached(exchange, attach)
    except BaseException:
        exchange.close()
        raise
    streams, key = call.gateway.streams, (call.identity.tenant, name)
    streams[key] = exchange

    def ended() -> None:
        exchange.close()
        if streams.get(key) is exchange:
            del streams[key]

    return EventStream(exchange, StreamForm(subscribed, topic), frames, call.gateway.options, ended)


async def declare(call: UnderstoodRequest) -> Response:
    """Create or change a topic."""
    body: TopicSettings = call.body
    async with _exchange(call) as exchange:
        await exchange.ask(DeclareTopic(REF, call.path["topic"], body.offered, body.matching), Done)
    return json_response(body)


async def test(call: UnderstoodRequest) -> Response:
    """Try a condition on events."""
    body: Trial = call.body
    if body.topic is not None and not call.identity.may("subscribe", body.topic):
        raise ProblemError(403, "forbidden", "this token has no right to subscribe to this topic")
    return json_response(Verdicts(await asyncio.to_thread(try_condition, body.condition, body.events)))


async def websocket(_: UnderstoodRequest) -> Response:
    """What a client hears that asks for the WebSocket with a plain request."""
    raise ProblemError(426, "upgrade", "this is a WebSocket: ask for an upgrade", {"Upgrade": "websocket"})


async def health(_: UnderstoodRequest) -> Response:
    """The process is alive."""
    return json_response({"status": "alive"})


async def readiness(call: UnderstoodRequest) -> Response:
    """The service can do its work."""
    reason = call.gateway.options.why_not_ready()
    if reason is not None:
        raise unavailable(reason)
    return json_response({"status": "ready"})


async def metrics(call: UnderstoodRequest) -> Response:
    """Counts of the service, and of the tenant's subscriptions: for those who manage all of its topics."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "metrics are for tokens with the right to manage all topics")
    return Response(
        call.gateway.options.metrics(call.identity.tenant), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def tree(call: UnderstoodRequest) -> Response:
    """The tree of brokers as this one sees it, with the tenant's topics: for those who manage all of these."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "the tree is shown to tokens with the right to manage all topics")
    view = call.gateway.options.tree(call.identity.tenant)
    if view is None:
        raise ProblemError(404, "unknown", "this broker is not one of a tree")
    return json_response(view)


def _exchange(call: UnderstoodRequest) -> Exchange:
    return Exchange(call.gateway, call.identity)


async def _topic_of(exchange: Exchange, name: str, query: PollQuery | StreamQuery) -> str | None:
    """The topic of a subscription, if its events are to be CloudEvents: their source may name it."""
    if query.form == "fieldfare":
        return None
    return str((await described(exchange, name, query.topic))["topic"])


async def _listed(call: UnderstoodRequest, frame: List) -> Response:
    async with _exchange(call) as exchange:
        listed, _ = await exchange.ask(frame, Listed)
    return json_response(Page(listed.items, listed.next))


async def described(exchange: Exchange, name: str, topic: str | None = None) -> dict[str, object]:
    """A subscription as lists show it; a ProblemError if there is none, or another edge has it."""
    frame = List(REF, "subscriptions", subscription=name, log=exchange.log(""), topic=topic)
    listed, _ = await exchange.ask(frame, Listed)
    if not listed.items:
        raise unknown()
    return listed.items[0]
