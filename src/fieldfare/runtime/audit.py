"""The audit log: who created, changed or deleted which topic, subscription or token; a JSON object on each line.

It only grows, up to a size; then it is renamed, and of the renamed ones the oldest is removed. Several processes write
it: the service, and the commands that make tokens. What an event or a condition says, and what a token is, never gets
here: names and ids are enough to know who did what.
"""

from __future__ import annotations

import fcntl
import getpass
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fieldfare.messages import Audit
from fieldfare.runtime.config import Settings
from fieldfare.runtime.host import Capability, Host

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line."""

    at: str  # as in RFC 3339
    action: str
    kind: str
    name: str
    tenant: str
    token: str | None = None  # the id of the token of who asked
    user: str | None = None  # of the machine, where a command was given
    topic: str | None = None


@dataclass(frozen=True, slots=True)
class AuditLog:
    """A file, and of the ones before it as many as fit."""

    path: Path
    file_bytes_max: int = 16 * 1024 * 1024
    files_max: int = 8

    def write(self, entries: Sequence[AuditEntry]) -> None:
        """Append lines, all or none. An OSError says that they are not there."""
        lines = b"".join(_encode(entry) + b"\n" for entry in entries)
        lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._make_room(len(lines))
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, lines)
            finally:
                os.close(file)
        finally:
            os.close(lock)

    def _make_room(self, size_bytes: int) -> None:
        try:
            is_full = self.path.stat().st_size + size_bytes > self.file_bytes_max
        except FileNotFoundError:
            return
        if is_full:
            self._numbered(self.files_max - 1).unlink(missing_ok=True)
            for number in range(self.files_max - 2, 0, -1):
                if self._numbered(number).exists():
                    self._numbered(number).rename(self._numbered(number + 1))
            self.path.rename(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def note_token(self, action: str, tenant: str, token_id: str, now: float) -> None:
        """A command has made or revoked a token."""
        self.write([AuditEntry(_moment(now), action, "token", token_id, tenant, user=_user())])


def audit_log(settings: Settings) -> AuditLog | None:
    """The audit log that settings ask for; None: there is none."""
    audit = settings.audit
    return AuditLog(settings.audit_path, audit.file_bytes_max, audit.files_max) if audit.enabled else None


class Auditor(Capability):
    """Writes what a node tells of, together at the end of a round."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._entries: list[AuditEntry] = []
        self._is_failing = False

    def install(self, host: Host) -> None:
        """Perform Audit."""
        host.kernel.provide(Audit, self._note)
        host.kernel.at_round_end(self._write)

    def _note(self, effect: Audit) -> None:
        self._entries.append(
            AuditEntry(
                _moment(effect.at),
                effect.action,
                effect.kind,
                effect.name,
                effect.tenant,
                effect.token,
                topic=effect.topic,
            )
        )

    def _write(self) -> None:
        if not self._entries:
            return
        entries, self._entries = self._entries, []
        try:
            self._log.write(entries)
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                _log.error("%s: changes cannot be written to the audit log: %s", self._log.path, error.strerror)
            self._is_failing = True


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # there are machines on which nobody has a name
        return None
