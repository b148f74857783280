"""`fieldfare experiments`: the commands, one for each paper. Imports of substance stand inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fieldfare.commands.tables import print_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def _experiments() -> None:
    pass  # makes `bluedove` a subcommand, even while it is the only one


@app.command()
def bluedove(
    *,
    figure: Annotated[list[str] | None, typer.Option(help="Which figure; may be repeated.", show_default="all")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for PNG files (needs the extra `plots`).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: seconds, and numbers that mean little.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
) -> None:
    """Run BlueDove's evaluation again: what the paper reports, and what we measure, side by side.

    Figures: 5, 6a, 6b, 7, 8, 9, 10, 11a, 11b, 11c, and size, which the paper does not have.

    Example: `fieldfare experiments bluedove --figure 6a --plot plots`
    """
    from fieldfare.experiments import bluedove as experiment
    from fieldfare.experiments import plots, results
    from fieldfare.experiments.laboratory import QUICK, Scale

    console = Console(stderr=True)
    with console.status("Measuring") as status:
        names = tuple(figure or experiment.FIGURES)
        figures = experiment.run(names, QUICK if quick else Scale(), status.update)
    for file in plots.plot(figures, plot) if plot is not None else ():
        console.print(f"Wrote {file}", highlight=False, soft_wrap=True)
    if as_json:
        typer.echo(results.to_json(figures))
    else:
        print_table(results.render(figures))
