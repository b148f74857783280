"""`fieldfare plan`: which way to run an application, predicted from its description and from measured costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fieldfare.commands.tables import print_table, table_columns
from fieldfare.errors import InputError, NodesError

if TYPE_CHECKING:
    from fieldfare.planning.application import Application
    from fieldfare.planning.choosing import Plan
    from fieldfare.planning.costs import Costs
    from fieldfare.planning.nodes import Nodes

_COLUMNS = 100  # of a table, where nobody watches
_DIGITS_MAX = 9  # of a number of nodes


def plan(
    applications: Annotated[
        list[str] | None, typer.Argument(metavar="[APPLICATION.toml|PRESET]...", help="What is to be run.")
    ] = None,
    *,
    nodes: Annotated[
        str | None,
        typer.Option(help="How many equal nodes, or a TOML file of them.", show_default="as many as the load needs"),
    ] = None,
    memory: Annotated[float, typer.Option(min=0.001, max=1e6, help="GiB of a node.")] = 8.0,
    cores: Annotated[int, typer.Option(min=1, max=4096, help="Cores of a node.")] = 4,
    network: Annotated[float, typer.Option(min=0.001, max=1e7, help="Mb/s of a node's link, each way.")] = 1000.0,
    plot: Annotated[
        Path | None, typer.Option(help="A folder for a PNG: latency against throughput, for every R and H.")
    ] = None,
    apply: Annotated[Path | None, typer.Option(help="Write the recommended way's settings into this folder.")] = None,
    costs: Annotated[
        Path | None, typer.Option(help="Measured costs.", show_default="this machine's, else the reference")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine's costs, for about two minutes, and save them.")
    ] = False,
    presets: Annotated[
        bool, typer.Option("--presets", help="List the five applications of the paper's table.")
    ] = False,
    as_toml: Annotated[
        bool, typer.Option("--toml", help="Print the application's description, to start from.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict latency, throughput, memory and nodes for every way to run an application, and recommend one.

    Several applications are placed together on the same nodes. Above saturation latency is infinite, and said to be so.
    docs/choosing.md explains the numbers and what they stand on.

    Example: `fieldfare plan quotes --nodes 8 --memory 16`
    """
    if presets:
        _show_presets(as_json=as_json)
        return
    measured = _calibrated(costs) if calibrate else None
    if not applications:
        if not calibrate:
            raise InputError("name an application: a TOML file or a preset (fieldfare plan --presets lists them)")
        return
    described = [_application(name) for name in applications]
    if as_toml:
        typer.echo("\n".join(each.to_toml() for each in described), nl=False)
        return
    room = _nodes(nodes, memory, cores, network)
    known = measured or _costs(costs)
    if len(described) > 1:
        if apply or plot:
            raise InputError("--apply and --plot are for one application: plan each by itself")
        _show_together(described, known, room, as_json=as_json)
    else:
        _show(described[0], known, room, as_json=as_json, plot=plot, folder=apply)


def _application(name: str) -> Application:
    from fieldfare.planning.application import load_application
    from fieldfare.planning.presets import PRESETS, preset

    if name in PRESETS or not (name.endswith(".toml") or _is_there(Path(name))):
        return preset(name)
    return load_application(Path(name))


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except (OSError, ValueError):  # no file can have such a name
        return False


def _nodes(text: str | None, memory: float, cores: int, network: float) -> Nodes:
    from fieldfare.planning.nodes import Nodes, NodeSize, load_nodes

    if text is None:
        return Nodes((NodeSize(memory_gib=memory, cores=cores, network_mbps=network),))
    if re.fullmatch(rf"-?[0-9]{{1,{_DIGITS_MAX}}}", text):
        return Nodes.equal(int(text), memory_gib=memory, cores=cores, network_mbps=network)
    if not _is_there(Path(text)):
        raise NodesError(f"{text} cannot be read: --nodes takes how many there are, or a TOML file that lists them")
    return load_nodes(Path(text))


def _costs(file: Path | None) -> Costs:
    from fieldfare.bench.calibration.saved import saved_costs
    from fieldfare.planning.costs import load_costs, reference_costs

    return load_costs(file) if file else saved_costs() or reference_costs()


def _calibrated(file: Path | None) -> Costs:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from fieldfare.bench.calibration.run import calibrate
    from fieldfare.bench.calibration.saved import costs_file
    from fieldfare.planning.costs import save_costs

    target = file or costs_file()
    console = Console(stderr=True)
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("Measuring", total=1.0)
        found = calibrate(lambda share, what: progress.update(task, completed=share, description=what))
    with _writable(target):
        save_costs(found, target)
    console.print(f"Costs of this machine are in {target}", highlight=False, soft_wrap=True)
    if found.origin.not_measured:
        console.print(f"Not measured: {', '.join(found.origin.not_measured)}", highlight=False, soft_wrap=True)
    return found


def _show(
    application: Application, costs: Costs, nodes: Nodes, *, as_json: bool, plot: Path | None, folder: Path | None
) -> None:
    from fieldfare.planning.choosing import plan as planned

    with Console(stderr=True).status("Predicting"):
        found = planned(application, costs, nodes)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(found))
    else:
        from fieldfare.commands.plan_tables import plan_view

        print_table(plan_view(found, costs, table_columns(_COLUMNS)), _COLUMNS)
    if plot is not None:
        _plot(found, costs, nodes, plot)
    if folder is not None:
        _apply(found, folder)


def _show_together(applications: list[Application], costs: Costs, nodes: Nodes, *, as_json: bool) -> None:
    from fieldfare.planning.together import together

    with Console(stderr=True).status("Predicting"):
        found = together(applications, costs, nodes)
    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(found))
        return
    from fieldfare.commands.plan_tables import together_view

    print_table(together_view(found, costs), _COLUMNS)


def _show_presets(*, as_json: bool) -> None:
    from fieldfare.planning.presets import PRESETS

    if as_json:
        import msgspec

        typer.echo(msgspec.json.encode(PRESETS))
        return
    from fieldfare.commands.plan_tables import presets_view

    print_table(presets_view(), _COLUMNS)


def _plot(found: Plan, costs: Costs, nodes: Nodes, folder: Path) -> None:
    from fieldfare.experiments.plots import plot
    from fieldfare.experiments.replicas_and_hops import figure

    with _writable(folder):
        files = plot([figure(found.application, costs, nodes)], folder)
    for file in files:
        Console(stderr=True).print(f"Wrote {file}", highlight=False, soft_wrap=True)


def _apply(found: Plan, folder: Path) -> None:
    """Write settings; nothing that is there already is replaced."""
    from fieldfare.durable import NewFile
    from fieldfare.planning.settings_files import settings_files

    if not found.is_enough:
        raise InputError(f"nothing is written: no way is enough; {found.recommended.way} lacks what the plan says")
    files = settings_files(found)
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if taken := [name for name in files if (folder / name).exists()]:
            raise InputError(f"{folder} has {', '.join(taken)} already: name another folder, or remove them")
        for name, content in files.items():
            with NewFile(folder / name) as stream:
                stream.write(content.encode())
    Console(stderr=True).print(f"Wrote {', '.join(files)} to {folder}", highlight=False, soft_wrap=True)


@contextmanager
def _writable(place: Path) -> Iterator[None]:
    """Tell a person where nothing can be written."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{place} cannot be written: {error.strerror or error}") from error
