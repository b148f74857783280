"""The service as a real process, and faults that need special tools; the others are scenarios (tests/scenarios).

What was accepted is delivered, once, whatever happens: held against the same promises as every scenario.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
from pathlib import Path
from typing import BinaryIO

import httpx
from tests.installing import install_in_ci, missing
from tests.runtime.processes import COMMAND, environment
from tests.scenarios.live import SETTINGS, TENANTS, LiveService, LiveStage, running
from tests.scenarios.live_client import LiveClient
from tests.scenarios.scenario import event
from tests.scenarios.stage import check_worth, judge

from fieldfare.qos import Requested
from fieldfare.simulation.history import Reception

TENANT = TENANTS[0]
TOPIC = "traffic"
_REQUESTED = Requested()
WAIT_SECONDS = 120.0  # for anything that is waited for: a busy machine is no fault of the service


async def subscribe(stage: LiveStage, client: LiveClient, qos: Requested = _REQUESTED) -> Reception:
    """Subscribe to everything, and wait until that is in force."""
    reception = client.subscribe(TOPIC, "TRUE", qos=qos)
    assert await stage.wait_until(lambda: reception.confirmed_at is not None), "it is not confirmed"
    return reception


async def publish(stage: LiveStage, client: LiveClient, first: int, count: int, batch: int = 5) -> None:
    """Publish batch after batch, each when the last is answered."""
    for start in range(first, first + count, batch):
        publication = client.publish(TOPIC, *(event(number) for number in range(start, start + batch)))
        assert await stage.wait_until(lambda: publication.outcome != "waiting"), "there is no answer"  # noqa: B023


async def fulfilled(stage: LiveStage) -> None:
    """All has arrived that was promised, and nothing else."""
    await judge(stage, [TENANT])
    check_worth(stage)


def test_a_stopped_subscriber_slows_nobody_and_gets_everything_later(tmp_path: Path) -> None:
    async def run(service: LiveService) -> None:
        async with LiveStage(service, "", WAIT_SECONDS) as stage:
            alice, bob = stage.add_client("alice", TENANT), stage.add_client("bob", TENANT)
            await subscribe(stage, alice)
            out = (tmp_path / "slow.jsonl").open("wb")
            command = [*COMMAND, "subscribe", TOPIC, "TRUE", "--follow", "--name", "slow", "--url", service.url]
            with out, contextlib.closing(Stoppable(command, out, service.tokens[TENANT])) as slow:
                assert await stage.wait_until(lambda: subscriptions(service) == 2), "not both subscribe"
                slow.send(signal.SIGSTOP)
                await publish(stage, bob, 0, 6000, batch=500)
                large = [{"number": number, "text": "x" * 1000} for number in range(6000, 10_000)]
                for start in range(0, len(large), 500):
                    bob.publish(TOPIC, *large[start : start + 500])
                history = stage.history
                assert await stage.wait_until(lambda: len(history.receptions[0].events) == 10_000), "the other waits"
                most = 2 * int(SETTINGS["FIELDFARE_LIMITS_WAITING_MAX"])
                assert waiting(service) <= most, "the slow one holds more memory than its share"
                slow.send(signal.SIGCONT)
                assert await stage.wait_until(lambda: lines(tmp_path / "slow.jsonl") == 10_000), "it does not catch up"
            await fulfilled(stage)

    with running(LiveService(tmp_path / "data")) as service:
        asyncio.run(run(service))


class Stoppable:
    """A process that may be asleep when it is to end."""

    def __init__(self, command: list[str], out: BinaryIO, token: str) -> None:
        self._process = subprocess.Popen(command, stdout=out, env=environment(FIELDFARE_TOKEN=token))

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def subscriptions(service: LiveService) -> int:
    return len(httpx.get(f"{service.url}/v1/subscriptions", headers=_authorization(service)).json()["items"])


def _authorization(service: LiveService) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.tokens[TENANT]}"}


def waiting(service: LiveService) -> float:
    """Events that wait in the broker's memory, of all subscriptions."""
    values = [
        float(line.rpartition(" ")[2])
        for line in httpx.get(f"{service.url}/metrics", headers=_authorization(service)).text.splitlines()
        if line.startswith("fieldfare_subscription_waiting")
    ]
    assert values, "the metric is gone: this test cannot fail"
    return sum(values)


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n")


def test_a_flush_that_fails(tmp_path: Path) -> None:
    """What was not flushed is not acknowledged, not even when it is tried again; after a restart all is well."""
    if shutil.which("strace") is None:
        install_in_ci("strace")
    if shutil.which("strace") is None:
        missing("strace is missing: install it to test failing disks")

    async def run(service: LiveService) -> None:
        async with LiveStage(service, "", WAIT_SECONDS) as stage:
            alice, bob = stage.add_client("alice", TENANT), stage.add_client("bob", TENANT)
            await subscribe(stage, alice)
            publisher = asyncio.create_task(publish(stage, bob, 0, 500))
            has_failed = await stage.wait_until(lambda: httpx.get(f"{service.url}/readyz").status_code == 503)
            assert has_failed, "the service does not say that it fails"
            accepted = accepted_count(stage)
            await asyncio.sleep(1.0)  # the publisher tries again meanwhile
            assert accepted_count(stage) == accepted < 100
            await service.kill()
            service.prefix = []
            await service.start()
            await publisher
            await fulfilled(stage)

    prefix = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=20+")
    with running(LiveService(tmp_path / "data", prefix=prefix)) as service:
        asyncio.run(run(service))


def accepted_count(stage: LiveStage) -> int:
    return sum(publication.outcome == "accepted" for publication in stage.history.publications)


def test_the_clock_jumps(tmp_path: Path) -> None:
    """By a day, forward and back: nothing expires early, no deadline is missed early, and time goes on."""
    clock = tmp_path / "clock"
    clock.write_text("+0")
    variables = {
        "LD_PRELOAD": faketime_library(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }

    async def run(service: LiveService) -> None:
        async with LiveStage(service, "", WAIT_SECONDS) as stage:
            alice, bob = stage.add_client("alice", TENANT), stage.add_client("bob", TENANT)
            watcher = await subscribe(stage, alice, Requested(deadline_seconds=3600))
            for first, jump in enumerate(("+0", "+1d", "-1d")):
                clock.write_text(jump)
                await publish(stage, bob, 20 * first, 20)
            await subscribe(stage, alice, Requested(durability="transient"))
            await fulfilled(stage)  # what was published before the jumps is still alive
            assert not watcher.notices

    with running(LiveService(tmp_path / "data", variables=variables)) as service:
        asyncio.run(run(service))


def faketime_library() -> str:
    """Where the library is that changes the time for a process."""
    if not list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")):
        install_in_ci("faketime")
    found = list(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        missing("faketime is missing: install it to test jumps of the clock")
    return str(found[0])
