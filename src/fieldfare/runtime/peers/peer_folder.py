"""The folder of a peer: its name, which decides its place on the ring, and the log of what it owes and wants."""

from __future__ import annotations

from pathlib import Path

from fieldfare.dmm.peer_records import PEER_RECORDS, PeerRecord
from fieldfare.durable import write_durably
from fieldfare.errors import ConfigError, ServiceError
from fieldfare.store.journal import Journal

_NAME_BYTES_MAX = 1_000


class PeerFolder:
    """A folder that one peer uses at a time. It is made if it is not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.journal: Journal[PeerRecord] | None = None

    def open(self, name: str | None, made_up_name: str) -> str:
        """Open the log; the peer's name: that of the folder, which keeps it from the first time on."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            kept = self._kept_name()
            if kept is not None and name is not None and name != kept:
                raise ConfigError(f"folder: {self._folder} is the folder of peer {kept!r}, and not of {name!r}")
            if kept is None:
                kept = name or made_up_name
                write_durably(self._folder / "name", kept.encode())
        except OSError as error:
            raise ServiceError(f"folder: {self._folder} cannot be used: {error.strerror}") from error
        self.journal = Journal(self._folder / "log", PEER_RECORDS)
        return kept

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
        if self.journal is not None:
            self.journal.close()
