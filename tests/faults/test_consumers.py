"""Consumers of a shared subscription as processes that are killed, at a service that is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.runtime.processes import ServiceProcess, environment

import fieldfare
from fieldfare.messages import Start

PROGRAM = Path(__file__).with_name("consumer_program.py")
WAIT_SECONDS = 120.0
EVENTS = 120


class Said(NamedTuple):
    at: float
    consumer: int
    what: str
    number: int
    key: str
    attempt: int


class Consumer:
    """A process, and a thread that notes what it says."""

    def __init__(self, url: str, number: int, notes: list[Said], seconds: float) -> None:
        self.number, self._notes, self._is_ready = number, notes, threading.Event()
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), url, str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            what, *rest = line.split()
            if what == "ready":
                self._is_ready.set()
            elif len(rest) == 3:  # else it was killed in the midst of a line
                number, key, attempt = rest
                self._notes.append(Said(time.monotonic(), self.number, what, int(number), key, int(attempt)))

    def __enter__(self) -> Self:
        assert self._is_ready.wait(WAIT_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def consuming(url: str, count: int, notes: list[Said], seconds: float = 0.01) -> Iterator[list[Consumer]]:
    consumers = [Consumer(url, number, notes, seconds) for number in range(count)]
    try:
        for consumer in consumers:
            consumer.__enter__()
        yield consumers
    finally:
        for consumer in consumers:
            consumer.kill()


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < end, "it did not come to an end in time"
        time.sleep(0.05)


def publish(url: str, numbers: range) -> None:
    async def story() -> None:
        async with fieldfare.connect(url) as client:
            await client.publish("jobs", [{"number": number, "key": "abcdef"[number % 6]} for number in numbers])

    asyncio.run(story())


def done(notes: list[Said]) -> set[int]:
    return {said.number for said in notes.copy() if said.what == "done"}


def check_order(notes: list[Said]) -> None:
    """The first times that the events of a key were begun are in order."""
    begun: dict[str, list[int]] = {}
    for said in notes:
        if said.what == "got" and said.number not in begun.setdefault(said.key, []):
            begun[said.key].append(said.number)
    assert all(numbers == sorted(numbers) for numbers in begun.values())


def test_killed_consumers_lose_nothing_and_nothing_is_done_twice_but_what_they_had(tmp_path: Path) -> None:
    notes: list[Said] = []
    with ServiceProcess(tmp_path / "data") as service, consuming(service.url, 3, notes) as consumers:
        publish(service.url, range(EVENTS))
        wait_until(lambda: len(done(notes)) > EVENTS // 4)
        consumers[0].kill()
        wait_until(lambda: len(done(notes)) > EVENTS // 2)
        consumers[1].kill()
        wait_until(lambda: done(notes) == set(range(EVENTS)))
        time.sleep(1.0)
        assert service.stop() == 0
    killed_had = {said.number for said in notes if said.what == "got" and said.consumer != 2}
    counts = [said.number for said in notes if said.what == "done"]
    assert {number for number in counts if counts.count(number) > 1} <= killed_had
    refused = {said.number for said in notes if said.what == "refused"}
    assert refused
    assert all(number % 5 == 0 for number in refused)
    check_order(notes)


def test_a_service_that_is_killed_forgets_neither_what_was_done_nor_what_was_not(tmp_path: Path) -> None:
    notes: list[Said] = []
    with ServiceProcess(tmp_path / "data") as service, consuming(service.url, 2, notes):
        publish(service.url, range(EVENTS))
        wait_until(lambda: len(done(notes)) > EVENTS // 4)
        time.sleep(1.0)
        service.kill()
    long_done = {said.number for said in notes if said.what == "done" and said.at < notes[-1].at - 0.6}
    later: list[Said] = []
    with ServiceProcess(tmp_path / "data") as service, consuming(service.url, 2, later):
        publish(service.url, range(EVENTS, EVENTS + 6))
        wait_until(lambda: done(notes) | done(later) == set(range(EVENTS + 6)))
        time.sleep(0.5)
        assert not long_done & {said.number for said in later}, "done, flushed, and sent again"
        check_order(later)

        async def replay() -> int:
            async with fieldfare.connect(service.url) as client:
                start = Start(beginning=True)
                again = await client.subscribe("jobs", "TRUE", name="again", start=start, wants_mark=True)
                return len([event async for event in again])

        assert asyncio.run(replay()) == EVENTS + 6
