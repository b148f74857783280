"""Tables on standard output: as wide as the terminal, or wide enough for a pipe, which has no width of its own."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

_PIPE_COLUMNS = 160


def print_table(table: RenderableType, columns: int = _PIPE_COLUMNS) -> None:
    """Print a table, or several, without cutting it where nobody watches; there it has so many columns."""
    Console(width=None if sys.stdout.isatty() else columns).print(table)


def table_columns(columns: int = _PIPE_COLUMNS) -> int:
    """How wide `print_table` will print."""
    return Console().width if sys.stdout.isatty() else columns
