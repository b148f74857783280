"""Requests about one durable subscription and its single events: refuse, seek, change, pause, and its dead letters."""

from __future__ import annotations

from msgspec.structs import replace
from starlette.responses import Response

from fieldfare.messages import (
    AckEach,
    Change,
    Done,
    DropDeadLetters,
    List,
    Listed,
    Nack,
    PauseDelivery,
    Redrive,
    ResumeDelivery,
    Seek,
    SubscriptionRequest,
)
from fieldfare.runtime.gateway.exchange import REF, Exchange
from fieldfare.runtime.gateway.forms import (
    ChosenLetters,
    HomeQuery,
    LetterCount,
    NewStart,
    RefusedEvent,
    SubscriptionChange,
)
from fieldfare.runtime.gateway.problems import ProblemError, unknown
from fieldfare.runtime.gateway.requests import UnderstoodRequest, json_response


async def refuse_event(call: UnderstoodRequest) -> Response:
    """Refuse an event: it comes again, or becomes a dead letter."""
    body: RefusedEvent = call.body
    check_log(call, body.log)
    name = call.path["subscription"]
    await _say(call, Nack(name, body.position, body.reason, body.delay_seconds, body.attempt))
    return Response(status_code=204)


async def acknowledge_each(call: UnderstoodRequest, positions: list[int]) -> Response:
    """Be done with single events, whoever took them."""
    await _say(call, AckEach(call.path["subscription"], positions))
    return Response(status_code=204)


async def seek(call: UnderstoodRequest) -> Response:
    """Go on elsewhere."""
    body: NewStart = call.body
    await _ask(call, Seek(REF, call.path["subscription"], body.start))
    return Response(status_code=204)


async def change(call: UnderstoodRequest) -> Response:
    """Ask for something else."""
    body: SubscriptionChange = call.body
    frame = Change(REF, call.path["subscription"], body.condition, body.qos, body.consuming, body.webhook)
    await _ask(call, frame)
    return Response(status_code=204)


async def pause(call: UnderstoodRequest) -> Response:
    """Deliver no more."""
    await _ask(call, PauseDelivery(REF, call.path["subscription"]))
    return Response(status_code=204)


async def resume(call: UnderstoodRequest) -> Response:
    """Deliver again."""
    await _ask(call, ResumeDelivery(REF, call.path["subscription"]))
    return Response(status_code=204)


async def redrive(call: UnderstoodRequest) -> Response:
    """Send dead letters again."""
    body: ChosenLetters = call.body
    done = await _ask(call, Redrive(REF, call.path["subscription"], body.ids))
    return json_response(LetterCount(done.count or 0))


async def drop_dead_letters(call: UnderstoodRequest) -> Response:
    """Forget dead letters."""
    body: ChosenLetters = call.body
    done = await _ask(call, DropDeadLetters(REF, call.path["subscription"], body.ids))
    return json_response(LetterCount(done.count or 0))


def check_log(call: UnderstoodRequest, log: str) -> None:
    """Refuse a position of another log."""
    if log and log != call.gateway.options.log_id():
        raise ProblemError(409, "log", "this position belongs to another log: it means nothing here")


async def _ask(call: UnderstoodRequest, frame: SubscriptionRequest) -> Done:
    query: HomeQuery = call.query
    async with Exchange(call.gateway, call.identity) as exchange:
        done, _ = await exchange.ask(replace(frame, log=exchange.log(""), topic=query.topic), Done)
    return done


async def _say(call: UnderstoodRequest, frame: AckEach | Nack) -> None:
    """Say what has no answer, of a subscription that is here; another edge's is told of, none is a 404."""
    query: HomeQuery = call.query
    async with Exchange(call.gateway, call.identity) as exchange:
        ask = List(REF, "subscriptions", subscription=frame.subscription, log=exchange.log(""), topic=query.topic)
        listed, _ = await exchange.ask(ask, Listed)
        if not listed.items:
            raise unknown()
        exchange.send(frame)
