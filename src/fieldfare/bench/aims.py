"""What a benchmark aims at, beside what it measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Aim:
    """Something to be reached; a ratio of 1 or more reaches it."""

    what: str
    measured: float
    aim: float
    ratio: float


def at_least(what: str, measured: float, aim: float) -> Aim:
    """More is better."""
    return Aim(what, measured, aim, measured / aim)


def at_most(what: str, measured: float, aim: float) -> Aim:
    """Less is better; a difference may even be nothing, or below."""
    return Aim(what, measured, aim, aim / max(measured, aim / 1000))


def aims_table(aims: Sequence[Aim]) -> Table:
    """A row for each."""
    table = Table(title="Aims")
    table.add_column("what")
    for heading in ("measured", "aim", "ratio"):
        table.add_column(heading, justify="right")
    for aim in aims:
        table.add_row(aim.what, f"{aim.measured:,.1f}", f"{aim.aim:,.1f}", f"{aim.ratio:.2f}")
    return table
