"""`fieldfare brokers --url`: what it makes of answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest
from typer.testing import CliRunner

from fieldfare.cli import app
from fieldfare.commands.connecting import Service
from fieldfare.commands.tree import print_tree, read_tree
from fieldfare.errors import FieldfareError, ForbiddenError, InputError, NotConnectedError, NotFoundError
from fieldfare.routing.tree.view import SeenBroker, SeenLink, SeenTopic, TreeView

VIEW = TreeView(
    "b1",
    [SeenBroker("b1", "0123456789abcdef", "127.0.0.1:1", "http://127.0.0.1:2", 0, "", 0.5, 1200, 1)],
    [SeenLink("b2", 2000, 1000, 8000, 10)],
    ["b3"],
    [SeenTopic("news", ("b1", "b2"), ("b1",), ("b2",))],
)


@contextmanager
def answering(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers everything in the same way; its URL, and the tokens that it was shown."""
    tokens: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers["Authorization"])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", tokens
        finally:
            server.shutdown()
            thread.join()


def test_what_a_broker_sees_is_read_and_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIELDFARE_TOKEN", "canary")
    with answering(200, msgspec.json.encode(VIEW)) as (url, tokens):
        assert read_tree(Service(url + "/", None, None)) == VIEW
    assert tokens == ["Bearer canary"]
    print_tree(VIEW)
    shown = capsys.readouterr().out
    for text in ("seen by b1", "50%", "1,200", "8,000", "b1, b2", "Neighbours that are away: b3"):
        assert text in shown


@pytest.mark.parametrize(
    ("status", "body", "error", "reason"),
    [
        (403, b'{"code": "forbidden", "detail": "not for you"}', ForbiddenError, "not for you"),
        (404, b'{"code": "unknown", "detail": "this broker is not one of a tree"}', NotFoundError, "not one of a tree"),
        (404, b"<html>", NotConnectedError, "is no broker of a tree: it says 404"),
        (200, b"<html>", NotConnectedError, "is no broker of a tree"),
    ],
)
def test_what_is_no_broker_of_a_tree(status: int, body: bytes, error: type[FieldfareError], reason: str) -> None:
    with answering(status, body) as (url, _), pytest.raises(error, match=reason):
        read_tree(Service(url, None, None))


def test_a_token_is_not_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIELDFARE_TOKEN", "canary")
    with (
        answering(200, msgspec.json.encode(VIEW)) as (other, tokens),
        answering(302, b"", Location=other) as (url, _),
        pytest.raises(NotConnectedError, match="it says 302"),
    ):
        read_tree(Service(url, None, None))
    assert tokens == []


def test_what_is_no_url() -> None:
    with pytest.raises(InputError, match="begins with http://"):
        read_tree(Service("file:///etc/passwd", None, None))
    ended = CliRunner().invoke(app, ["brokers", "--url", "127.0.0.1:7380"])
    assert ended.exit_code != 0
