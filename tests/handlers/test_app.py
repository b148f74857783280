"""Handlers against a broker in this process: types, retries, dead letters, order, lifespans."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import fieldfare
from fieldfare.client.events import Event
from fieldfare.errors import EventError, HandlerError, NotConnectedError
from fieldfare.handlers.handler import Retries


class Reading(msgspec.Struct):
    road: str
    speed: float


@dataclass
class ReadingClass:
    road: str
    speed: float


class ReadingModel(pydantic.BaseModel):
    road: str
    speed: float = pydantic.Field(ge=0)


class ReadingDict(TypedDict):
    road: str
    speed: float


def application(tell: Callable[[fieldfare.App], Awaitable[None]]) -> Callable[[], None]:
    """A test of an application."""

    async def main() -> None:
        async with asyncio.timeout(60):
            await tell(fieldfare.App())

    return lambda: asyncio.run(main())


# What a handler is called with


@pytest.mark.parametrize("kind", [Reading, ReadingClass, ReadingModel, ReadingDict, dict, dict[str, Any], Any, None])
def test_the_annotation_says_what_a_handler_is_called_with(kind: Any) -> None:
    async def main() -> None:
        app = fieldfare.App()
        calls: list[Any] = []

        def handle(reading: Any) -> None:
            calls.append(reading)

        handle.__annotations__ = {} if kind is None else {"reading": kind}
        app.on("traffic", "speed < 25")(handle)
        async with app.test() as harness:
            await harness.publish("traffic", [{"road": "A10", "speed": 12.0}, {"road": "A10", "speed": 99.0}])
            assert harness.errors == []
        expected = {"road": "A10", "speed": 12.0}
        is_plain = kind in (ReadingDict, dict, dict[str, Any], Any, None)
        assert calls == [expected if is_plain else kind(**expected)]

    asyncio.run(main())


@application
async def test_an_event_with_its_id(app: fieldfare.App) -> None:
    calls: list[tuple[str, str, int]] = []

    @app.on("traffic")
    async def handle(event: Event[Reading]) -> None:
        calls.append((event.id, event.attributes.road, event.attempt))

    @app.on("traffic")
    async def plain(event: Event) -> None:  # type: ignore[type-arg] # as people write it
        assert event.attributes["road"] == "A10"

    async with app.test() as harness:
        await harness.publish("traffic", {"road": "A10", "speed": 12.0}, ids=["e1"])
        assert harness.errors == []
    assert calls == [("e1", "A10", 1)]


@application
async def test_one_without_async_runs_in_a_thread(app: fieldfare.App) -> None:
    threads = []

    @app.on("traffic")
    def handle(_: dict[str, Any]) -> None:
        threads.append(threading.current_thread())

    async with app.test() as harness:
        await harness.publish("traffic", {"n": 1})
    assert threads != [threading.main_thread()]


def test_handlers_that_cannot_be_called() -> None:
    app = fieldfare.App()
    with pytest.raises(HandlerError, match="one parameter"):
        app.on("traffic")(lambda: None)
    with pytest.raises(HandlerError, match="one parameter"):
        app.on("traffic")(lambda event, other: None)  # noqa: ARG005
    with pytest.raises(HandlerError, match="cannot be read"):

        @app.on("traffic")
        def handle(event: Absent) -> None:  # type: ignore[name-defined] # noqa: F821
            pass

    with pytest.raises(HandlerError, match="needs a name"):
        app.on("traffic", shared=True)(lambda event: None)  # noqa: ARG005
    with pytest.raises(HandlerError, match="concurrency"):
        app.on("traffic", concurrency=0)(lambda event: None)  # noqa: ARG005
    app.on("traffic", name="mine")(lambda event: None)  # noqa: ARG005
    with pytest.raises(HandlerError, match="'mine'"):
        app.on("other", name="mine")(lambda event: None)  # noqa: ARG005
    with pytest.raises(HandlerError, match="decoded"):

        @app.on("traffic")
        def typed(event: threading.Thread) -> None:
            pass

    with pytest.raises(NotConnectedError, match="does not run"):
        _ = app.client


# Failures


@application
async def test_an_event_is_tried_again_and_then_is_a_dead_letter(app: fieldfare.App) -> None:
    attempts: dict[int, list[int]] = defaultdict(list)

    @app.on("traffic", name="mine", retries=Retries(attempts_max=3, backoff_seconds=30.0))
    async def handle(event: Event[dict[str, int]]) -> None:
        number = event.attributes["n"]
        attempts[number].append(event.attempt)
        if number == 1 or (number == 2 and event.attempt == 1):
            raise ValueError(f"not {number}")

    async with app.test() as harness:
        await harness.publish("traffic", [{"n": n} for n in range(4)])
        assert attempts == {0: [1], 1: [1, 2, 3], 2: [1, 2], 3: [1]}
        letters = await harness.dead_letters("mine")
        assert [letter["reason"] for letter in letters] == ["ValueError: not 1"]
        assert [type(error) for error in harness.errors] == [ValueError] * 4
        settled = [each.event.attributes["n"] for each in harness.handled if each.error is None]
        assert sorted(settled) == [0, 2, 3]


@pytest.mark.parametrize("kind", [Reading, ReadingClass, ReadingModel])
@pytest.mark.parametrize("name", [None, "mine"])
def test_an_event_that_does_not_decode_harms_no_other(kind: Any, name: str | None) -> None:
    async def main() -> None:
        app = fieldfare.App()
        speeds: list[float] = []

        async def handle(reading: Any) -> None:
            speeds.append(reading.speed)

        handle.__annotations__["reading"] = kind
        app.on("traffic", name=name, retries=Retries(attempts_max=2))(handle)
        async with app.test() as harness:
            events = [{"road": "A1", "speed": 1}, {"road": 7, "speed": "fast"}, {"road": "A1", "speed": 2}]
            await harness.publish("traffic", events)
            assert speeds == [1, 2]
            assert [type(error) for error in harness.errors] == [EventError, EventError]
            if name is not None:
                assert [letter["event"]["event"] for letter in await harness.dead_letters(name)] == [events[1]]

    asyncio.run(main())


# Order


@application
async def test_one_at_a_time_keeps_the_order(app: fieldfare.App) -> None:
    handled: list[int] = []

    @app.on("traffic", name="mine")
    async def handle(event: dict[str, int]) -> None:
        await asyncio.sleep(random.random() / 1000)
        handled.append(event["n"])

    async with app.test() as harness:
        await harness.publish("traffic", [{"n": n} for n in range(200)])
    assert handled == list(range(200))


@pytest.mark.parametrize("shared", [False, True])
def test_several_at_a_time_keep_the_order_of_each_key(shared: bool) -> None:
    async def main() -> None:
        app = fieldfare.App()
        handled: dict[str, list[int]] = defaultdict(list)
        running = most = 0

        @app.on("traffic", name="mine", shared=shared, key="road", concurrency=8)
        async def handle(event: Event[dict[str, Any]]) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await asyncio.sleep(random.random() / 500)
                if event.attributes["n"] % 7 == 0 and event.attempt == 1:
                    raise ValueError("once")
                handled[event.attributes["road"]].append(event.attributes["n"])
            finally:
                running -= 1

        async with app.test() as harness:
            await harness.publish("traffic", [{"n": n, "road": f"A{n % 5}"} for n in range(150)])
        assert handled == {f"A{road}": list(range(road, 150, 5)) for road in range(5)}
        assert 2 <= most <= 8

    asyncio.run(main())


@application
async def test_no_more_are_handled_at_a_time_than_is_said(app: fieldfare.App) -> None:
    running = most = count = 0

    @app.on("traffic", concurrency=3)
    async def handle(_: Any) -> None:
        nonlocal running, most, count
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        count += 1

    async with app.test() as harness:
        await harness.publish("traffic", [{"n": n} for n in range(50)])
    assert (most, count) == (3, 50)


# Lifespans and publishing


@application
async def test_lifespans_are_entered_in_order_and_left_in_reverse(app: fieldfare.App) -> None:
    story: list[str] = []

    @app.lifespan
    async def first() -> AsyncIterator[None]:
        story.append("first begins")
        await app.publish("traffic", {"n": 0})  # the client is connected, but no handler is
        yield
        await app.publish("log", {"text": "bye"})  # it still is
        story.append("first ends")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        story.append("second begins")
        yield
        story.append("second ends")

    @app.on("traffic")
    async def handle(event: dict[str, int]) -> None:
        story.append(f"event {event['n']}")

    async with app.test() as harness:
        await harness.publish("traffic", {"n": 1})
    assert story == ["first begins", "second begins", "event 1", "second ends", "first ends"]


@application
async def test_a_lifespan_that_fails_ends_the_application(app: fieldfare.App) -> None:
    left: list[str] = []

    @app.lifespan
    async def first() -> AsyncIterator[None]:
        try:
            yield
        finally:
            left.append("first")

    @app.lifespan
    async def second() -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    app.on("traffic")(lambda event: None)  # noqa: ARG005
    with pytest.raises(ValueError, match="no database"):
        async with app.test():
            pass
    assert left == ["first"]
    with pytest.raises(NotConnectedError):
        _ = app.client


class Alert(msgspec.Struct):
    road: str


class AlertModel(pydantic.BaseModel):
    road: str


@pytest.mark.parametrize("kind", [Alert, AlertModel, dict])
def test_what_a_handler_returns_is_published(kind: Any) -> None:
    async def main() -> None:
        app = fieldfare.App()
        seen: list[str] = []

        @app.on("traffic", "speed < 25", publish_to="alerts")
        async def alert(reading: Reading) -> Any:
            if reading.speed < 5:
                return [kind(road=reading.road), kind(road=reading.road + "!")]
            return kind(road=reading.road) if reading.speed < 20 else None

        @app.on("alerts")
        async def sound(event: dict[str, Any]) -> None:
            seen.append(event["road"])

        async with app.test() as harness:
            await harness.publish("traffic", [{"road": f"A{n}", "speed": n} for n in (1, 10, 22, 30)])
            assert await harness.published("alerts") == [{"road": "A1"}, {"road": "A1!"}, {"road": "A10"}]
            assert seen == ["A1", "A1!", "A10"]

    asyncio.run(main())


@application
async def test_a_condition_that_is_wrong_is_told_at_the_beginning(app: fieldfare.App) -> None:
    app.on("traffic", "speed <")(lambda event: None)  # noqa: ARG005
    with pytest.raises(fieldfare.FieldfareError, match="speed <"):
        async with app.test():
            pass


@application
async def test_a_harness_says_who_does_not_end(app: fieldfare.App) -> None:
    @app.on("traffic")
    async def sleepy(_: Any) -> None:
        await asyncio.sleep(60)

    app.shutdown_seconds = 0.01
    async with app.test() as harness:
        harness.timeout_seconds = 0.1
        with pytest.raises(HandlerError, match="sleepy"):
            await harness.publish("traffic", {"n": 1})
