"""The OpenAPI document against a real service: schemathesis sends what the schemas allow, and what they do not.

It finds answers that are not documented, requests that are refused though the schemas allow them, and those that are
accepted though they do not. Its time is bounded, and its choices are the same in every run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.processes import ServiceProcess

_ROOT = Path(__file__).parents[2]
_ENDLESS = "/stream$|/ws$"  # neither ends by itself


def test_schemas_are_as_strict_as_the_code(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    python_path = os.pathsep.join([str(_ROOT), str(_ROOT / "src")])
    variables = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "tests.runtime.schemathesis_hooks",
        "PYTHONPATH": python_path,
        "PYTHONUTF8": "1",
    }
    with ServiceProcess(tmp_path / "data", FIELDFARE_WEBHOOKS_ALLOW="127.0.0.1/32") as service:
        options = ["--exclude-path-regex", _ENDLESS, "--phases", "coverage,fuzzing", "--max-examples", "10"]
        options += ["--max-time", "12", "--generation-deterministic", "--no-color"]
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{service.url}/openapi.json", *options]
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=180, check=False
        )
        assert service.stop() == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in service.log
