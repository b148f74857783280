"""The folder of a peer: its name, which decides its place on the ring, and the log of what it owes and wants."""

from __future__ import annotations

import re
import secrets
import socket
from pathlib import Path

from fieldfare.dmm.peer_records import PEER_RECORDS, PeerRecord
from fieldfare.durable import NewFile, make_folder
from fieldfare.errors import ConfigError, ServiceError
from fieldfare.store.journal import Journal

_NAME_BYTES_MAX = 1_000


class PeerFolder:
    """A folder that one peer uses at a time. It is made if it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal: Journal[PeerRecord] | None = None

    def open(self, name: str | None) -> tuple[str, Journal[PeerRecord]]:
        """The peer's name, which is that of the folder from the first time on, and its log."""
        try:
            make_folder(self._folder, 0o700)
            kept = self._kept_name()
            if kept is not None and name is not None and name != kept:
                raise ConfigError(f"folder: {self._folder} is the folder of peer {kept!r}, and not of {name!r}")
            if kept is None:
                kept = name or made_up_name()
                with NewFile(self._folder / "name") as file:
                    file.write(kept.encode())
        except OSError as error:
            raise ServiceError(f"folder: {self._folder} cannot be used: {error.strerror}") from error
        self._journal = Journal(self._folder / "log", PEER_RECORDS)
        return kept, self._journal

    def _kept_name(self) -> str | None:
        path = self._folder / "name"
        if not path.exists():
            return None
        try:
            with path.open("rb") as file:
                return file.read(_NAME_BYTES_MAX).decode("ascii").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"folder: {path} holds no name of a peer") from error

    def close(self) -> None:
        """Let others use it."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def made_up_name() -> str:
    """A name that no other peer has, not even on the same machine."""
    return f"{re.sub('[^A-Za-z0-9]', '-', socket.gethostname()).strip('-') or 'peer'}-{secrets.token_hex(4)}"
