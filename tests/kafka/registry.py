"""A schema registry for tests: the two requests of its HTTP interface that reading needs, and ways to fail."""

from __future__ import annotations

import io
import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from fastavro import schemaless_writer

from fieldfare.kafka.schema_registry import SchemaRegistry


class RegistryServer:
    """A context manager. Schemas get the ids 1, 2, …"""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        self.user: str | None = None
        self._count = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.user = self.headers.get("Authorization")
                status, answer = server.answers.get(self.path, (404, {"error_code": 40403}))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def registry(self) -> SchemaRegistry:
        return SchemaRegistry(f"http://127.0.0.1:{self._http.server_port}")

    def add(self, schema: Any, topic: str | None = None, **more: Any) -> int:
        """Register a schema, as the latest of a topic's values."""
        self._count += 1
        text = schema if more.get("schemaType") == "PROTOBUF" else json.dumps(schema)
        answer = {"schema": text, **more}
        self.answers[f"/schemas/ids/{self._count}"] = 200, answer
        if topic is not None:
            for version in ("latest", "1"):
                self.answers[f"/subjects/{topic}-value/versions/{version}"] = 200, {"id": self._count, **answer}
        return self._count


def message(schema_id: int, schema: Any, event: Any) -> bytes:
    """An event as producers that use a registry send it."""
    body = io.BytesIO()
    schemaless_writer(body, schema, event)
    return struct.pack(">bI", 0, schema_id) + body.getvalue()
