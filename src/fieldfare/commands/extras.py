"""Commands that need an extra say which, where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fieldfare.errors import MissingDependencyError


@contextmanager
def needs_service() -> Iterator[None]:
    """What is imported inside needs the extra `service`."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "fieldfare":
            raise
        raise MissingDependencyError(f"the service needs {package}: pip install 'fieldfare[service]'") from error
