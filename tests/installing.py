"""Programs that tests use: installed in continuous integration, asked for on a person's machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

_LOCK_SECONDS = 300  # how long apt-get waits for another one


def install_in_ci(*packages: str) -> None:
    """Install Debian packages, if this is continuous integration and it may; one worker of the tests at a time."""
    installer = shutil.which("apt-get")
    if os.environ.get("CI") != "true" or os.geteuid() != 0 or installer is None:
        return
    command = [installer, "-q", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}"]
    install = [*command, "install", "-y", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Path(tempfile.gettempdir(), "fieldfare-tests-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _run(install, environment) != 0:  # the lists of packages may be old
            _run([*command, "update"], environment)
            _run(install, environment)


def missing(advice: str) -> NoReturn:
    """A program is not there: on a person's machine the test is skipped, and says what to install; in CI it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(advice)
    pytest.skip(advice)


def _run(command: list[str], environment: dict[str, str]) -> int:
    return subprocess.run(command, env=environment, check=False, capture_output=True, timeout=600).returncode
