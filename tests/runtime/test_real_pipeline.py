"""The bridge over a real pipeline on Spark: killed with what it has in hand, and started again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw
from tests.faults.processes import environment, users_of, wait_until
from tests.runtime.spark_bridge import Effect, Events, Handed, Matched, Ready, Said, Subscription

from fieldfare.messages import Beside

OURS, TRAFFIC = "ours", "traffic"


class RealBridge:
    """A bridge in a process of its own, with a pipeline on Spark below it."""

    def __init__(self, folder: Path, stored: int, subscriptions: dict[str, str]) -> None:
        known = msgspec.json.encode(subscriptions).decode()
        script = str(Path(__file__).with_name("spark_bridge.py"))
        self.process = subprocess.Popen(
            [sys.executable, script, str(folder / "bridge"), str(stored), known],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(folder),
        )

    def perform(self, effect: Effect) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(effect) + b"\n")
        self.process.stdin.flush()

    def says(self) -> Said:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the bridge has ended"
        said: Said = msgspec.json.decode(line, type=Said)
        return said

    def wait_for(self, *kinds: type[Said]) -> list[Said]:
        """What it says until each of these was said."""
        said: list[Said] = []
        while not all(any(isinstance(message, kind) for message in said) for kind in kinds):
            said.append(self.says())
        return said

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(240)
        self.process.stdout.close()


def test_a_bridge_over_spark_survives_a_kill_and_leaves_nobody_behind(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    first = RealBridge(tmp_path, -1, {})
    try:
        first.perform(Subscription(1, OURS, TRAFFIC, "slow", "speed < 25 AND place.city = 'York' AND ce.type = 'slow'"))
        assert first.says() == Handed(1)
        event = Raw(b'{ "speed": 20.50, "place": {"city": "York"} }')
        beside = Beside(bytes(range(256)), {"specversion": "1.0", "id": "a", "source": "/sensor", "type": "slow"})
        first.perform(Events(2, OURS, TRAFFIC, 1.5, "sensor", ["a"], [event], [beside]))
        said = first.wait_for(Handed, Matched, Ready)
        [matched] = [message for message in said if isinstance(message, Matched)]
        [found] = matched.events
        assert (found.id, found.event, found.subscriptions, found.beside) == ("a", event, ["slow"], beside)
        first.perform(Events(3, OURS, TRAFFIC, 2.5, None, ["b"], [event], [beside]))
        first.wait_for(Handed)
    finally:
        first.process.kill()
        first.close()
    wait_until(lambda: not users_of(tmp_path), "the pipeline ends with the bridge")

    second = RealBridge(tmp_path, matched.batch, {"slow": "speed < 25"})
    try:
        said = second.wait_for(Matched, Ready)
        ids = [found.id for message in said if isinstance(message, Matched) for found in message.events]
        assert ids == ["b"], "what was handed over before the kill comes once"
    finally:
        second.close()
    assert not users_of(tmp_path), "a bridge that has ended has left processes behind"
