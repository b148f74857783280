"""What an experiment found: a table with the paper's value beside ours, what follows from it, and a chart's series."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rich.console import Group
from rich.table import Table
from rich.text import Text

Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Series:
    """One line, or one bar of each group, of a chart."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    is_model: bool = False  # what the series before it should be: drawn in its colour, dashed


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes. Series whose x are strings are drawn as bars; `moments` are vertical lines."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    moments: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, measured again. `columns` name what follows the row's own name."""

    name: str
    title: str
    method: str  # measured, modelled, or both: what the numbers stand on
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Cell]]
    conclusion: str
    panels: Sequence[Panel] = ()
    place: str = ""  # where the paper says something about it, if it has no figure of it

    @property
    def heading(self) -> str:
        """The title, with the number that the paper gives the figure, or the place where it speaks of it."""
        if self.place:
            return f"{self.place}: {self.title}"
        return f"Figure {self.name}: {self.title}" if self.name[0].isdigit() else f"Not in the paper: {self.title}"


def to_json(figures: Sequence[Figure]) -> str:
    """Every number of the figures, as one JSON array."""
    return json.dumps([asdict(figure) for figure in figures], indent=2)


def render(figures: Sequence[Figure]) -> Group:
    """A table for each figure, with its conclusion below it."""
    return Group(*(item for figure in figures for item in (_table(figure), Text(figure.conclusion), Text())))


def to_markdown(figures: Sequence[Figure]) -> str:
    """A section for each figure: its table, what follows from it, how it was measured, and its picture."""
    return "\n".join(line for figure in figures for line in _section(figure))


def _section(figure: Figure) -> list[str]:
    lines = [f"## {figure.heading}", "", f"| | {' | '.join(figure.columns)} |"]
    lines.append(f"| --- |{' ---: |' * len(figure.columns)}")
    lines += [f"| {name} | {' | '.join(map(shown, cells))} |" for name, cells in figure.rows.items()]
    lines += ["", *([figure.conclusion, ""] if figure.conclusion else []), f"*{figure.method}*", ""]
    return [*lines, *([f"![{figure.title}](figure-{figure.name}.png)", ""] if figure.panels else [])]


def _table(figure: Figure) -> Table:
    table = Table(
        title=figure.heading,
        title_justify="left",
        caption=figure.method,
        caption_justify="left",
        min_width=len(figure.method) // 2,
    )
    table.add_column("")
    for column in figure.columns:
        table.add_column(column, justify="right", style="bold" if column == "paper" else None)
    for name, cells in figure.rows.items():
        table.add_row(name, *map(shown, cells))
    return table


def shown(cell: Cell) -> str:
    """A cell for people: three digits below a thousand, else whole and grouped."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if not math.isfinite(cell):
        return "∞"
    return f"{float(f'{cell:.3g}'):,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
