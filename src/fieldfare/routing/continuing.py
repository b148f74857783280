"""How work goes on that waits for the log or the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Then: TypeAlias = Callable[[float], None]  # goes on, at a time
Else: TypeAlias = Callable[[str], None]  # deals with a failure, for a reason


def nothing(_: object) -> None:
    """Then, or else, there is nothing to do."""
