"""Handlers: an application is functions that are called for events, with retries, lifespans and tests.

    app = fieldfare.App("http://localhost:7380")

    @app.on("traffic", "speed < 25", name="slow-roads")
    async def slow(reading: Reading) -> None: ...

`app` is what applications see; `handler` says what one handler asks for, `decoding` what it is called with,
`handler_task` runs it, `harness` runs all of them in a test, and `loading` and `reloading` are for `fieldfare run`.
"""

from fieldfare.handlers.handler import Retries

__all__ = ["Retries"]
