"""A real browser, driven by the W3C's WebDriver protocol: enough of it to open a page and read it."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.installing import install_in_ci, missing

_ADVICE = "the page is tried in Chromium: install it (Debian: apt install chromium chromium-driver)"
_SECONDS_MAX = 60.0


class Browser:
    """A session with one window."""

    def __init__(self, driver: httpx.Client, session: str) -> None:
        self._driver, self._session = driver, session

    def open(self, url: str) -> None:
        self._post("url", {"url": url})

    def run(self, script: str) -> Any:
        """What a script returns."""
        return self._post("execute/sync", {"script": script, "args": []})

    def wait_for(self, script: str, expected: object) -> None:
        """Wait until a script returns what is expected."""
        ends_at = time.monotonic() + _SECONDS_MAX
        while (found := self.run(script)) != expected:
            assert time.monotonic() < ends_at, f"the page has {found!r}, not {expected!r}"
            time.sleep(0.05)

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._driver.post(f"/session/{self._session}/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A headless Chromium that keeps what it writes in a folder."""
    if shutil.which("chromedriver") is None:
        install_in_ci("chromium", "chromium-driver")
    program, chromium = shutil.which("chromedriver"), shutil.which("chromium")
    if program is None or chromium is None:
        missing(_ADVICE)
    with subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = (re.search(r"started successfully on port (\d+)", line) for line in process.stdout)
            port = next(int(found[1]) for found in said if found)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_SECONDS_MAX) as driver:
                yield from _session(driver, chromium, folder)
        finally:
            process.terminate()


def _session(driver: httpx.Client, chromium: str, folder: Path) -> Iterator[Browser]:
    # The sandbox needs rights that a container does not give.
    arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
    options = {"goog:chromeOptions": {"binary": chromium, "args": arguments}}
    answer = driver.post("/session", json={"capabilities": {"alwaysMatch": options}})
    assert answer.status_code == 200, answer.text
    session = answer.json()["value"]["sessionId"]
    try:
        yield Browser(driver, session)
    finally:
        driver.delete(f"/session/{session}")
