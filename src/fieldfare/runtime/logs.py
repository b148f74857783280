"""Logs of a service on standard error, as text for people or as a JSON object per line for programs.

What looks like a token is blotted out in the finished line, whoever wrote it and wherever it stands: in a message, in
an argument, in the trace of an error.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

import msgspec

from fieldfare.runtime.tokens import PREFIX, TICKET_PREFIX

LogFormat: TypeAlias = Literal["text", "json"]

_token = re.compile(rf"\b(?:{PREFIX}|{TICKET_PREFIX})[A-Za-z0-9_-]{{8,}}")
_bearer = re.compile(r"(?i)\b(bearer)(\s+|%20|\+)[^\s\"',;\\]+")


def without_tokens(line: str) -> str:
    """A line with every token replaced."""
    return _bearer.sub(r"\1 ***", _token.sub("***", line))


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_tokens(f"{_moment(record)} {record.levelname:<7} {record.name}: {super().format(record)}")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return without_tokens(msgspec.json.encode(entry).decode())


def _moment(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


def handler(log_format: LogFormat, stream: TextIO) -> logging.Handler:
    """A handler that writes lines without tokens."""
    made = logging.StreamHandler(stream)
    made.setFormatter(_Json() if log_format == "json" else _Text())
    return made


def set_up(log_format: LogFormat) -> None:
    """Send what the service and its libraries log to standard error; libraries speak only when something is wrong."""
    logging.basicConfig(level=logging.WARNING, handlers=[handler(log_format, sys.stderr)], force=True)
    logging.getLogger("fieldfare").setLevel(logging.INFO)
