"""Looking after subscriptions and topics from the command line: of a real service, and of a store by the same words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.runtime.processes import ServiceProcess
from typer.testing import CliRunner, Result

from fieldfare.cli import app

runner = CliRunner()
NOWHERE = {"FIELDFARE_URL": None, "FIELDFARE_STORE": None, "FIELDFARE_TOKEN": None}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("service") / "data") as running:
        yield running
        assert running.stop() == 0
    assert "Traceback" not in running.log


@pytest.fixture
def topic(request: pytest.FixtureRequest, service: ServiceProcess) -> str:
    """A topic with twenty events, of which a subscription wants half."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    assert said(service, "topics", "create", name) == f"{name}: declared\n"
    said(service, "subscriptions", "add", f"{name}-half", "n < 10", "--topic", name)
    publish(service, name)
    return name


def publish(service: ServiceProcess, topic: str) -> None:
    assert httpx.post(f"{service.url}/v1/topics/{topic}/events", json=[{"n": n} for n in range(20)]).status_code == 200


def invoke(service: ServiceProcess, *arguments: str) -> Result:
    return runner.invoke(app, [*arguments, "--url", service.url], env={**NOWHERE, "COLUMNS": "200"})


def said(service: ServiceProcess, *arguments: str) -> str:
    ended = invoke(service, *arguments)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def listed(service: ServiceProcess, topic: str, *options: str) -> list[dict[str, object]]:
    text = said(service, "subscriptions", "list", "--topic", topic, "--json", *options)
    return [json.loads(line) for line in text.splitlines()]


def shown(service: ServiceProcess, name: str) -> dict[str, str]:
    lines = said(service, "subscriptions", "show", name).splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_who_is_behind_is_seen(service: ServiceProcess, topic: str) -> None:
    said(service, "subscriptions", "add", f"{topic}-none", "n > 100", "--topic", topic)
    assert [(item["subscription"], item["behind_events"]) for item in listed(service, topic)] == [
        (f"{topic}-half", 10),
        (f"{topic}-none", 0),
    ]
    assert [item["subscription"] for item in listed(service, topic, "--behind")] == [f"{topic}-half"]
    table = said(service, "subscriptions", "list", "--topic", topic)
    assert "nobody" in table
    assert "behind" in table
    assert shown(service, f"{topic}-half")["behind"].startswith("10 events; the oldest is ")
    assert shown(service, f"{topic}-none")["behind"] == "0"


def test_a_subscription_is_paused_moved_changed_and_deleted(service: ServiceProcess, topic: str) -> None:
    name = f"{topic}-half"
    assert "paused" in said(service, "subscriptions", "pause", name)
    assert shown(service, name)["taken by"] == "nobody: it is paused"
    assert "resumed" in said(service, "subscriptions", "resume", name)
    httpx.post(f"{service.url}/v1/subscriptions/{name}/ack", json={"position": 10**15})
    assert shown(service, name)["behind"] == "0"
    said(service, "subscriptions", "seek", name, "--beginning")
    assert shown(service, name)["behind"].startswith("10 events")
    said(service, "subscriptions", "seek", name, "--time", "2126-01-01T00:00:00+00:00")
    assert shown(service, name)["behind"] == "0"
    said(service, "subscriptions", "seek", name, "--ago", "1h")
    assert shown(service, name)["behind"].startswith("10 events")
    said(service, "subscriptions", "change", name, "--condition", "n < 5")
    assert shown(service, name)["behind"].startswith("5 events")
    assert shown(service, name)["condition"] == "n < 5"
    assert said(service, "subscriptions", "delete", name) == f"{name}: deleted\n"
    ended = invoke(service, "subscriptions", "show", name)
    assert ended.exit_code != 0
    assert ended.stderr == f"Error: there is no subscription {name!r}\n"


def test_dead_letters_are_listed_sent_again_and_dropped(service: ServiceProcess, topic: str) -> None:
    name = f"{topic}-half"
    said(service, "subscriptions", "change", name, "--attempts", "1")
    for number in (0, 1, 2):
        polled = httpx.get(f"{service.url}/v1/subscriptions/{name}/events", params={"limit": 10}).json()["events"]
        refusal = {"position": polled[0]["position"], "reason": f"broken {number}"}
        assert httpx.post(f"{service.url}/v1/subscriptions/{name}/nack", json=refusal).status_code == 204
    letters: list[dict[str, str]] = []
    for _ in range(100):  # an event that the edge has forgotten is a dead letter when it is read for the next taker
        httpx.get(f"{service.url}/v1/subscriptions/{name}/events", params={"limit": 10})
        text = said(service, "subscriptions", "dead-letters", "list", name, "--json")
        letters = [json.loads(line) for line in text.splitlines()]
        if len(letters) == 3:
            break
        time.sleep(0.1)
    assert [letter["reason"] for letter in letters] == ["broken 0", "broken 1", "broken 2"]
    assert "broken 1" in said(service, "subscriptions", "dead-letters", "list", name)
    assert shown(service, name)["dead letters"] == "3"
    assert invoke(service, "subscriptions", "dead-letters", "drop", name).exit_code == 2
    dropped = said(service, "subscriptions", "dead-letters", "drop", name, letters[0]["id"])
    assert dropped == f"{name}: 1 dead letter dropped\n"
    assert (
        said(service, "subscriptions", "dead-letters", "redrive", name, "--all")
        == f"{name}: 2 dead letters sent again\n"
    )


def test_topics_are_shown_and_deleted(service: ServiceProcess, topic: str) -> None:
    lines = dict(line.split(": ", 1) for line in said(service, "topics", "show", topic).splitlines())
    assert lines["kept"].startswith("20 events, ")
    assert lines["subscriptions"] == "1"
    assert "since the service started" in lines["events"]
    ended = invoke(service, "topics", "delete", topic)
    assert ended.exit_code != 0
    assert "has a subscription: end them first, or delete it by force" in ended.stderr
    assert said(service, "topics", "delete", topic, "--force") == f"{topic}: deleted\n"
    assert invoke(service, "topics", "show", topic).exit_code != 0
    assert topic not in said(service, "topics", "list")


def test_lag_survives_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for stops_well in (False, True):
        with ServiceProcess(data) as service:
            said(service, "subscriptions", "add", "half", "n < 10", "--topic", "roads")
            publish(service, "roads")
            if stops_well:
                assert service.stop() == 0
    with ServiceProcess(data) as service:
        assert shown(service, "half")["behind"].startswith("20 events")
        assert service.stop() == 0


# A store answers the same commands


def in_store(tmp_path: Path, *arguments: str) -> Result:
    return runner.invoke(app, [*arguments, "--store", str(tmp_path / "some.db")], env=NOWHERE)


def test_a_store_answers_the_same_commands(tmp_path: Path) -> None:
    assert in_store(tmp_path, "subscriptions", "add", "cheap", "price < 10").exit_code == 0
    assert "price < 10" in in_store(tmp_path, "subscriptions", "list").stdout
    assert "cheap" in in_store(tmp_path, "subscriptions", "show", "cheap").stdout
    assert in_store(tmp_path, "subscriptions", "delete", "cheap").exit_code == 0
    assert "cheap" not in in_store(tmp_path, "subscriptions", "list").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("subscriptions", "pause", "cheap"),
        ("subscriptions", "resume", "cheap"),
        ("subscriptions", "seek", "cheap", "--beginning"),
        ("subscriptions", "change", "cheap", "--condition", "price < 5"),
        ("subscriptions", "dead-letters", "list", "cheap"),
        ("subscriptions", "dead-letters", "redrive", "cheap", "--all"),
        ("subscriptions", "list", "--behind"),
        ("topics", "list"),
        ("topics", "create", "roads"),
        ("topics", "delete", "roads"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_in_a_store_is_said_to(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    in_store(tmp_path, "subscriptions", "add", "cheap", "price < 10")
    ended = in_store(tmp_path, *arguments)
    assert ended.exit_code != 0
    assert "for a running service, named by --url" in ended.stderr


def test_what_makes_no_sense_at_a_service_is_said_to(tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text("id,condition\n")
    service = ("--url", "http://127.0.0.1:1")
    ended = runner.invoke(app, ["subscriptions", "import", str(file), *service], env=NOWHERE)
    assert "for the store of a pipeline" in ended.stderr
    ended = runner.invoke(app, ["subscriptions", "add", "cheap", "price < 5", "--replace", *service], env=NOWHERE)
    assert "are for a store" in ended.stderr
    ended = runner.invoke(app, ["subscriptions", "list", "--store", "x.db", *service], env=NOWHERE)
    assert "--store or --url" in ended.stderr
