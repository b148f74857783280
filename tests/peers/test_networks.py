"""Twenty peers, each a process in a network of its own, with delay and loss between them: a fifth is killed.

What an event was accepted as must reach every live subscription that wants it, once; and who was killed gets it later.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from tests.peers.processes import PATIENCE_SECONDS, PeerProcess, PeerProcesses

from fieldfare.experiments.wan import Wan, WayQuality, why_unavailable
from fieldfare.matching import oracle

NAMES = [f"p{number}" for number in range(20)]
KILLED = ["p3", "p8", "p13", "p18"]
WAY = WayQuality(latency_seconds=0.02, jitter_seconds=0.01, loss=0.02, duplication=0.01)
SECRET = "FIELDFARE_PEERS_SECRET=a secret of many bytes"  # noqa: S105 - of a test
CONDITIONS = ["speed < 25", "speed BETWEEN 20 AND 60 AND road = 'A10'", "road LIKE 'B%' OR speed > 90", "TRUE"]


@pytest.fixture
def wan() -> Iterator[Wan]:
    if (reason := why_unavailable()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with Wan(NAMES, WAY) as built:
        yield built


class Group:
    """All of them, what they published, and what came of it."""

    def __init__(self, processes: PeerProcesses, wan: Wan, folder: Path) -> None:
        self._processes, self._wan, self._folder = processes, wan, folder
        self._numbers = count()
        self.lives: dict[str, list[PeerProcess]] = {name: [] for name in NAMES}
        self.conditions = {name: CONDITIONS[place % len(CONDITIONS)] for place, name in enumerate(NAMES)}
        self.events: dict[int, dict[str, int | str]] = {}

    def start(self, name: str, seed: str | None) -> PeerProcess:
        place = self._wan[name]
        joins = [] if seed is None else ["--join", f"{self._wan[seed].address}:7400"]
        wants = ["--subscribe", "traffic", self.conditions[name], "--durable", "mine"]
        gives = ["--publish", "traffic", "--lifespan", "600", "--join-seconds", str(PATIENCE_SECONDS)]
        process = self._processes.peer(
            *joins,
            *wants,
            *gives,
            *("--name", name, "--folder", str(self._folder / name)),
            listen=f"{place.address}:7400",
            namespace=place.namespace,
            environment=[SECRET],
        )
        self.lives[name].append(process)
        return process

    async def join(self, names: list[str], seed: str) -> None:
        for name in names:
            self.start(name, None if name == seed else seed)
        await asyncio.gather(*(self.lives[name][-1].ready("subscribed") for name in names))

    def publish(self, names: list[str], each: int) -> list[int]:
        """Let peers publish; the numbers of the events."""
        published = []
        for name in names:
            for number in [next(self._numbers) for _ in range(each)]:
                road, speed = ("A10", "B7")[number % 2], 7 * number % 120
                self.events[number] = {"number": number, "road": road, "speed": speed}
                self.lives[name][-1].say(self.events[number])
                published.append(number)
        return published

    async def kill(self, names: list[str]) -> None:
        for name in names:
            self.lives[name][-1].kill()
        for name in names:
            await self.lives[name][-1].code()

    def wanted(self, name: str, numbers: list[int]) -> set[int]:
        """Which of some events a peer wants."""
        return {number for number in numbers if oracle.holds(self.conditions[name], self.events[number])}

    def came(self, name: str) -> list[Counter[int]]:
        """The events that came to a peer, in each of its lives."""
        return [Counter(line["event"]["number"] for line in life.said("event")) for life in self.lives[name]]

    async def until_all_have(self, names: list[str], numbers: list[int]) -> None:
        for name in names:
            wanted = self.wanted(name, numbers)
            await self.lives[name][-1].until(lambda wanted=wanted, name=name: wanted <= set().union(*self.came(name)))  # type: ignore[misc]


def test_a_fifth_is_killed_and_comes_back(wan: Wan, tmp_path: Path) -> None:
    async def story(processes: PeerProcesses) -> None:
        group = Group(processes, wan, tmp_path)
        alive = [name for name in NAMES if name not in KILLED]
        await group.join(["p0"], "p0")
        await group.join(NAMES[1:], "p0")
        await group.until_all_have(NAMES, group.publish(NAMES, 2))
        doubtful = group.publish(KILLED, 2)
        await group.kill(KILLED)
        accepted = [
            number
            for place, name in enumerate(KILLED)
            for number in doubtful[2 * place :][: len(group.lives[name][0].said("accepted")) - 2]
        ]
        meanwhile = group.publish(alive, 2)
        await group.until_all_have(alive, meanwhile)
        await group.join(KILLED, "p0")
        await group.until_all_have(NAMES, [*accepted, *meanwhile, *group.publish(NAMES, 1)])
        for name in NAMES:
            came = group.came(name)
            assert not [number for life in came for number, times in life.items() if times > 1], "came twice"
            assert set().union(*came) <= group.wanted(name, list(group.events)), "came unwanted"
        assert all(counts.lost for counts in wan.counts().values() if counts.packets > 1_000)

    with PeerProcesses() as processes:
        processes.run(story(processes))
