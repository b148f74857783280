"""Fieldfare: content-based publish/subscribe for data teams.

A subscriber says what it wants as a SQL condition; an index finds, for every event, every subscription it satisfies.

    index = fieldfare.Index({"cheap": "price < 10"})
    index.match({"price": 9.5})   # ["cheap"]

The layers, each importing only from those below: `cli`; `bench` and `demo`; `handlers` (applications); `pipeline`
(Spark), `runtime` (the live service) and `simulation`; `client` and `routing` (brokers); `files` and `store`;
`matching` (the index); `language` (SQL); `boxes`, `model` and `errors`. The names here are imported when first used,
because Numba and the SQL parser take a second to load and `fieldfare --help` needs neither.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fieldfare.deferred import deferred_names
from fieldfare.errors import FieldfareError

if TYPE_CHECKING:
    from fieldfare.client.aio import connect
    from fieldfare.client.sync import connect_sync
    from fieldfare.handlers.app import App
    from fieldfare.language import compile, explain  # noqa: A004 - fieldfare.compile is the name that users expect
    from fieldfare.matching.index import Index
    from fieldfare.model import Range
    from fieldfare.runtime.embedded import embedded
    from fieldfare.runtime.peers.peer import peer

__all__ = [
    "App",
    "FieldfareError",
    "Index",
    "Range",
    "compile",
    "connect",
    "connect_sync",
    "embedded",
    "explain",
    "peer",
]
__version__ = "0.4.0"

_HOMES = {
    "App": "handlers.app",
    "Index": "matching.index",
    "Range": "model",
    "compile": "language",
    "connect": "client.aio",
    "connect_sync": "client.sync",
    "embedded": "runtime.embedded",
    "explain": "language",
    "peer": "runtime.peers.peer",
}
_public_name = deferred_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name == "pipeline":
        return importlib.import_module("fieldfare.pipeline")  # which says what to install where Spark is missing
    return _public_name(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
