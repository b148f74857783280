"""The table of everything that can be asked over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fieldfare.routing.tree.view import TreeView
from fieldfare.runtime.cloudevents import BATCH, JSON, STRUCTURED
from fieldfare.runtime.gateway import asyncapi, consuming, endpoints, operating
from fieldfare.runtime.gateway.cloudevents import BYTES
from fieldfare.runtime.gateway.forms import (
    Acknowledgement,
    ChosenLetters,
    CloudEvent,
    DeleteQuery,
    EventAttributes,
    HomeQuery,
    KafkaLinks,
    LetterCount,
    NewStart,
    NewSubscription,
    NewTicket,
    Page,
    PageHomeQuery,
    PageQuery,
    Pipelines,
    Polled,
    PollQuery,
    Publication,
    PublishHeaders,
    PublishQuery,
    RefusedEvent,
    StreamHeaders,
    StreamQuery,
    SubscriptionChange,
    SubscriptionMade,
    TicketMade,
    TicketQuery,
    TopicSettings,
    Trial,
    Verdicts,
)
from fieldfare.runtime.gateway.requests import Endpoint
from fieldfare.runtime.gateway.ticket_endpoint import issue

WEBSOCKET_PATH = "/v1/ws"
_EVENT_BODIES: Mapping[str, Any] = {
    JSON: EventAttributes | list[EventAttributes],
    STRUCTURED: CloudEvent,
    BATCH: list[CloudEvent],
    BYTES: BYTES,
}
_ONE = "/v1/subscriptions/{subscription}"

ENDPOINTS = (
    Endpoint(
        "POST", "/v1/topics/{topic}/events", "Publish an event, or a batch of them", endpoints.publish,
        {200: Publication}, _EVENT_BODIES, PublishQuery, PublishHeaders, refusals=(403, 409, 429, 507),
        takes_cloudevents=True,
    ),
    Endpoint(
        "GET", "/v1/edges", "List the edges of this network with their load, this one first", endpoints.edges,
        {200: Page},
    ),
    Endpoint(
        "GET", "/v1/placement", "List the publishers of a tree's broker, and where they should be", endpoints.placement,
        {200: Page}, refusals=(403,),
    ),
    Endpoint(
        "GET", "/v1/tree", "Show the tree of brokers to which this one belongs, as it sees it", endpoints.tree,
        {200: TreeView}, refusals=(403, 404),
    ),
    Endpoint("GET", "/v1/topics", "List the topics", endpoints.topics, {200: Page}, query=PageQuery),
    Endpoint(
        "GET", "/v1/topics/{topic}", "Show a topic, its rate and what it keeps", operating.topic,
        {200: dict[str, Any]}, refusals=(404,),
    ),
    Endpoint(
        "DELETE", "/v1/topics/{topic}", "Delete a topic", operating.delete_topic,
        {204: None}, query=DeleteQuery, refusals=(403, 404, 409, 507),
    ),
    Endpoint(
        "GET", "/v1/kafka", "Show what feeds topics from Kafka, and what they feed", operating.kafka,
        {200: KafkaLinks}, refusals=(403,),
    ),
    Endpoint(
        "GET", "/v1/pipelines", "Show how far the pipelines of Spark topics are behind", operating.pipelines,
        {200: Pipelines}, refusals=(403,),
    ),
    Endpoint(
        "PUT", "/v1/topics/{topic}", "Create a topic, or change what it offers", endpoints.declare,
        {200: TopicSettings}, {JSON: TopicSettings}, refusals=(403, 409, 429, 507),
    ),
    Endpoint(
        "POST", "/v1/subscriptions", "Subscribe", endpoints.subscribe,
        {201: SubscriptionMade, 200: SubscriptionMade}, {JSON: NewSubscription},
        refusals=(403, 409, 421, 422, 429, 507),
    ),
    Endpoint(
        "GET", "/v1/subscriptions", "List the subscriptions", endpoints.subscriptions, {200: Page}, query=PageQuery
    ),
    Endpoint(
        "POST", "/v1/subscriptions/test", "Try a condition on sample events, and see why not", endpoints.test,
        {200: Verdicts}, {JSON: Trial}, refusals=(403, 422),
    ),
    Endpoint(
        "GET", _ONE, "Show a subscription", endpoints.subscription,
        {200: dict[str, Any]}, query=HomeQuery, refusals=(404, 421),
    ),
    Endpoint(
        "DELETE", _ONE, "Unsubscribe", endpoints.unsubscribe,
        {204: None}, query=HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "GET", f"{_ONE}/events", "Poll: take events, or wait for some", endpoints.take,
        {200: {JSON: Polled, BATCH: list[CloudEvent]}}, query=PollQuery, refusals=(403, 404, 409, 421),
    ),
    Endpoint(
        "POST", f"{_ONE}/ack", "Acknowledge all events up to a position, or single ones", endpoints.acknowledge,
        {204: None}, {JSON: Acknowledgement}, PageHomeQuery, refusals=(403, 404, 409, 421), takes_tickets=True,
    ),
    Endpoint(
        "GET", f"{_ONE}/stream", "Server-sent events: each a Delivery with its position as id", endpoints.stream,
        {200: "text/event-stream", 204: None}, query=StreamQuery, headers=StreamHeaders,
        refusals=(403, 404, 409, 421), takes_tickets=True,
    ),
    Endpoint(
        "POST", f"{_ONE}/nack", "Refuse an event: it comes again, or becomes a dead letter", consuming.refuse_event,
        {204: None}, {JSON: RefusedEvent}, PageHomeQuery, refusals=(403, 404, 409, 421), takes_tickets=True,
    ),
    Endpoint(
        "POST", f"{_ONE}/seek", "Go on from a time, a position or the beginning of what is kept", consuming.seek,
        {204: None}, {JSON: NewStart}, HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "POST", f"{_ONE}/change", "Change what a subscription asks for, and keep its place", consuming.change,
        {204: None}, {JSON: SubscriptionChange}, HomeQuery, refusals=(403, 404, 409, 421, 422, 507),
    ),
    Endpoint(
        "POST", f"{_ONE}/pause", "Deliver no more until it is resumed", consuming.pause,
        {204: None}, query=HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "POST", f"{_ONE}/resume", "Go on delivering", consuming.resume,
        {204: None}, query=HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "GET", f"{_ONE}/dead-letters", "List what was refused too often", endpoints.dead_letters,
        {200: Page}, query=PageQuery, refusals=(403, 404, 421),
    ),
    Endpoint(
        "POST", f"{_ONE}/dead-letters/redrive", "Send dead letters again", consuming.redrive,
        {200: LetterCount}, {JSON: ChosenLetters}, HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "POST", f"{_ONE}/dead-letters/drop", "Forget dead letters", consuming.drop_dead_letters,
        {200: LetterCount}, {JSON: ChosenLetters}, HomeQuery, refusals=(403, 404, 421, 507),
    ),
    Endpoint(
        "POST", "/v1/tickets", "Make a ticket, with which a web page takes one subscription's events", issue,
        {201: TicketMade}, {JSON: NewTicket}, refusals=(404, 421),
    ),
    Endpoint(
        "GET", WEBSOCKET_PATH, "A WebSocket: lines of frames, with the subprotocol fieldfare.v1", endpoints.websocket,
        {101: None}, query=TicketQuery, refusals=(426,),
    ),
    asyncapi.ENDPOINT,
    Endpoint("GET", "/healthz", "Whether the process is alive", endpoints.health, {200: dict[str, str]}, is_open=True),
    Endpoint("GET", "/readyz", "Whether it can serve", endpoints.readiness, {200: dict[str, str]}, is_open=True),
    Endpoint("GET", "/metrics", "Metrics for Prometheus", endpoints.metrics, {200: "text/plain"}, refusals=(403,)),
)  # fmt: skip
