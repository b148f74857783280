"""`fieldfare experiments`: the commands, one for each paper. Imports of substance stand inside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fieldfare.commands.tables import print_table

if TYPE_CHECKING:
    from fieldfare.experiments.results import Figure

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

FigureNames = Annotated[list[str] | None, typer.Option(help="Which figure; may be repeated.", show_default="all")]
PlotFolder = Annotated[Path | None, typer.Option(help="A folder for PNG files (needs the extra `plots`).")]
IsQuick = Annotated[bool, typer.Option("--quick", help="Small sizes: seconds, and numbers that mean little.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]


@app.command()
def bluedove(
    *,
    figure: FigureNames = None,
    plot: PlotFolder = None,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Run BlueDove's evaluation again: what the paper reports, and what we measure, side by side.

    Figures: 5, 6a, 6b, 7, 8, 9, 10, 11a, 11b, 11c, 7-pushed, which is 7 with pushes and
    minutes, and size, which the paper does not have.

    Example: `fieldfare experiments bluedove --figure 6a --plot plots`
    """
    from fieldfare.experiments import bluedove as experiment
    from fieldfare.experiments.laboratory import QUICK, Scale

    console = Console(stderr=True)
    with console.status("Measuring") as status:
        names = tuple(figure or experiment.FIGURES)
        figures = experiment.run(names, QUICK if quick else Scale(), status.update)
    _show(figures, plot, console, as_json=as_json)


@app.command()
def gossip(
    *,
    figure: FigureNames = None,
    nodes: Annotated[
        list[int] | None, typer.Option(help="How many members; may be repeated.", show_default="10 to 1,000")
    ] = None,
    plot: PlotFolder = None,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Measure gossip in the simulator: how soon all know of a change or a crash, what it costs, what loss does to it.

    Figures: rounds, detection, traffic, loss.

    Example: `fieldfare experiments gossip --figure rounds --nodes 100 --nodes 1000`
    """
    from dataclasses import replace

    from fieldfare.experiments import gossip as experiment

    console = Console(stderr=True)
    scale = experiment.QUICK if quick else experiment.GossipScale()
    with console.status("Measuring") as status:
        names = tuple(figure or experiment.FIGURES)
        figures = experiment.run(names, replace(scale, nodes=tuple(nodes)) if nodes else scale, status.update)
    _show(figures, plot, console, as_json=as_json)


@app.command()
def pubsubcoord(
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="5, 6, 7, a part such as 6c, content or live; may be repeated.", show_default="all"),
    ] = None,
    plot: PlotFolder = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: a minute, and numbers that mean little.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure again what a broker's process costs (needs root).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run PubSubCoord's evaluation again: locality (5), scale (6) and second paths (7).

    Most of it is simulated with service times measured on this machine; 6c starts a real ZooKeeper, and `live` compares
    the simulator with real processes in network namespaces, which needs root. All of it takes an hour or more.

    Example: `fieldfare experiments pubsubcoord --figure 7 --plot plots`
    """
    from fieldfare.experiments.pubsubcoord import figures as experiment
    from fieldfare.experiments.pubsubcoord.settings import QUICK, Scale

    console = Console(stderr=True)
    with console.status("Measuring") as status:
        figures = experiment.run(figure or (), QUICK if quick else Scale(), status.update, calibrates=calibrate)
    _show(figures, plot, console, as_json=as_json)


@app.command()
def placement(
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(help="5, 6, 7, a part such as 6cd, or another name; may be repeated.", show_default="all"),
    ] = None,
    plot: PlotFolder = None,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Run the evaluation of POP and GRAPE again: publishers that move to where their subscribers are.

    Most of it is on a model of a tree: how publications are traced and brokers chosen is the real code, but queues,
    links and service times are modelled. `brokers` and `moving` run real brokers in the simulator, `live` starts them
    as processes. The stock quotes are generated. All of it takes ten minutes or more.

    Figures: 5abc, 5def, 6cd, 6efg, 6h, 6i, 7a, 7bi, and ours, ours-random, damping, selection, brokers, moving and
    live, which the paper does not have.

    Example: `fieldfare experiments placement --figure 5 --plot plots`
    """
    from fieldfare.experiments.placement import figures as experiment
    from fieldfare.experiments.placement.settings import QUICK, Scale

    console = Console(stderr=True)
    with console.status("Measuring") as status:
        figures = experiment.run(figure or (), QUICK if quick else Scale(), status.update)
    _show(figures, plot, console, as_json=as_json)


@app.command()
def dmm(
    *,
    figure: FigureNames = None,
    plot: PlotFolder = None,
    kept: Annotated[
        Path | None, typer.Option(help="A folder for the results of each run: those found there are not run again.")
    ] = None,
    fifth: Annotated[
        bool, typer.Option("--fifth", help="A fifth of the paper's peers and subscriptions: minutes for all figures.")
    ] = False,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Run the evaluation of DMM and DMM-AR again: peers without infrastructure, in the simulator.

    5,000 peers on a transit-stub network of 5,050 routers, up to 10,000 subscriptions. The paper's algorithm is run
    beside ours, and Hermes with one topic, all on the same peers. Figures share runs, two at a time; each run takes
    half a minute to five minutes. docs/experiments/dmm.md tells what was found.

    Figures: 8 to 17, loss, replicas.

    Example: `fieldfare experiments dmm --figure 13 --plot plots --kept runs`
    """
    from fieldfare.experiments.dmm import figures as experiment
    from fieldfare.experiments.dmm.settings import FIFTH, QUICK, Scale

    scale = QUICK if quick else FIFTH if fifth else Scale()
    console = Console(stderr=True)
    with console.status("Measuring") as status:
        figures = experiment.run(figure or (), scale, status.update, kept)
    _show(figures, plot, console, as_json=as_json)


@app.command()
def revisiting(
    *,
    figure: FigureNames = None,
    application: Annotated[
        list[str] | None, typer.Option(help="Which of the five; may be repeated.", show_default="all")
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Costs as `fieldfare plan --calibrate` saved them.",
            show_default="the reference costs, of another machine",
        ),
    ] = None,
    plot: PlotFolder = None,
    results: Annotated[Path | None, typer.Option(help="A file for everything that was measured, as JSON.")] = None,
    page: Annotated[
        Path | None,
        typer.Option(help="A Markdown file: tables and pictures replace what is after its line `<!-- measured -->`."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="How often everything is measured.", show_default="3, quick 1")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: two minutes, and numbers that mean little.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check `fieldfare plan` by running what it plans: five applications in every way, predicted beside measured.

    The applications are those of Table 1 of "Revisiting CBPS", scaled to this machine: in process, at one edge, in a
    star and a tree of brokers, on Spark with each layout, among peers; all real. And R and H from 1 to N and X, on
    simulated matchers with measured service times. All of it takes about 25 minutes.

    Figures: applications, rh, hops, popularity. docs/experiments/revisiting.md tells what was found.

    Example: `fieldfare experiments revisiting --plot plots --results revisiting.json`
    """
    from dataclasses import replace

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from fieldfare.experiments.revisiting import figures as experiment
    from fieldfare.experiments.revisiting.settings import QUICK, Scale
    from fieldfare.planning.costs import load_costs, reference_costs
    from fieldfare.planning.presets import PRESETS, preset

    names, applications = tuple(figure or experiment.FIGURES), tuple(application or PRESETS)
    experiment.check_names(names)
    for name in applications:
        preset(name)
    scale = QUICK if quick else Scale()
    scale = scale if rounds is None else replace(scale, rounds=rounds)
    known = reference_costs() if costs is None else load_costs(costs)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("Measuring", total=experiment.steps(names, scale, len(applications)))

        def tell(text: str) -> None:
            progress.update(task, description=text, advance=1)
            if not console.is_terminal:
                console.print(text, highlight=False, soft_wrap=True)

        found, compared = experiment.run(names, scale, known, tell, applications)
    if results is not None:
        experiment.save(experiment.raw(compared, found, known), results)
    if page is not None:
        experiment.write_page(found, page)
    _show(found, plot, console, as_json=as_json)


def _show(figures: Sequence[Figure], folder: Path | None, console: Console, *, as_json: bool) -> None:
    """Print figures, and draw those that have something to draw."""
    from fieldfare.experiments import plots, results

    if folder is not None:
        for file in plots.plot([figure for figure in figures if figure.panels], folder):
            console.print(f"Wrote {file}", highlight=False, soft_wrap=True)
    if as_json:
        typer.echo(results.to_json(figures))
    else:
        print_table(results.render(figures))
