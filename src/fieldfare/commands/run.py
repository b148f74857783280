"""`fieldfare run`: an application of handlers. Imports of substance stand inside the command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fieldfare.commands.connecting import CaFile, Service, TokenPath
from fieldfare.commands.extras import needs_service

_Url = Annotated[
    str | None,
    typer.Option(envvar="FIELDFARE_URL", help="Where the service is.", show_default="as the application says"),
]


def run(
    application: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Where the application is, such as main:app.")
    ],
    *,
    reload: Annotated[bool, typer.Option("--reload", help="Start again when a source file changes.")] = False,
    url: _Url = None,
    token_file: TokenPath = None,
    ca_file: CaFile = None,
    json_logs: Annotated[bool, typer.Option("--json-logs", help="Write logs as JSON lines.")] = False,
) -> None:
    """Run an application: a fieldfare.App and its handlers.

    Stop it with Ctrl-C or SIGTERM: events in hand are finished and acknowledged, the others come again. With --reload,
    for development, it starts again when a Python file below the current folder changes.

    Example: `fieldfare run main:app --reload`
    """
    say = Console(stderr=True, soft_wrap=True, highlight=False).print
    if reload:
        from fieldfare.handlers.reloading import run_and_reload

        options = [("--url", url), ("--token-file", token_file), ("--ca-file", ca_file)]
        given = [part for name, value in options if value is not None for part in (name, str(value))]
        command = ["-m", "fieldfare", "run", application, *given, *(["--json-logs"] if json_logs else [])]
        run_and_reload(command, Path.cwd(), lambda text: say(text, markup=False))
        return
    from fieldfare.runtime import logs

    logs.set_up("json" if json_logs else "text")
    with needs_service():
        from fieldfare.handlers.loading import load_app

        app = load_app(application)
        import fieldfare.client.websocket  # noqa: F401 - or else say now what is missing
    app.url = url or app.url
    app.token = Service("", token_file, None).token() or app.token
    app.ca_file = ca_file or app.ca_file
    count = len(app.handlers)
    asyncio.run(app.run_until_signal(lambda: say(f"{application} is ready: {count} handlers")))
