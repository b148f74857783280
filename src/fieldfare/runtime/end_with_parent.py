"""`python end_with_parent.py SECONDS COMMAND …`: keeps a command running while the process that started this one lives.

Its standard input is a pipe that only the parent holds open and never writes to: the end of the input is the end of
the parent, even of one that was killed. A command that ends by itself is started again, unless it ran for fewer than
SECONDS: it would not run any longer the next time. It imports nothing of Fieldfare, so that it starts at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

_STOP_SECONDS = 10.0  # for the command to end by itself
_PAUSE_SECONDS = 1.0  # before it is started again


class KeptRunning:
    """A command, and whether it still has to run."""

    def __init__(self, sound_seconds: float, command: list[str]) -> None:
        self._sound_seconds, self._command = sound_seconds, command
        self._is_over = threading.Event()
        self._child = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started_at = time.monotonic()
        return subprocess.Popen(self._command, stdin=subprocess.DEVNULL)  # noqa: S603 - it was asked for

    def run(self) -> int:
        """Until it is over; returns the command's last status."""
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        while True:
            status = self._child.wait()
            if time.monotonic() - self._started_at < self._sound_seconds or self._is_over.wait(_PAUSE_SECONDS):
                return status
            self._child = self._start()
            if self._is_over.is_set():  # it ended in this very moment, and may not have met the new child
                self._child.terminate()

    def _end_with_parent(self) -> None:
        while os.read(0, 1024):
            pass
        self._is_over.set()
        self._child.terminate()
        time.sleep(_STOP_SECONDS)
        self._child.kill()


if __name__ == "__main__":
    sys.exit(KeptRunning(float(sys.argv[1]), sys.argv[2:]).run())
