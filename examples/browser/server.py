"""The server of a web page that shows events: it has the token, and gives the page tickets.

    FIELDFARE_URL=http://localhost:7380 FIELDFARE_TOKEN=... python server.py 8080 mine

Who may see the page, and so the events of the subscription `mine`, is this server's to decide: here, everybody. The
page's origin, such as http://localhost:8080, has to be among `origins` in the service's configuration.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

PAGE = Path(__file__).with_name("page.html")
SERVICE = os.environ.get("FIELDFARE_URL", "http://localhost:7380")
SUBSCRIPTION = sys.argv[2] if len(sys.argv) > 2 else "mine"


class Handler(BaseHTTPRequestHandler):
    """Answers with the page, and with tickets."""

    def do_GET(self) -> None:
        """The page."""
        self._answer("text/html; charset=utf-8", PAGE.read_bytes())

    def do_POST(self) -> None:
        """A ticket, and where to use it."""
        body = json.dumps({"subscription": SUBSCRIPTION, "lifetime_seconds": 60}).encode()
        headers = {"Content-Type": "application/json"}
        if token := os.environ.get("FIELDFARE_TOKEN"):
            headers["Authorization"] = f"Bearer {token}"
        with urlopen(Request(f"{SERVICE}/v1/tickets", body, headers)) as answer:  # noqa: S310 - the operator's URL
            made = json.load(answer)
        places = {
            "subscription": SUBSCRIPTION,
            "stream": SERVICE + made["stream"],
            "websocket": SERVICE.replace("http", "ws", 1) + made["websocket"],
        }
        self._answer("application/json", json.dumps(places).encode())

    def _answer(self, media_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8080), Handler) as server:
        print(f"The page is at http://localhost:{server.server_port}/", flush=True)
        server.serve_forever()
