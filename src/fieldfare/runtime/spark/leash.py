"""`python -m fieldfare.runtime.spark.leash …`: the `fieldfare` command, but it ends when its parent does, however.

Its standard input is a pipe that only the parent holds open, and never writes to: the end of the input is the end of
the parent.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

_STOP_SECONDS = 30.0  # for the batch under way


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[0] = "fieldfare"
    runpy.run_module("fieldfare", run_name="__main__")
