"""A Zenoh router as a process: `python -m fieldfare.bench.overlay.zenoh_router LISTENING_PORT [HUB_PORT]`.

eclipse-zenoh comes without the program zenohd, but with all of the router, which a process can open in itself.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

from fieldfare.bench.broker.servers import HOST

if TYPE_CHECKING:
    import zenoh


def settings(mode: str, *, listen: str = "", connect: str = "") -> zenoh.Config:
    """Those of a router or a client that knows nobody but whom it is told to connect to."""
    import zenoh

    return zenoh.Config.from_json5(
        json.dumps(
            {
                "mode": mode,
                "listen": {"endpoints": [listen] if listen else []},
                "connect": {"endpoints": [connect] if connect else []},
                "scouting": {"multicast": {"enabled": False}, "gossip": {"enabled": False}},
            }
        )
    )


def endpoint(host: str, port: int) -> str:
    """An address as Zenoh writes it."""
    return f"tcp/{host}:{port}"


def main(listening_port: int, hub_port: int | None = None) -> None:
    """Route until the process is told to end."""
    import zenoh

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])  # before there are threads to get them
    listen, connect = endpoint(HOST, listening_port), "" if hub_port is None else endpoint(HOST, hub_port)
    with zenoh.open(settings("router", listen=listen, connect=connect)):
        signal.sigwait([signal.SIGTERM, signal.SIGINT])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
