"""Standard input as events, for a peer that runs as a process: a line at a time, without holding up the peer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

_LINES_MAX = 1_000  # that wait to be published


async def standard_input_lines() -> AsyncIterator[bytes]:
    """The lines of standard input until its end. A thread reads them, since a file may be there as well as a pipe."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(_LINES_MAX)

    def read() -> None:
        try:
            with open(0, "rb", closefd=False) as file:
                for line in file:
                    asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
            asyncio.run_coroutine_threadsafe(lines.put(None), loop).result()
        except (RuntimeError, OSError):  # the loop has ended, or standard input is closed
            return

    threading.Thread(target=read, daemon=True).start()  # it may wait for a line that never comes
    while (line := await lines.get()) is not None:
        if stripped := line.strip():
            yield stripped
