"""Remedies: what to do when a batch fails. Wait, rebuild a snapshot, try again a few times, or give up."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from enum import Enum, auto

from pyspark.errors import PySparkException

from fieldfare.errors import (
    BucketUnavailableError,
    FieldfareError,
    HistoryError,
    KafkaUnavailableError,
    OutputError,
    SnapshotError,
    StoreUnavailableError,
    TableUnavailableError,
)
from fieldfare.pipeline.worker_python import ADVICE

# A task's error reaches the driver as text; so do those of Spark's own files.
_PASSING_ERRORS = (
    StoreUnavailableError,
    KafkaUnavailableError,
    TableUnavailableError,
    BucketUnavailableError,
    OutputError,
)
_PASSING_TEXTS = (
    OutputError.__name__,
    KafkaUnavailableError.__name__,
    BucketUnavailableError.__name__,
    "No space left on device",
    "Disk quota exceeded",
)


# Workers run a Python that is not ours, or lack a package: to try again does not help.
_WRONG_PYTHON_TEXTS = ("ModuleNotFoundError: No module named", "PYTHON_VERSION_MISMATCH")
_NAMED_ERROR = re.compile(r"(fieldfare|pyarrow|builtins|java|org)?[\w.]*(Error|Exception): ")


class Remedy(Enum):
    """What helps against a failure."""

    NONE = auto()
    WAIT = auto()
    REBUILD = auto()
    RETRY = auto()  # a few times: a killed process comes back, a bug does not go away


def remedy_for(error: BaseException) -> Remedy:
    """What helps against a failure of a batch or of its query."""
    causes = list(_causes(error))
    if any(_passes(cause) for cause in causes):
        return Remedy.WAIT
    if any(
        isinstance(cause, SnapshotError | HistoryError) or _is_in(cause, SnapshotError.__name__) for cause in causes
    ):
        return Remedy.REBUILD
    return Remedy.RETRY if _is_of_spark(error) and not _is_of_python(error) else Remedy.NONE


def _passes(cause: BaseException) -> bool:
    if isinstance(cause, OSError):
        return cause.errno in {errno.ENOSPC, errno.EDQUOT}
    return isinstance(cause, _PASSING_ERRORS) or any(_is_in(cause, text) for text in _PASSING_TEXTS)


def _is_of_spark(error: BaseException) -> bool:
    """Spark itself lost something, such as the process of a task or of the source; no error of ours is behind it."""
    return isinstance(error, PySparkException) and FieldfareError.__module__ not in str(error)


def reason_of(error: BaseException) -> str:
    """The line that says what went wrong: an error of a task comes with pages around it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _NAMED_ERROR.match(line)]
    reason = (named or lines or [type(error).__name__])[-1 if named else 0]
    return f"{reason}: {ADVICE}" if _is_of_python(error) else reason


def _is_of_python(error: BaseException) -> bool:
    return any(_is_in(error, text) for text in _WRONG_PYTHON_TEXTS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_in(error: BaseException, text: str) -> bool:
    return isinstance(error, PySparkException) and text in str(error)
