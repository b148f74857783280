"""Starts `fieldfare` commands quickly: it loads the packages once, and each command is a process forked from it.

What to start comes over a socket, with the file descriptors of the new process. When the socket closes, all end.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fieldfare import cli
from fieldfare.experiments.wan import Place
from fieldfare.runtime.peers import peer, process

_MESSAGE_BYTES_MAX = 100_000
LOADED = (peer, process)  # for those that are forked


def _become(request: dict[str, str | list[str]], descriptors: list[int]) -> NoReturn:
    code = 70
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        os.environ.update(dict(item.split("=", 1) for item in request["environment"]))
        arguments = list(request["arguments"])
        if namespace := str(request["namespace"]):
            with Place("", namespace, "").entered():
                cli.app(arguments)
        cli.app(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


def main() -> None:
    """Serve the socket that is standard input."""
    control = socket.socket(fileno=0)
    children: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES_MAX, 3)
        if not data:
            break
        request = json.loads(data)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            children.discard(request["wait"])
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                _become(request, descriptors)
            children.add(answer)
            for descriptor in descriptors:
                os.close(descriptor)
        control.send(str(answer).encode())
    for child in children:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
