"""Figures as PNG files, by matplotlib without a display."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fieldfare.errors import MissingDependencyError
from fieldfare.experiments.results import Figure, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#1f5fa8", "#d9822b", "#6f8f3a", "#8c4a9e", "#555555", "#b03a48")
_MARKERS = "os^Dvx"
_PANELS_IN_ROW = 3
_LEGEND_ROOM = 1.18
_MARKED_POINTS_MAX = 24
_BAR_GROUPS_ROOMY = 6
_PANEL_INCHES = (5.2, 3.6)
_CANVAS_INCHES_MIN = 6.8  # so that the title fits
_STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


def plot(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write `figure-NAME.png` for every figure; returns the files."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingDependencyError("plots need matplotlib: pip install 'fieldfare[plots]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are typed as literals
        for figure in figures:
            width, height = _PANEL_INCHES
            rows = 1 if len(figure.panels) <= _PANELS_IN_ROW else 2
            columns = -(-len(figure.panels) // rows)
            canvas = Canvas(figsize=(max(width * columns, _CANVAS_INCHES_MIN), height * rows), layout="constrained")
            for axes, panel in zip(np.ravel(canvas.subplots(rows, columns)), figure.panels, strict=False):
                _draw(axes, panel)
            canvas.suptitle(figure.heading, fontsize=11.0, fontweight="bold")
            files.append(folder / f"figure-{figure.name}.png")
            canvas.savefig(files[-1], dpi=100)
    return files


def _draw(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import LogLocator

    bars = isinstance(panel.series[0].x[0], str)
    (_draw_bars if bars else _draw_lines)(axes, panel)
    for moment, name in panel.moments.items():
        axes.axvline(moment, color="#777777", linewidth=1.0, linestyle=":", label=name)
    if panel.log_y:
        axes.set_yscale("log", subs=())
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    else:
        axes.set_ylim(bottom=0.0)
    if bars and len(panel.series) > 1 and not panel.log_y:
        axes.set_ylim(top=axes.get_ylim()[1] * _LEGEND_ROOM)
    axes.yaxis.set_major_formatter(lambda value, _: _short(value))
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    named = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # a name stands once
    if len(named) > 1:
        axes.legend(named.values(), named.keys(), fontsize=8)


def _short(value: float) -> str:
    """A number on an axis: 400k, 20M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _draw_lines(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import NullLocator

    if panel.log_x:
        axes.set_xscale("log", subs=())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    place = -1
    for series in panel.series:
        place += not series.is_model
        few = len(series.x) <= _MARKED_POINTS_MAX
        axes.plot(
            np.asarray(series.x, np.float64),
            series.y,
            color=_COLOURS[place % len(_COLOURS)],
            linestyle="--" if series.is_model else "-",
            marker=_MARKERS[place % len(_MARKERS)] if few and not series.is_model else "",
            markersize=4.5,
            linewidth=1.6 if few else 1.1,
            label=series.name,
        )
        if few:
            axes.set_xticks(np.asarray(series.x, np.float64))


def _draw_bars(axes: Axes, panel: Panel) -> None:
    groups = [str(name) for name in panel.series[0].x]
    width = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        places = np.arange(len(groups)) + (number - (len(panel.series) - 1) / 2) * width
        axes.bar(places, series.y, width * 0.92, color=_COLOURS[number], label=series.name)
    axes.set_xticks(range(len(groups)), groups, fontsize=8 if len(groups) > _BAR_GROUPS_ROOMY else None)
