"""The service as a process: how it starts, what it refuses, what it never says, and how it stops."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.runtime.certificates import make_certificate
from tests.runtime.processes import ServiceProcess, run

import fieldfare
from fieldfare.errors import ConfigError, NotConnectedError, ServiceError, UnauthenticatedError
from fieldfare.qos import Requested
from fieldfare.runtime.config import Server, Settings
from fieldfare.runtime.service import serve
from fieldfare.runtime.tokens import TokenFile

SECONDS_MAX = 60.0
ALIVE = Requested(durability="transient")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def received(url: str, count: int, **options: Any) -> list[dict[str, Any]]:
    """The first events of a topic, oldest first."""
    async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url, **options) as client:
        events: list[dict[str, Any]] = []
        if count:
            async for event in client.subscribe("numbers", "n >= 0", qos=ALIVE):
                events.append(event.attributes)
                if len(events) == count:
                    break
        return events


async def publish(url: str, *events: dict[str, Any], **options: Any) -> None:
    async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url, **options) as client:
        await client.publish("numbers", list(events))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_starts_serves_stops_and_goes_on(data: Path, how: signal.Signals) -> None:
    with ServiceProcess(data) as service:
        assert httpx.get(f"{service.url}/healthz").status_code == 200
        assert httpx.get(f"{service.url}/readyz").status_code == 200
        asyncio.run(publish(service.url, {"n": 1}, {"n": 2}))
        assert service.stop(how) == 0
    assert "DEVELOPMENT MODE" in service.log
    assert "Traceback" not in service.log
    with ServiceProcess(data) as service:
        assert asyncio.run(received(service.url, 2)) == [{"n": 1}, {"n": 2}]
        assert service.stop(how) == 0


def test_after_a_kill_it_goes_on(data: Path) -> None:
    with ServiceProcess(data) as service:
        asyncio.run(publish(service.url, {"n": 1}))
        service.process.kill()
    with ServiceProcess(data) as service:
        assert asyncio.run(received(service.url, 1)) == [{"n": 1}]


def test_stopping_under_load_loses_nothing(data: Path) -> None:
    """Publishers never pause, so that something is always in hand."""

    async def load(service: ServiceProcess) -> int:
        accepted = 0
        is_busy = asyncio.Event()

        async def keep_publishing(client: Any, publisher: int) -> None:
            nonlocal accepted
            for number in range(10**9):
                await client.publish("numbers", {"n": number, "publisher": publisher})
                accepted += 1
                if accepted == 200:
                    is_busy.set()

        async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as group:
            clients = [fieldfare.connect(service.url) for _ in range(4)]
            for client in clients:
                await client.__aenter__()
            tasks = [group.create_task(keep_publishing(client, n)) for n, client in enumerate(clients)]
            await is_busy.wait()
            assert await asyncio.to_thread(service.stop) == 0
            for task in tasks:
                task.cancel()
            for client in clients:
                await client.__aexit__(NotConnectedError, NotConnectedError(), None)
        return accepted

    with ServiceProcess(data) as service:
        accepted = asyncio.run(load(service))
    assert "Traceback" not in service.log
    with ServiceProcess(data) as service:
        events = asyncio.run(received(service.url, accepted))
        for publisher in range(4):
            numbers = [event["n"] for event in events if event["publisher"] == publisher]
            assert numbers == list(range(len(numbers)))


def test_those_who_listen_are_told_to_come_back(data: Path) -> None:
    with ServiceProcess(data) as service, httpx.Client(base_url=service.url, timeout=SECONDS_MAX) as client:
        made = client.post("/v1/subscriptions", json={"topic": "numbers", "condition": "n > 0", "name": "mine"})
        assert made.status_code in (200, 201), made.text
        with client.stream("GET", "/v1/subscriptions/mine/stream") as stream:
            lines = stream.iter_lines()
            assert "retry" in next(lines)
            assert service.stop() == 0
            rest = "\n".join(lines)  # ends: the connection is not just cut
        assert "come back" in rest


def test_a_port_in_use(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("serve", "--data", str(data), "--port", str(port))
    assert ended.returncode == 2
    assert f"Error: port {port} is in use" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not data.exists()


def test_a_folder_in_use(data: Path) -> None:
    with ServiceProcess(data) as service:
        ended = run("serve", "--data", str(data), "--port", "0")
        assert ended.returncode == 2
        assert "another process" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert service.stop() == 0


def never(address: str) -> None:
    pytest.fail(f"it is ready at {address}")


@pytest.mark.parametrize(
    ("server", "reasons"),
    [
        (Server(host="0.0.0.0"), ["fieldfare tokens create", "TLS is needed"]),  # noqa: S104
        (Server(behind_proxy=True), ["fieldfare tokens create"]),
        (Server(host="192.0.2.1", behind_proxy=True), ["fieldfare tokens create"]),
        (Server(tls_certificate="none.pem", tls_key="none.pem"), ["there is no file none.pem"]),
        (Server(data=__file__), [f"{__file__}"]),
    ],
)
def test_what_is_refused(server: Server, reasons: list[str], data: Path) -> None:
    if server.data == Server().data:
        server = msgspec.structs.replace(server, data=str(data))
    with pytest.raises((ConfigError, ServiceError)) as error:
        serve(Settings(server=msgspec.structs.replace(server, port=0)), never)
    assert all(reason in str(error.value) for reason in reasons)
    assert not data.exists()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_addresses_that_are_not_of_this_machine(data: Path, host: str) -> None:
    TokenFile(data).create("acme", {"publish": ("*",)}, now=0.0)
    with pytest.raises(ConfigError, match="of this machine"):
        serve(Settings(server=Server(host=host, port=0, data=str(data), behind_proxy=True)), never)


def test_a_topic_that_cannot_be_as_the_settings_say(data: Path, tmp_path: Path) -> None:
    settings = tmp_path / "service.toml"
    settings.write_text("[topics.numbers]\n")
    with ServiceProcess(data, "--config", str(settings)) as service:

        async def subscribe() -> None:
            async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(service.url) as client:
                await client.subscribe("numbers", "n > 0", name="mine")

        asyncio.run(subscribe())
        assert service.stop() == 0
    settings.write_text("[topics.numbers]\nreliability = 'best_effort'\n")
    ended = run("serve", "--config", str(settings), "--data", str(data), "--port", "0")
    assert ended.returncode == 2
    assert "topics.numbers: " in ended.stderr
    assert "'mine'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_tls(data: Path, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    variables = {"FIELDFARE_SERVER_TLS_CERTIFICATE": str(certificate), "FIELDFARE_SERVER_TLS_KEY": str(key)}
    with ServiceProcess(data, **variables) as service:
        assert service.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certificate)
        assert httpx.get(f"{service.url}/healthz", verify=trusting).status_code == 200
        asyncio.run(publish(service.url, {"n": 1}, ca_file=certificate))
        assert asyncio.run(received(service.url, 1, ca_file=certificate)) == [{"n": 1}]
        assert service.stop() == 0
    assert "Traceback" not in service.log


def test_topics_of_the_settings(data: Path, tmp_path: Path) -> None:
    settings = tmp_path / "service.toml"
    settings.write_text("[topics.live]\nreliability = 'best_effort'\ndurability = 'volatile'\nlifespan_seconds = 5\n")
    with ServiceProcess(data, "--config", str(settings)) as service:
        (topic,) = httpx.get(f"{service.url}/v1/topics").json()["items"]
        assert topic["topic"] == "live"
        assert topic["offered"]["reliability"] == "best_effort"


def test_metrics_name_the_busiest_subscriptions_only(data: Path) -> None:
    async def use(url: str) -> str:
        async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url) as client, httpx.AsyncClient() as http:
            all_of_them, some, none = [
                client.subscribe("numbers", f"n < {bound}", name=name)
                for name, bound in (("all", 100), ("some", 50), ("none", 0))
            ]
            for subscription in (all_of_them, some, none):
                await subscription
            await client.publish("numbers", [{"n": number} for number in range(100)])
            async for event in all_of_them:
                if event.attributes["n"] == 99:
                    break
            return (await http.get(f"{url}/metrics")).text

    with ServiceProcess(data, FIELDFARE_LIMITS_METRICS_SUBSCRIPTIONS_MAX="2") as service:
        text = asyncio.run(use(service.url))
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    names = 'subscription="{}",tenant="default",topic="numbers"'
    assert float(numbers["fieldfare_published_total"]) == 100
    assert float(numbers["fieldfare_subscriptions"]) == 3
    assert float(numbers["fieldfare_log_flush_seconds_count"]) > 0
    for name, accepted in (("all", 100), ("some", 50)):
        assert float(numbers[f"fieldfare_subscription_accepted_total{{{names.format(name)}}}"]) == accepted
        assert float(numbers[f"fieldfare_subscription_rejected_total{{{names.format(name)}}}"]) == 100 - accepted
    assert 'subscription="none"' not in text


def test_a_token_is_never_found_in_what_the_service_says_or_keeps(data: Path) -> None:
    rights: dict[Any, tuple[str, ...]] = dict.fromkeys(("publish", "subscribe", "create"), ("numbers",))
    _, canary = TokenFile(data).create("acme", rights, now=0.0)
    wrong = "ff_" + "wrong-canary" * 4
    said = []
    with ServiceProcess(data, "--json-logs") as service:
        for token in (canary, wrong):
            header = {"Authorization": f"Bearer {token}"}
            for path in ("/v1/topics", "/metrics", "/v1/nonsense", f"/v1/topics?token={token}", "/healthz"):
                answer = httpx.get(f"{service.url}{path}", headers=header)
                said += [answer.text, str(answer.headers)]
            said.append(httpx.post(f"{service.url}/v1/topics/numbers/events", content=b"{", headers=header).text)
        asyncio.run(publish(service.url, {"n": 1}, token=canary))
        for other in (None, wrong):
            with pytest.raises(UnauthenticatedError) as error:
                asyncio.run(publish(service.url, {"n": 2}, token=other))
            said.append(str(error.value))
        assert asyncio.run(received(service.url, 1, token=canary)) == [{"n": 1}]
        ended = run("publish", "numbers", '{"n": 3}', "--url", service.url, FIELDFARE_TOKEN=wrong)
        said += [ended.stdout, ended.stderr]
        assert ended.returncode == 2
        assert service.stop() == 0
    assert "DEVELOPMENT MODE" not in service.log
    said += [service.log, *(path.read_bytes().decode("latin-1") for path in data.rglob("*") if path.is_file())]
    for text in said:
        assert canary[3:] not in text
        assert wrong[3:] not in text
    for line in service.log.splitlines():
        assert json.loads(line).keys() >= {"at", "level", "logger", "message"}


def test_a_token_that_is_made_while_it_runs_ends_development_mode(data: Path) -> None:
    with ServiceProcess(data) as service:
        assert httpx.get(f"{service.url}/v1/topics").status_code == 200
        made = run("tokens", "create", "--data", str(data), "--publish", "*", "--subscribe", "*")
        token = made.stdout.strip()
        assert httpx.get(f"{service.url}/v1/topics").status_code == 401
        answer = httpx.get(f"{service.url}/v1/topics", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200


def test_revoking_a_token_closes_its_connections(data: Path) -> None:
    tokens = TokenFile(data)
    rights: dict[Any, tuple[str, ...]] = dict.fromkeys(("publish", "subscribe", "create"), ("*",))
    (revoked, secret), (_, other) = (tokens.create("acme", rights, 0.0) for _ in range(2))

    async def story(url: str) -> None:
        async with asyncio.timeout(SECONDS_MAX), fieldfare.connect(url, token=other) as stays:
            await stays.publish("numbers", {"n": 1})
            async with fieldfare.connect(url, token=secret) as goes:
                await goes.publish("numbers", {"n": 2})
                tokens.revoke(revoked.id)
                with pytest.raises(UnauthenticatedError, match="revoked"):
                    async for _ in goes.subscribe("numbers", "n > 5"):
                        pass
            assert stays.is_connected
            await stays.publish("numbers", {"n": 3})

    with ServiceProcess(data) as service:
        asyncio.run(story(service.url))
