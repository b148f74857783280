"""Publishing and subscribing from the command line, against a real service."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.runtime.processes import COMMAND, ServiceProcess, environment
from typer.testing import CliRunner, Result

from fieldfare.cli import app
from fieldfare.runtime.tokens import TokenFile

runner = CliRunner()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("service") / "data") as running:
        yield running
        assert running.stop() == 0
    assert "Traceback" not in running.log


@pytest.fixture
def topic(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic of its own for each test, which also has a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)


def invoke(service: ServiceProcess, *arguments: str) -> Result:
    return runner.invoke(app, [*arguments], env={"FIELDFARE_URL": service.url, "FIELDFARE_TOKEN": None})


def alive(service: ServiceProcess, topic: str, condition: str = "n >= 0 OR n IS NULL") -> list[Any]:
    ended = invoke(service, "subscribe", topic, condition)
    assert ended.exit_code == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_an_event(service: ServiceProcess, topic: str) -> None:
    ended = invoke(service, "publish", topic, '{"n": 1,\n "road": "A10"}')
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, "", "1 accepted\n")
    assert alive(service, topic) == [{"n": 1, "road": "A10"}]
    assert alive(service, topic, "n > 1") == []


def test_an_array(service: ServiceProcess, topic: str) -> None:
    assert invoke(service, "publish", topic, '[{"n": 1}, {"n": 2}]').exit_code == 0
    assert alive(service, topic) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("text", ['{"n": ', "[1]", '{"n": 1, "n": 2}', '{"a": {"b": 1}, "a.b": 2}', "[{}, []]"])
def test_what_is_not_an_event(service: ServiceProcess, topic: str, text: str) -> None:
    ended = invoke(service, "publish", topic, text)
    assert ended.exit_code == 2
    assert ended.stderr.startswith("Error: this is not an event")


def test_a_file_of_lines(service: ServiceProcess, topic: str) -> None:
    lines = [json.dumps({"n": number}) for number in range(2500)]
    Path("events.jsonl").write_text("\n".join([*lines[:100], "nonsense", '{"n": 1, "n": 2}', *lines[100:]]))
    ended = invoke(service, "publish", topic, "events.jsonl", "--batch", "100")
    assert ended.exit_code == 1
    assert ended.stderr == "2,500 accepted\n2 bad rows are in events.jsonl.quarantine.jsonl\n"
    assert [event["n"] for event in alive(service, topic)] == list(range(2500))
    bad = [json.loads(line) for line in Path("events.jsonl.quarantine.jsonl").read_text().splitlines()]
    assert [row["line"] for row in bad] == [101, 102]


def test_a_csv_file(service: ServiceProcess, topic: str) -> None:
    Path("events.csv").write_text("n,road,at\n1,A10,2026-01-01\n2,,\n3,nan,\n")
    ended = invoke(service, "publish", topic, "events.csv")
    assert (ended.exit_code, ended.stderr.splitlines()[0]) == (1, "2 accepted")
    assert alive(service, topic) == [{"n": 1, "road": "A10", "at": "2026-01-01"}, {"n": 2}]


def test_a_parquet_file(service: ServiceProcess, topic: str) -> None:
    table = pa.table({"n": [1, 2, None], "speed": [1.5, float("inf"), 2.5], "zone": [{"id": 1}, None, None]})
    pq.write_table(table, "events.parquet")
    ended = invoke(service, "publish", topic, "events.parquet")
    assert (ended.exit_code, ended.stderr.splitlines()[0]) == (1, "2 accepted")
    assert alive(service, topic) == [{"n": 1, "speed": 1.5, "zone": {"id": 1}}, {"speed": 2.5}]
    (bad,) = [json.loads(line) for line in Path("events.parquet.quarantine.jsonl").read_text().splitlines()]
    assert bad["row"] == 2


@pytest.mark.parametrize(
    ("source", "reason"),
    [("none.jsonl", "there is no such file"), ("events.txt", "cannot tell its format"), ("hello", "no such file")],
)
def test_a_file_that_cannot_be_read(service: ServiceProcess, topic: str, source: str, reason: str) -> None:
    Path("events.txt").touch()
    ended = invoke(service, "publish", topic, source)
    assert ended.exit_code == 2
    assert reason in ended.stderr


def test_a_stream_arrives_line_by_line(service: ServiceProcess, topic: str) -> None:
    pipes: Any = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    variables = environment(FIELDFARE_URL=service.url)
    with (
        subprocess.Popen([*COMMAND, "subscribe", topic, "n > 0", "--follow"], env=variables, **pipes) as subscriber,
        subprocess.Popen([*COMMAND, "publish", topic, "-"], stdin=subprocess.PIPE, env=variables, **pipes) as publisher,
    ):
        try:
            assert subscriber.stderr.readline() == f"Subscribed to {topic}: n > 0\n"  # type: ignore[union-attr]
            for number in range(1, 4):  # each arrives before the next is written, while the stream stays open
                publisher.stdin.write(json.dumps({"n": number}) + "\n")  # type: ignore[union-attr]
                publisher.stdin.flush()  # type: ignore[union-attr]
                assert json.loads(subscriber.stdout.readline()) == {"n": number}  # type: ignore[union-attr]
            publisher.stdin.close()  # type: ignore[union-attr]
            assert publisher.wait(60) == 0
            assert publisher.stderr.read() == "3 accepted\n"  # type: ignore[union-attr]
            subscriber.send_signal(signal.SIGINT)
            assert subscriber.wait(60) == 0
            assert subscriber.stderr.read() == ""  # type: ignore[union-attr]
        finally:
            publisher.kill()
            subscriber.kill()


def test_a_durable_subscription_goes_on_where_it_was(service: ServiceProcess, topic: str) -> None:
    subscribe = ["subscribe", topic, "n >= 0", "--name", topic]
    assert invoke(service, *subscribe).stdout == ""
    invoke(service, "publish", topic, '[{"n": 1}, {"n": 2}, {"n": 3}]')
    assert invoke(service, *subscribe, "--count", "2").stdout.splitlines() == ['{"n": 1}', '{"n": 2}']
    assert invoke(service, *subscribe).stdout.splitlines() == ['{"n": 3}']
    assert invoke(service, *subscribe).stdout == ""


def test_from_start_and_around(service: ServiceProcess, topic: str) -> None:
    invoke(service, "publish", topic, '[{"n": 1}, {"n": 2}]')
    ended = invoke(service, "subscribe", topic, "n >= 0", "--follow", "--from-start", "--count", "2", "--json")
    first, second = (json.loads(line) for line in ended.stdout.splitlines())
    assert first["event"] == {"n": 1}
    assert second.keys() == {"position", "id", "at", "publisher", "event"}
    assert first["position"] < second["position"]


def test_topics(service: ServiceProcess, topic: str) -> None:
    declare = [
        "topics",
        "declare",
        topic,
        "--reliability",
        "best_effort",
        "--durability",
        "volatile",
        "--lifespan",
        "9",
    ]
    assert invoke(service, *declare).stdout == f"{topic}: declared\n"
    listed = [json.loads(line) for line in invoke(service, "topics", "list", "--json").stdout.splitlines()]
    (found,) = [each for each in listed if each["topic"] == topic]
    assert (found["offered"]["reliability"], found["offered"]["lifespan_seconds"]) == ("best_effort", 9)
    assert topic in invoke(service, "topics").stdout
    refused = invoke(service, "subscribe", topic, "n > 0", "--follow")
    assert refused.exit_code == 2
    assert "it requests reliability 'reliable', but the topic offers 'best_effort'" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["subscribe", "t", "speed <"], "Error: "),
        (["subscribe", "t", "n > 0", "--reliability", "perfect"], "--reliability`"),
        (["subscribe", "t", "n > 0", "--keep-last", "0"], "--keep-last`"),
        (["subscribe", "t", "n > 0", "--deadline", "-1"], "--deadline`"),
        (["subscribe", "no topic", "n > 0"], "Error: a name has letters, digits and . _ - only"),
        (["publish", "no topic", "{}"], "Error: a name has letters, digits and . _ - only"),
        (["topics", "declare", "no topic"], "Error: a name has letters, digits and . _ - only"),
        (["topics", "declare", "t", "--matching", "magic"], "edge or spark"),
        (["topics", "declare", "t", "--durability", "eternal"], "--durability`"),
        (["publish", "t", "{}", "--token-file", "none"], "Error: none: cannot be read"),
        (["publish", "t", "{}", "--url", "ftp://here"], "is no address of a service"),
    ],
)
@pytest.mark.usefixtures("topic")
def test_errors_are_one_message(service: ServiceProcess, arguments: list[str], reason: str) -> None:
    ended = invoke(service, *arguments)
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("arguments", [["publish", "t", "{}"], ["subscribe", "t", "n > 0"], ["topics"]])
def test_without_a_service_it_says_how_to_start_one(arguments: list[str]) -> None:
    ended = runner.invoke(app, arguments, env={"FIELDFARE_URL": "http://127.0.0.1:9", "FIELDFARE_TOKEN": None})
    assert ended.exit_code == 2
    assert "`fieldfare serve` starts it" in ended.stderr


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    _, token = TokenFile(data).create("acme", {"publish": ("a",), "subscribe": ("a",), "create": ("a",)}, now=0.0)
    (tmp_path / "token").write_text(f"{token}\n")
    with ServiceProcess(data) as service:
        assert invoke(service, "publish", "a", '{"n": 1}', "--token-file", "token").exit_code == 0
        without = invoke(service, "publish", "a", '{"n": 1}')
        beyond = invoke(service, "publish", "b", '{"n": 1}', "--token-file", "token")
    assert (without.exit_code, beyond.exit_code) == (2, 2)
    assert "token" in without.stderr
    assert "no right to publish" in beyond.stderr
    assert token not in without.stderr + beyond.stderr + without.stdout + beyond.stdout
