"""`fieldfare peer`, `peers` and `admit`: what people type, and what they see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.peers.processes import PeerProcesses
from typer.testing import CliRunner

from fieldfare.cli import app

SECRET = "FIELDFARE_PEERS_SECRET=a secret of many bytes"  # noqa: S105 - of a test


@pytest.fixture(scope="module")
def processes() -> Iterator[PeerProcesses]:
    with PeerProcesses() as started:
        yield started


def test_publish_subscribe_and_show(processes: PeerProcesses) -> None:
    async def story() -> None:
        first = await processes.peer("--name", "first", environment=[SECRET]).ready()
        hearing = ("--subscribe", "traffic", "speed < 25")
        second = await processes.peer(*hearing, "--join", first.address, environment=[SECRET]).ready("subscribed")
        third = processes.peer("--publish", "traffic", "--join", first.address, environment=[SECRET])
        third.say({"road": "A1", "speed": 20}, {"road": "A2", "speed": 30}, [1], {"road": "A3", "speed": 10})
        third.end_input()
        assert await third.code() == 1  # a line was refused
        assert [line["line"] for line in third.said("refused")] == [3]
        assert third.said("ended") == [{"type": "ended", "published": 3, "refused": 1, "incomplete": 0}]
        await second.until(lambda: len(second.said("event")) == 2)
        assert sorted(line["event"]["road"] for line in second.said("event")) == ["A1", "A3"]
        assert {line["publisher"] for line in second.said("event")} == {third.said("ready")[0]["name"]}
        shown = processes.start("peers", "--url", first.status_url, "--url", second.status_url, "--json")
        assert await shown.code() == 0
        statuses = json.loads(shown.text)
        assert [status["name"] for status in statuses] == ["first", second.name]
        assert [each["name"] for each in statuses[0]["neighbours"]] == [second.name]
        assert sum(region["entries"] for status in statuses for region in status["regions"]) == 1
        tables = processes.start("peers", "--url", first.status_url, environment=["COLUMNS=200"])
        assert await tables.code() == 0
        for title in ("Ring", "Regions", "Load"):
            assert title in tables.text
        assert await second.terminate() == 0
        assert await first.terminate() == 0

    processes.run(story())


def test_a_folder_outlives_the_process(processes: PeerProcesses, tmp_path: Path) -> None:
    """Killed are, in turn, one that wants an event, and one that has accepted one that nobody could take yet."""

    async def story() -> None:
        first = await processes.peer("--name", "first").ready()
        joins = ("--join", first.address)
        wanting = (*joins, "--folder", str(tmp_path / "wanting"), "--subscribe", "t", "a > 0", "--durable", "mine")
        giving = (*joins, "--folder", str(tmp_path / "giving"), "--publish", "t", "--lifespan", "600")
        one = await processes.peer(*wanting).ready("subscribed")
        other = await processes.peer(*giving).ready()
        other.say({"a": 1})
        await one.until(lambda: len(one.said("event")) == 1)
        one.kill()
        await one.code()
        other.say({"a": 2}, {"a": 3})
        await other.until(lambda: len(other.said("accepted")) == 3)
        other.kill()
        await other.code()
        again = await processes.peer(*wanting).ready("subscribed")
        assert again.name == one.name
        other_again = await processes.peer(*giving).ready()
        await again.until(lambda: {2, 3} <= {line["event"]["a"] for line in again.said("event")})
        assert sorted(line["event"]["a"] for line in again.said("event") if line["event"]["a"] > 1) == [2, 3]
        for process in (again, other_again, first):
            assert await process.terminate() == 0

    processes.run(story())


def test_certificates(processes: PeerProcesses, tmp_path: Path) -> None:
    def admitted(name: str, authority: str = "authority") -> list[str]:
        told = CliRunner().invoke(app, ["admit", name, "--authority", str(tmp_path / authority)])
        assert told.exit_code == 0, told.output
        return told.output.split()

    async def story() -> None:
        first = await processes.peer(*admitted("first")).ready()
        assert first.name.startswith("first~")
        hearing = ("--join", first.address, "--subscribe", "t", "TRUE")
        second = await processes.peer(*admitted("second"), *hearing).ready("subscribed")
        third = processes.peer(*admitted("third"), "--join", first.address, "--publish", "t")
        third.say({"a": 1})
        third.end_input()
        assert await third.code() == 0, third.complaints
        await second.until(lambda: len(second.said("event")) == 1)
        hasty = ("--join", first.address, "--join-seconds", "1")
        stranger = processes.peer(*admitted("stranger", "another"), *hasty)
        assert await stranger.code() == 2
        assert "signed by the same authority" in stranger.complaints
        secretive = processes.peer(*hasty, environment=[SECRET])
        assert await secretive.code() == 2
        assert "certificates of the same authority" in secretive.complaints
        misnamed = processes.peer(*admitted("fourth"), *hasty, "--name", "fifth")
        assert await misnamed.code() == 2
        assert "is the certificate of 'fourth~" in misnamed.complaints
        for process in (second, first):
            assert await process.terminate() == 0

    processes.run(story())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["peer", "--durable", "mine"], "needs --subscribe and --folder"),
        (["peer", "--ca", "x"], "go together"),
        (["peer", "--secret-file", "no-such-file"], "cannot be read"),
        (["peer", "--listen", "nowhere"], "host:port"),
        (["peers", "--url", "localhost"], "no URL"),
        (["admit", "no/name", "--authority", "folder"], "letters, digits"),
    ],
)
def test_bad_arguments(arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert ended.exit_code == 2
    assert reason in ended.output
