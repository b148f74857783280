"""A service among enemies: a real process with two tenants, of which one, or somebody without a token, attacks.

Whatever is sent is refused or bounded, nothing of the other tenant is seen, and the other tenant is served all the
time. One process takes all of it; when it ends, its log may hold neither a trace of an error nor a token.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
import pickle
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets
from tests.faults.hostile import MEBIBYTE, UPGRADE, WAIT_SECONDS, Redirecting, Target, is_cut_off, is_cut_off_by
from tests.runtime.processes import ServiceProcess
from tests.runtime.serving import asking
from tests.runtime.test_bad_input import BAD_EVENTS, HTTP_ONLY

from fieldfare.runtime.gateway.sockets import ConnectionLimits
from fieldfare.runtime.tokens import TokenFile

DESCRIPTORS = 200
PAGE = "https://dashboard.example"
RIGHTS: Any = {"publish": ("*",), "subscribe": ("*",), "manage": ("*",), "create": ("*",)}
FRAMES: Any = {
    "ack": {"position": 9},
    "list": {"ref": 1, "what": "dead_letters"},
    "detach": {},
    "ack_each": {"positions": [0, 1]},
    "nack": {"position": 0},
    "seek": {"ref": 1, "start": {"beginning": True}},
}
ANSWERED = ("attach", "unsubscribe", "list", "seek", "change", "pause", "resume", "redrive", "drop_dead_letters")
OPEN_PATHS = {"/healthz", "/readyz", "/openapi.json", "/asyncapi.json"}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("security")
    tokens = {
        tenant: TokenFile(folder / "data").create(tenant, RIGHTS, now=time.time())[1] for tenant in ("evil", "good")
    }
    endpoint = Redirecting()
    settings = {
        "FIELDFARE_SERVER_ORIGINS": PAGE,
        "FIELDFARE_WEBHOOKS_ALLOW": f"127.0.0.1:{endpoint.port}",
        "FIELDFARE_WEBHOOKS_ATTEMPTS_MAX": "1",
    }
    service = ServiceProcess(folder / "data", **settings)
    service.prefix = ["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh"]
    with service:
        yield Target(service, tokens, endpoint)
        assert service.stop() == 0
    endpoint.close()
    assert "Traceback" not in service.log
    kept = [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]
    assert not any(token[3:] in text for token in tokens.values() for text in kept)


@pytest.fixture(autouse=True)
def served(target: Target) -> Iterator[None]:
    """Whatever happens in a test, the other tenant is served afterwards."""
    yield
    with target.client("good") as good:
        assert good.post("/v1/topics/mine/events", json={"a": 1}).json() == {"count": 1}


# Bad input


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://{host}:{{port}}/" for host in ("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost")),
        *(f"http://{host}:{{port}}/" for host in ("[::ffff:127.0.0.1]", "[::1]", "0", "169.254.169.254")),
        "http://127.0.0.1:{port}/",
        "http://good@127.0.0.1:{port}/",
        "file:///etc/passwd",
    ],
)
def test_a_webhook_to_an_internal_address_is_refused(target: Target, url: str) -> None:
    body = {
        "topic": "t",
        "condition": "TRUE",
        "name": "inward",
        "webhook": url.format(port=target.endpoint.inside_port),
    }

    async def over_websocket() -> Any:
        async with target.websocket() as connection:
            await connection.send(json.dumps({"type": "subscribe", "ref": 1, **body}))
            return json.loads(await asyncio.wait_for(connection.recv(), WAIT_SECONDS))

    with target.client() as evil:
        refused = evil.post("/v1/subscriptions", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
        assert asyncio.run(over_websocket())["code"] == "invalid"
        assert evil.get("/v1/subscriptions/inward").status_code == 404


def test_a_webhook_that_is_allowed_does_not_lead_inside(target: Target) -> None:
    body = {"topic": "hook", "condition": "TRUE", "name": "led", "webhook": f"http://127.0.0.1:{target.endpoint.port}/"}
    with target.client() as evil:
        assert evil.post("/v1/subscriptions", json=body).status_code == 201
        evil.post("/v1/topics/hook/events", json={"a": 1})
        deadline = time.monotonic() + WAIT_SECONDS
        while not (letters := evil.get("/v1/subscriptions/led/dead-letters").json()["items"]):
            assert time.monotonic() < deadline, "no dead letter"
            time.sleep(0.05)
    assert "redirects are not followed" in letters[0]["reason"]
    assert target.endpoint.calls == 1
    assert target.endpoint.is_untouched()


@pytest.mark.parametrize("name", ["../../outside", "..", "/etc/passwd", "a/../../outside", "a\x00b", "con\n", "é", "~"])
def test_no_name_becomes_a_path(target: Target, name: str) -> None:
    data = target.service.data
    with target.client() as evil:
        quoted = "".join(f"%{byte:02x}" for byte in name.encode())
        assert evil.put(f"/v1/topics/{quoted}", json={}).status_code in (400, 404)
        assert evil.post(f"/v1/topics/{quoted}/events", json={}).status_code in (400, 404)
        for body in ({"topic": name, "name": "fine"}, {"topic": "fine", "name": name}):
            assert evil.post("/v1/subscriptions", json={**body, "condition": "TRUE"}).status_code == 400
    assert {path.name for path in data.parent.iterdir()} == {"data", "data.stderr"}
    ours = r"tokens\.json(\.lock)?|audit\.jsonl[\w.]*|log|log/(segment|checkpoint)-\d+\.\w+|log/[\w.]*lock[\w.]*"
    assert all(re.fullmatch(ours, str(path.relative_to(data))) for path in data.rglob("*"))


class _Touch:
    """What runs a command when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self._path}",)


def test_nothing_that_is_sent_is_run(target: Target, tmp_path: Path) -> None:
    canary = tmp_path / "run"
    bomb = pickle.dumps(_Touch(canary))
    carried = {"topic": "t", "condition": "TRUE", "name": "carried"}

    async def over_websocket() -> int | None:
        async with target.websocket() as connection:
            await connection.send(bomb)
            await asyncio.wait_for(connection.wait_closed(), WAIT_SECONDS)
            return connection.close_code

    with target.client() as evil:
        for path in ("/v1/topics/t/events", "/v1/subscriptions", "/v1/subscriptions/test"):
            for media_type in ("application/json", "application/octet-stream", "application/python-pickle"):
                response = evil.post(path, content=bomb, headers={"Content-Type": media_type})
                is_payload = path.endswith("/events") and media_type == "application/octet-stream"  # carried unread
                assert response.status_code in ((200,) if is_payload else (400, 415)), (path, media_type)
        assert evil.post("/v1/subscriptions", json=carried).status_code == 201
        as_bytes = {"Content-Type": "application/octet-stream"}
        assert evil.post("/v1/topics/t/events", content=bomb, headers=as_bytes).status_code == 200
        (taken,) = evil.get("/v1/subscriptions/carried/events", params={"wait_seconds": 30}).json()["events"]
        assert base64.b64decode(taken["payload"]) == bomb
        assert evil.delete("/v1/subscriptions/carried").status_code == 204
        assert asyncio.run(over_websocket()) == 1003
        for code in (
            f"__import__('os').system('touch {canary}') = 0",
            f'eval(\'open("{canary}", "w")\') = 1',
            f"reflect('java.lang.Runtime', 'exec', 'touch {canary}') = 1",
            f"a = 1; COPY t TO '{canary}'",
            "(SELECT 1) = 1",
            "(" * 5000 + "a" + ")" * 5000,
        ):
            for path, more in (("/v1/subscriptions", {"topic": "t"}), ("/v1/subscriptions/test", {"events": [{}]})):
                assert evil.post(path, json={"condition": code, **more}).status_code == 422
        for pattern in ("(a+)+$", "(a|a)*b"):  # where it goes back, 2 ** 200,000 steps
            slow = {"condition": f"a RLIKE '{pattern}'", "events": [{"a": "a" * 200_000 + "!"}]}
            assert evil.post("/v1/subscriptions/test", json=slow).json()["verdicts"][0]["matches"] is False
        explosive = " AND ".join(f"a{number} IN (1, 3)" for number in range(30))  # 2 ** 30 boxes, if it were let
        tried = evil.post("/v1/subscriptions/test", json={"condition": explosive, "events": [{}]}).json()
        assert tried["verdicts"][0]["matches"] is False
    assert not canary.exists()


def test_a_pattern_cannot_make_matching_slow(target: Target) -> None:
    pattern, text = "%" + "a" * 30_000 + "b%", "a" * 250_000  # where it goes back, 7,500,000,000 steps for each event
    with target.client() as evil:
        evil.post("/v1/subscriptions", json={"topic": "like", "condition": f"a LIKE '{pattern}'"})
        assert evil.post("/v1/topics/like/events", json=[{"a": text}] * 10).json() == {"count": 10}


def test_nothing_is_decompressed(target: Target) -> None:
    bomb = gzip.compress(b"[" + b"{}," * MEBIBYTE + b"{}]")
    with target.client() as evil:
        refused = evil.post("/v1/topics/t/events", content=bomb, headers={"Content-Encoding": "gzip"})
    assert refused.status_code == 415

    async def extensions() -> object:
        async with target.websocket(compression="deflate") as connection:
            return connection.protocol.extensions

    assert asyncio.run(extensions()) == []
    with target.upgraded() as connection:
        connection.sendall(b"\xc1\x80\0\0\0\0")  # a compressed frame all the same
        assert is_cut_off(connection)


def test_odd_values_are_refused_and_leave_nothing(target: Target) -> None:
    with target.client() as evil:
        evil.post("/v1/subscriptions", json={"topic": "odd", "condition": "TRUE", "name": "odd"})
        for body in (BAD_EVENTS | HTTP_ONLY).values():
            assert evil.post("/v1/topics/odd/events", content=body).status_code == 400
        evil.post("/v1/topics/odd/events", json={"a": 1})
        polled = evil.get("/v1/subscriptions/odd/events", params={"wait_seconds": 30}).json()
    assert [each["event"] for each in polled["events"]] == [{"a": 1}]


def test_a_deadline_that_is_always_over_is_refused(target: Target) -> None:
    with target.client() as evil:
        body = {"topic": "t", "condition": "TRUE", "qos": {"deadline_seconds": 1e-9}}
        assert evil.post("/v1/subscriptions", json=body).status_code == 400


# Who asks


def test_without_a_token_nothing_is_open_but_what_must_be(target: Target) -> None:
    with httpx.Client(base_url=target.service.url, timeout=WAIT_SECONDS) as nobody:
        paths = nobody.get("/openapi.json").json()["paths"]
        assert len(paths) > 10
        for path, methods in paths.items():
            for method in methods:
                for token in ({}, {"Authorization": "Bearer ff_wrong"}, {"Authorization": "Basic Z29vZDpnb29k"}):
                    url = path.replace("{topic}", "mine").replace("{subscription}", "private")
                    response = nobody.request(method, url, headers=token)
                    assert response.status_code == (200 if path in OPEN_PATHS else 401), (method, path)
        assert nobody.get("/v1/topics", params={"token": target.tokens["good"]}).status_code == 401


def test_another_tenants_things_do_not_exist(target: Target) -> None:
    async def frames() -> list[str]:
        async with target.websocket() as connection:
            for name in ("private", "absent"):
                for kind in ("detach", "ack", "ack_each", "nack", *ANSWERED):
                    more = FRAMES.get(kind, {"ref": 1})
                    await connection.send(json.dumps({"type": kind, "subscription": name, **more}))
            answers: list[str] = []
            while len(answers) < 2 * len(ANSWERED):
                answers += str(await asyncio.wait_for(connection.recv(), WAIT_SECONDS)).split("\n")
            return answers

    with target.client("good") as good, target.client() as evil:
        shared = {"topic": "mine", "condition": "TRUE", "name": "private", "consuming": {"is_shared": True}}
        good.post("/v1/subscriptions", json=shared)
        good.post("/v1/topics/mine/events", json={"a": "secret"})
        for method, path, body in (
            ("GET", "", None),
            ("DELETE", "", None),
            ("GET", "/events", None),
            ("GET", "/stream", None),
            ("GET", "/dead-letters", None),
            ("POST", "/ack", {"position": 9}),
            ("POST", "/ack", {"positions": [0, 1]}),
            ("POST", "/nack", {"position": 0}),
            ("POST", "/seek", {"start": {"beginning": True}}),
            ("POST", "/change", {"condition": "FALSE"}),
            ("POST", "/pause", None),
            ("POST", "/resume", None),
            ("POST", "/dead-letters/redrive", {}),
            ("POST", "/dead-letters/drop", {}),
        ):
            foreign, absent = (
                evil.request(method, f"/v1/subscriptions/{name}{path}", json=body) for name in ("private", "absent")
            )
            assert foreign.status_code == 404
            assert foreign.content == absent.content
        answers = asyncio.run(frames())
        half = len(ANSWERED)
        assert [answer.replace("private", "absent") for answer in answers[:half]] == answers[half:]
        for path in ("/v1/subscriptions", "/v1/topics", "/metrics"):
            assert "private" not in evil.get(path).text
            assert "mine" not in evil.get(path).text
        assert 'subscription="private"' in good.get("/metrics").text
        polled = good.get("/v1/subscriptions/private/events", params={"wait_seconds": 30}).json()
        assert {"a": "secret"} in [each["event"] for each in polled["events"]]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"{PAGE}.evil.example", "http://localhost"])
def test_a_page_of_another_origin_is_turned_away(target: Target, origin: str) -> None:
    async def open_from(page: str) -> None:
        async with target.websocket(origin=page):
            pass

    with pytest.raises(websockets.InvalidStatus) as refused:
        asyncio.run(open_from(origin))
    assert refused.value.response.status_code == 403
    asyncio.run(open_from(PAGE))


# Too much


def test_who_is_not_known_costs_little_memory_and_no_file(target: Target) -> None:
    before = target.memory_bytes
    with ExitStack() as stack:
        for number in range(2 * DESCRIPTORS):  # a head without an end; an answer, and a body without an end
            head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
            head += b"X: " + b"x" * 30_000 if number % 2 else b"Content-Length: 9\r\n\r\nx"
            with suppress(OSError):  # it may be cut off already
                stack.enter_context(target.connect(head))
        with target.client("good") as good:  # what it stores and reads needs files
            good.post("/v1/subscriptions", json={"topic": "mine", "condition": "TRUE", "name": "reader"})
            good.post("/v1/topics/mine/events", json={"a": 2})
            polled = good.get("/v1/subscriptions/reader/events", params={"wait_seconds": 30}).json()
            assert {"a": 2} in [each["event"] for each in polled["events"]]
            assert good.get("/readyz").status_code == 200
    assert target.memory_bytes - before < 32 * MEBIBYTE


def test_a_handshake_that_is_none_is_cut_off(target: Target) -> None:
    with target.connect(f"{UPGRADE}\r\nContent-Length: 5\r\n\r\nhello".encode()) as connection:
        assert is_cut_off(connection)


@pytest.mark.parametrize(
    ("first", "again", "bytes_max"),
    [
        (b"", b"\x89\xfd\0\0\0\0" + b"x" * 125, 64 * MEBIBYTE),  # pings, whose answers are not read
        (b"\x01\x80\0\0\0\0", b"\x00\x80\0\0\0\0", 8 * MEBIBYTE),  # a message of empty pieces
        # One without an end.
        (b"\x01\x81\0\0\0\0a", b"\x00\xff\0\0\0\0\0\x01\0\0\0\0\0\0" + b"x" * 65536, 64 * MEBIBYTE),
    ],
)
def test_what_no_application_sees_is_bounded(target: Target, first: bytes, again: bytes, bytes_max: int) -> None:
    before = target.memory_bytes
    with target.upgraded() as connection:
        connection.sendall(first)
        assert is_cut_off_by(connection, again, bytes_max)
    assert target.memory_bytes - before < 64 * MEBIBYTE


def test_many_questions_in_one_message_do_not_hold_up_others(target: Target) -> None:
    async def ask() -> None:
        async with target.websocket(close_timeout=0.1) as connection:
            topics = (json.dumps({"type": "declare_topic", "ref": n, "topic": f"many-{n}"}) for n in range(1000))
            await connection.send("\n".join(topics))
            question = '{"type":"list","ref":1,"what":"topics","count_max":1000}'
            await connection.send("\n".join([question] * 70_000))  # not read; to answer all takes many minutes
            async with httpx.AsyncClient(base_url=target.service.url, headers=target.headers("good")) as good:
                for _ in range(3):
                    assert (await good.get("/v1/topics", timeout=WAIT_SECONDS)).status_code == 200

    before = target.memory_bytes
    asyncio.run(ask())
    assert target.memory_bytes - before < 128 * MEBIBYTE


def test_a_small_request_has_no_huge_answer(target: Target) -> None:
    body = {"condition": " AND ".join(["a = 1"] * 2000), "events": [{}] * 1000}
    with target.client() as evil:
        assert len(evil.post("/v1/subscriptions/test", json=body).content) < 4 * MEBIBYTE


def test_a_stream_is_not_asked_for_by_head(target: Target) -> None:
    with target.client() as evil:
        evil.post("/v1/subscriptions", json={"topic": "t", "condition": "TRUE", "name": "head"})
        assert evil.head("/v1/subscriptions/head/stream").status_code == 405
        assert evil.head("/healthz").status_code == 200


async def ask_for_ever(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        await writer.drain()


def test_who_does_not_read_is_cut_off() -> None:
    async def story() -> None:
        limits = ConnectionLimits(
            head_seconds=3600, head_bytes_max=2**40, stall_seconds=0.2
        )  # no other limit is to help
        async with asking(limits=limits) as (_, served):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            try:
                with pytest.raises(ConnectionError):
                    await asyncio.wait_for(ask_for_ever(writer), WAIT_SECONDS)
            finally:
                writer.transport.abort()

    asyncio.run(story())
