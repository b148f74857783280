"""Runs a program, and again whenever one of the files changes that it is made of: for development.

Files are looked at a few times a second, which costs little for the sources of an application and needs no library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

_LOOK_SECONDS = 0.3
_FILES_MAX = 20_000
_LEFT_OUT = {"__pycache__", "node_modules", "site-packages"}
_STOP_SECONDS = 30.0

Snapshot: TypeAlias = dict[str, tuple[float, int]]


def snapshot(folder: Path, suffixes: Sequence[str] = (".py",)) -> Snapshot:
    """When every source file below a folder changed last, and its size; hidden folders are left out."""
    found: Snapshot = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        for name in files:
            if name.endswith(tuple(suffixes)) and len(found) < _FILES_MAX:
                path = os.path.join(parent, name)  # noqa: PTH118 - many, and often
                try:
                    state = os.stat(path)  # noqa: PTH116 - the same
                except OSError:
                    continue  # it is being replaced
                found[path] = state.st_mtime, state.st_size
    return found


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """The files that are new, gone, or other than before."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def run_and_reload(command: Sequence[str], folder: Path, say: Callable[[str], object]) -> None:
    """Run a command until SIGINT or SIGTERM; end it in good order and run it again when a file changes."""
    is_over = False

    def end(_number: int, _frame: object) -> None:
        nonlocal is_over
        is_over = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    process = _start(command)
    try:
        seen = snapshot(folder)
        while not is_over:
            time.sleep(_LOOK_SECONDS)
            now = snapshot(folder)
            if names := changed(seen, now):
                say(f"{Path(names[0]).name} has changed: starting again")
                _stop(process)
                seen, process = now, _start(command)
    finally:
        _stop(process)
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C reaches this program only, which ends the other."""
    return subprocess.Popen([sys.executable, *command], start_new_session=True)  # noqa: S603 - the user's own program


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()
