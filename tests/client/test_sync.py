"""The client for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.client.fake import QUICK, FakeService, faking

import fieldfare
from fieldfare.errors import NotConnectedError, RefusedError, UnauthenticatedError


@contextmanager
def service() -> Iterator[FakeService]:
    """A service in a thread of its own."""
    started: list[FakeService] = []
    is_ready = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def main() -> None:
        async with faking() as made:
            started.append(made)
            is_ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(main()))
    thread.start()
    try:
        assert is_ready.wait(60)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_publish_and_subscribe() -> None:
    with service() as served, fieldfare.connect_sync(served.url, options=QUICK) as client:
        subscription = client.subscribe("t", "TRUE")
        client.publish("t", [{"n": 0}, {"n": 1}])
        client.publish("t", {"n": 2})
        received = []
        for event in subscription:
            received.append(event.attributes["n"])
            if len(received) == 3:
                subscription.unsubscribe()
        assert received == [0, 1, 2]
        assert client.run(client.client.topics) == [{"topic": "t"}]
        with pytest.raises(RefusedError):
            client.publish("t", {"bad": 1})
    client.close()  # again does nothing
    assert not any(thread.name == "fieldfare-client" for thread in threading.enumerate())


def test_a_service_that_denies() -> None:
    with service() as served:
        served.status = 401
        with pytest.raises(UnauthenticatedError):
            fieldfare.connect_sync(served.url, options=QUICK)
    assert not any(thread.name == "fieldfare-client" for thread in threading.enumerate())


def test_a_closed_client() -> None:
    with service() as served:
        client = fieldfare.connect_sync(served.url, options=QUICK)
        client.close()
        with pytest.raises(NotConnectedError):
            client.publish("t", {"n": 1})
