"""The example page in a real browser, over a real service with tokens: by EventSource and by WebSocket."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.examples.browser import browsing
from tests.runtime.processes import ServiceProcess
from tests.runtime.serving import ALL

from fieldfare.runtime.tokens import TokenFile

EXAMPLE = Path(__file__).parents[2] / "examples" / "browser"
SHOWN = "return [...document.querySelectorAll('#events li')].map((item) => item.textContent)"
STATE = "return document.getElementById('state').textContent"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def page_server(port: int, url: str, token: str) -> Iterator[str]:
    command = [sys.executable, str(EXAMPLE / "server.py"), str(port), "mine"]
    variables = {**os.environ, "FIELDFARE_URL": url, "FIELDFARE_TOKEN": token}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
    ) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield found[0].replace("localhost", "127.0.0.1")
        finally:
            server.terminate()


@pytest.mark.parametrize("way", ["", "#websocket"], ids=["EventSource", "WebSocket"])
def test_a_page_shows_events_also_after_the_service_was_away(tmp_path: Path, way: str) -> None:
    """A ticket ends with the service: the page asks for another, and goes on where it was."""
    data, page_port = tmp_path / "data", free_port()
    _, token = TokenFile(data).create("acme", ALL.rights, time.time())
    config = tmp_path / "service.toml"
    config.write_text(f'[server]\norigins = ["http://127.0.0.1:{page_port}"]\n')
    headers = {"Authorization": f"Bearer {token}"}
    with (
        browsing(tmp_path / "profile") as browser,
        ServiceProcess(data, "--config", str(config)) as service,
        page_server(page_port, service.url, token) as page,
    ):
        httpx.put(f"{service.url}/v1/topics/traffic", json={}, headers=headers).raise_for_status()
        subscription = {"topic": "traffic", "condition": "speed < 25", "name": "mine"}
        made = httpx.post(f"{service.url}/v1/subscriptions", json=subscription, headers=headers)
        assert made.status_code == 201
        events = f"{service.url}/v1/topics/traffic/events"
        httpx.post(events, json=[{"speed": 20}, {"speed": 30}], headers=headers).raise_for_status()
        browser.open(page + way)
        browser.wait_for(SHOWN, ['{"speed":20}'])
        browser.wait_for(STATE, "open")
        httpx.post(events, json={"speed": 21}, headers=headers).raise_for_status()
        browser.wait_for(SHOWN, ['{"speed":20}', '{"speed":21}'])

        port = service.url.rpartition(":")[2]
        assert service.stop() == 0
        browser.wait_for(STATE, "waiting")
        with ServiceProcess(data, "--config", str(config), "--port", port):
            httpx.post(events, json={"speed": 22}, headers=headers).raise_for_status()
            browser.wait_for(SHOWN, ['{"speed":20}', '{"speed":21}', '{"speed":22}'])
            browser.open("about:blank")
