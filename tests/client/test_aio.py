"""Publishing and subscribing with the client for asyncio, against a service that misbehaves on request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from tests.client.fake import QUICK, FakeService, faking, refusing, story

import fieldfare
from fieldfare.client.aio import Client
from fieldfare.client.options import ClientOptions, SessionOptions
from fieldfare.errors import (
    DetachedError,
    ForbiddenError,
    IncompatibleQosError,
    NotFoundError,
    RefusedError,
)
from fieldfare.messages import Ack, ClientFrame, EdgeFrame, List, Nack, Notice, Publish, Subscribe, Unsubscribe
from fieldfare.qos import Requested


@story
async def test_publish_and_subscribe(client: Client, service: FakeService) -> None:
    subscription = await client.subscribe("traffic", "speed < 25")
    await client.publish("traffic", {"speed": 20})
    await client.publish("traffic", [{"speed": 21}, {"speed": 22}])
    events = [await anext(subscription) for _ in range(3)]
    assert [event.attributes for event in events] == [{"speed": 20}, {"speed": 21}, {"speed": 22}]
    assert [event.position for event in events] == [0, 1, 2]
    assert (events[0].id, events[0].topic, events[0].subscription) == ("e0", "traffic", subscription.id)
    assert (events[0].json, events[0].publisher, events[0].at) == (b'{"speed":20}', None, 0.0)
    assert "speed" in repr(events[0])
    assert service.frames(Subscribe)[0].condition == "speed < 25"


@story
async def test_a_loop_over_a_subscription_needs_no_await_before(client: Client, service: FakeService) -> None:
    received = []
    subscription = client.subscribe("t", "TRUE")
    await client.publish("t", [{"n": n} for n in range(3)])  # after Subscribe, on the same connection
    async for event in subscription:
        received.append(event.attributes["n"])
        if len(received) == 3:
            break
    assert received == [0, 1, 2]
    assert len(service.frames(Subscribe)) == 1


@story
async def test_publications_at_once_share_messages_and_keep_their_order(client: Client, service: FakeService) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(client.publish("t", {"n": number}))
    assert [msgspec.json.decode(event)["n"] for _, event in service.edge.log] == list(range(200))
    assert service.messages < 20


def test_publishing_waits_while_too_much_has_no_answer() -> None:
    async def main() -> None:
        options = ClientOptions(session=SessionOptions(unanswered_publications_max=4), close_timeout_seconds=0.01)
        async with faking() as service, fieldfare.connect(service.url, options=options) as client:
            service.is_silent = True
            futures = [await client.publish_soon("t", {"n": number}) for number in range(4)]
            fifth = asyncio.create_task(client.publish_soon("t", {"n": 4}))
            await service.until(lambda: len(service.frames(Publish)) == 4)
            assert not fifth.done()
            service.is_silent = False
            service.drop()
            await asyncio.gather(*futures)
            await (await fifth)
            assert len(service.edge.log) == 5

    asyncio.run(main())


@story
async def test_publications_are_accepted_once_although_connections_break(client: Client, service: FakeService) -> None:
    async def breaking() -> None:
        for _ in range(10):
            await asyncio.sleep(0.02)
            service.drop()

    breaker = asyncio.create_task(breaking())
    number = 0
    while not breaker.done():
        await client.publish("t", [{"n": number}, {"n": number + 1}])
        number += 2
    assert [msgspec.json.decode(event)["n"] for _, event in service.edge.log] == list(range(number))
    assert len(service.handshakes) > 1


@pytest.mark.parametrize("name", [None, "mine"])
def test_a_subscription_resumes_and_gives_each_event_once(name: str | None) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(120),
            faking() as service,
            fieldfare.connect(service.url, options=QUICK) as client,
        ):
            options: Any = {} if name is None else {"name": name}
            subscription = await client.subscribe("t", "TRUE", window=5, **options)
            await client.publish("t", [{"n": n} for n in range(60)])
            received = []
            async for event in subscription:
                received.append(event.attributes["n"])
                if len(received) in (7, 20, 33):
                    service.drop()
                if len(received) == 60:
                    break
            assert received == list(range(60))
            assert len(service.handshakes) == 4

    asyncio.run(main())


@story
async def test_an_event_is_acknowledged_when_the_next_is_asked_for(client: Client, service: FakeService) -> None:
    subscription = await client.subscribe("t", "TRUE", name="mine")
    await client.publish("t", [{"n": 0}, {"n": 1}])
    await anext(subscription)
    await client.topics()
    assert service.frames(Ack) == []
    event = await anext(subscription)
    await service.until(lambda: service.frames(Ack) == [Ack("mine", 0)])
    subscription.acknowledge(event)
    await service.until(lambda: service.frames(Ack)[-1] == Ack("mine", 1))


@story
async def test_a_crash_while_dealing_with_an_event_brings_it_again(client: Client, service: FakeService) -> None:
    async def invert() -> None:
        async with client.subscribe("t", "TRUE", name="mine") as subscription:
            await client.publish("t", [{"n": 1}, {"n": 0}])
            async for event in subscription:
                assert 1 / event.attributes["n"]

    with pytest.raises(ZeroDivisionError):
        await invert()
    async with client.attach("mine") as again:
        assert service.edge.cursors["mine"].acked == 0
        assert (await anext(again)).attributes == {"n": 0}


@story
async def test_a_slow_application_holds_back_its_own_deliveries(client: Client, service: FakeService) -> None:
    slow = await client.subscribe("t", "TRUE", window=10)
    quick = await client.subscribe("t", "TRUE", window=10)
    assert len(service.edge.attached) == 2
    for start in range(0, 100, 10):
        await client.publish("t", [{"n": n} for n in range(start, start + 10)])
    assert [(await anext(quick)).attributes["n"] for _ in range(100)] == list(range(100))
    assert len(slow._inbox.events) == 10
    assert [(await anext(slow)).attributes["n"] for _ in range(100)] == list(range(100))


@story
async def test_leaving_a_context_ends_an_unnamed_subscription_only(client: Client, service: FakeService) -> None:
    async with client.subscribe("t", "TRUE"), client.subscribe("t", "TRUE", name="mine"):
        assert len(service.edge.attached) == 2
    await client.topics()
    assert set(service.edge.cursors) == {"mine"}
    assert service.edge.attached == set()
    await client.unsubscribe("mine")
    assert not service.edge.cursors
    with pytest.raises(NotFoundError):
        await client.unsubscribe("mine")


@story
async def test_an_ended_subscription_gives_what_had_arrived_and_stops(client: Client, service: FakeService) -> None:
    subscription = await client.subscribe("t", "TRUE")
    await client.publish("t", [{"n": 0}, {"n": 1}])
    assert (await anext(subscription)).attributes == {"n": 0}
    await client.unsubscribe(subscription)
    await subscription.unsubscribe()  # again does nothing
    assert [event.attributes async for event in subscription] == [{"n": 1}]
    assert len(service.frames(Unsubscribe)) == 1


class Speed(msgspec.Struct):
    speed: float
    road: str = "?"


@dataclass
class Road:
    road: str


@story
async def test_events_have_the_type_that_is_asked_for(client: Client, service: FakeService) -> None:
    speeds = await client.subscribe("t", "TRUE", type=Speed)
    roads = await client.subscribe("t", "TRUE", type=Road)
    await client.publish("t", Speed(12.5, "A10"))
    await client.publish("t", Road("A2"))
    await client.publish("t", b'{"speed": 1}')
    assert len(service.edge.log) == 3
    assert (await anext(speeds)).attributes == Speed(12.5, "A10")
    assert [(await anext(roads)).attributes for _ in range(2)] == [Road("A10"), Road("A2")]
    assert (await anext(speeds)).attributes == Speed(1)
    await service.until(lambda: bool(service.frames(Nack)))
    (refused,) = service.frames(Nack)  # what has another type is not given to the application
    assert (refused.subscription, refused.position) == (speeds.id, 1)
    assert "speed" in refused.reason


@story
async def test_notices_are_told(client: Client, service: FakeService) -> None:
    told: list[Notice] = []
    came = asyncio.Event()

    def on_notice(notice: Notice) -> None:
        told.append(notice)
        came.set()

    subscription = await client.subscribe("t", "TRUE", on_notice=on_notice)
    await service.say(Notice(subscription.id, "deadline", "nothing came"))
    await came.wait()
    assert [notice.kind for notice in told] == ["deadline"]
    assert list(subscription.notices) == told


@story
async def test_a_subscription_that_another_took_ends_with_an_error(client: Client, service: FakeService) -> None:
    subscription = await client.subscribe("t", "TRUE", name="mine")
    await service.say(Notice(subscription.id, "detached", "another came"))
    with pytest.raises(DetachedError, match="another came"):
        await anext(subscription)


@story
async def test_refusals_are_raised(client: Client, service: FakeService) -> None:
    service.answer = refusing(Subscribe, code="qos", reason="too much")
    with pytest.raises(IncompatibleQosError, match="too much"):
        await client.subscribe("t", "TRUE", qos=Requested(durability="transient"))
    with pytest.raises(IncompatibleQosError):
        async for _ in client.subscribe("t", "TRUE"):
            pass
    service.answer = refusing(Publish, code="forbidden", reason="no right")
    with pytest.raises(ForbiddenError):
        await client.publish("t", {"n": 1})
    service.answer = lambda _: None
    with pytest.raises(RefusedError):
        await client.publish("t", {"bad": 1})
    for unsound in ({"n": object()}, b'{"n":', b'{"n":NaN}', b"\xff"):
        with pytest.raises(RefusedError, match="JSON"):
            await client.publish("t", unsound)
    with pytest.raises(RefusedError):
        await client.publish("no such name!", {"n": 1})
    with pytest.raises(RefusedError):
        await client.subscribe("t", "TRUE", window=0)
    await client.publish("t", b'{\n"n": 1}')
    assert service.edge.log == [("t", b'{ "n": 1}')]


@story
async def test_a_busy_service_is_asked_again(client: Client, service: FakeService) -> None:
    busy = iter(range(3))

    def answer(frame: ClientFrame) -> EdgeFrame | None:
        is_busy = isinstance(frame, Publish) and next(busy, None) is not None
        return refusing(Publish, code="storage", reason="the disk is full")(frame) if is_busy else None

    service.answer = answer
    await client.publish("t", {"n": 1})
    assert [frame.sequence for frame in service.frames(Publish)] == [0, 0, 0, 0]


def test_a_silent_service_is_left_and_asked_again() -> None:
    async def main() -> None:
        options = ClientOptions(session=SessionOptions(answer_timeout_seconds=0.05), reconnect_delay_seconds=0.01)
        async with faking() as service, fieldfare.connect(service.url, options=options) as client:
            service.is_silent = True
            future = await client.publish_soon("t", {"n": 1})
            await service.until(lambda: len(service.frames(Publish)) == 2)
            service.is_silent = False
            await future
            assert len(service.edge.log) == 1

    asyncio.run(main())


@story
async def test_topics_and_declarations(client: Client, service: FakeService) -> None:
    await client.declare_topic("t")
    await client.publish("t", {"n": 1})
    assert await client.topics() == [{"topic": "t"}]
    assert len(await client.subscriptions()) == 1
    assert len(await client.dead_letters("mine")) == 1
    assert [frame.what for frame in service.frames(List)] == ["topics", "subscriptions", "dead_letters"]
