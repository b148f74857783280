"""One rule for every command that reads files: bad rows go to quarantine, the rest is done, and the exit code is 1."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

EXIT_BAD_ROWS = 1


def exit_if_any(rows: int, quarantine: Path) -> None:
    """Say on standard error how many bad rows there are and where, and end with exit code 1; go on if there are none.

    To be called last: what a command writes for the good rows is complete by then.
    """
    if rows:
        console = Console(stderr=True, soft_wrap=True)
        console.print(f"{rows:,} bad rows are in {quarantine}", style="yellow", markup=False, highlight=False)
        raise typer.Exit(EXIT_BAD_ROWS)
