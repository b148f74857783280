"""The example client in Node against a real service: what it shows, and that a kill of the service costs it nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.installing import install_in_ci, missing
from tests.runtime.processes import ServiceProcess

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"
_ADVICE = "the example's client is for Node 20 or later: install it (Debian, Ubuntu: apt install nodejs)"
_SECONDS_MAX = 120


@pytest.fixture(scope="module")
def node() -> str:
    if shutil.which("node") is None:
        install_in_ci("nodejs")
    program = shutil.which("node")
    if program is None:
        missing(_ADVICE)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)\.", said)
    if found is None or int(found[1]) < 18:  # which has fetch, and streams that can be iterated
        missing(f"{_ADVICE}; this is {said.strip()}")
    return program


def test_the_example_shows_what_is_slow(tmp_path: Path, node: str) -> None:
    with ServiceProcess(tmp_path / "data") as service:
        command = [node, str(EXAMPLE / "roads.mjs"), service.url, "3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [f'{{"road":"A10","speed":{speed}}}' for speed in (12, 24, 7)]
        left = httpx.get(f"{service.url}/v1/subscriptions/slow-roads/events").json()["events"]
        assert left == [], "all were acknowledged"


def test_a_kill_of_the_service_costs_the_client_nothing(tmp_path: Path, node: str) -> None:
    data, count = tmp_path / "data", 2000
    program = str(Path(__file__).with_name("counting.mjs"))
    with ServiceProcess(data) as service:
        port = service.url.rpartition(":")[2]
        command = [node, program, str(EXAMPLE / "fieldfare.mjs"), service.url, str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stderr is not None
            try:
                numbers = [int(client.stdout.readline()) for _ in range(55)]  # between two acknowledgements
                service.process.kill()
                service.process.wait()
                with ServiceProcess(data, "--port", port):
                    numbers += [int(line) for line in client.stdout]
                    assert client.wait(_SECONDS_MAX) == 0, client.stderr.read()
            finally:
                client.kill()
    assert numbers == list(range(count)), "each once, in order"
