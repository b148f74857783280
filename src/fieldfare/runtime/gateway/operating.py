"""What those who run topics ask over HTTP: one topic, its end, and how far pipelines are behind."""

from __future__ import annotations

from starlette.responses import Response

from fieldfare.messages import DeleteTopic, Done, List, Listed
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.forms import DeleteQuery, KafkaLinks, Pipelines
from fieldfare.runtime.gateway.problems import ProblemError
from fieldfare.runtime.gateway.requests import UnderstoodRequest, json_response


async def topic(call: UnderstoodRequest) -> Response:
    """One topic, and what goes on in it."""
    name = call.path["topic"]
    async with Exchange(call.gateway, call.identity) as exchange:
        listed, _ = await exchange.ask(List(REF, "topics", topic=name), Listed)
    if not listed.items:
        raise ProblemError(404, "unknown", "there is no such topic, or it is not yours")
    return json_response(listed.items[0])


async def delete_topic(call: UnderstoodRequest) -> Response:
    """Delete a topic."""
    query: DeleteQuery = call.query
    async with Exchange(call.gateway, call.identity) as exchange:
        await exchange.ask(DeleteTopic(REF, call.path["topic"], query.force), Done)
    return Response(status_code=204)


async def kafka(call: UnderstoodRequest) -> Response:
    """What feeds topics from Kafka, and what they feed."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "links to Kafka are shown to tokens with the right to manage all topics")
    return json_response(KafkaLinks(list(call.gateway.options.kafka(call.identity.tenant))))


async def pipelines(call: UnderstoodRequest) -> Response:
    """How far the pipelines of topics that Spark matches are behind."""
    if not call.identity.may("manage", "*"):
        raise ProblemError(403, "forbidden", "pipelines are shown to tokens with the right to manage all topics")
    return json_response(Pipelines([each._asdict() for each in call.gateway.options.pipelines(call.identity.tenant)]))
