"""`fieldfare bench`: measure Fieldfare beside its peers. Imports of substance stand inside the commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import typer
from rich.console import Console, RenderableType

from fieldfare.commands.tables import print_table

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of a table.")]
Count = Annotated[int, typer.Option(min=1, help="How many.")]
IsQuick = Annotated[bool, typer.Option("--quick", help="Tiny sizes: show that it works, measure nothing.")]
Peers = Annotated[list[str] | None, typer.Option(help="Which peer; may be repeated.", show_default="all")]
Repeats = Annotated[int, typer.Option(min=1, help="How often to measure; the median counts.")]
Scenarios = Annotated[list[str] | None, typer.Option(help="Which scenario; may be repeated.", show_default="all")]
StreamRate = Annotated[int, typer.Option(min=1, help="Events per second of the stream.")]
StreamSeconds = Annotated[float, typer.Option(min=0.0, help="How long to stream; 0: not at all.")]
SubscriberProcesses = Annotated[int, typer.Option(min=1, help="Processes that hold the subscribers.")]
Workloads = Annotated[list[str] | None, typer.Option(help="Which workload; may be repeated.", show_default="all")]

Results = TypeVar("Results")


def _show(
    run: Callable[[Callable[[str], None]], Results],
    render: Callable[[Results], RenderableType],
    to_json: Callable[[Results], str],
    *,
    as_json: bool,
) -> None:
    """Measure, saying meanwhile what is being measured, and print what came out."""
    with Console(stderr=True).status("Measuring") as status:
        results = run(status.update)
    if as_json:
        typer.echo(to_json(results))
    else:
        print_table(render(results))


@app.command()
def engine(
    *,
    workload: Workloads = None,
    peer: Peers = None,
    subscriptions: Annotated[int | None, typer.Option(help="How many.", show_default="the workload's")] = None,
    width: Annotated[float | None, typer.Option(help="Width of ranges of 1000.", show_default="the workload's")] = None,
    events: Annotated[int | None, typer.Option(help="How many.", show_default="the workload's")] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure each engine on each workload.")] = 3.0,
    as_json: AsJson = False,
) -> None:
    """Measure the matching engine and its peers on one core, every answer checked against brute force.

    Workloads: bluedove, large, sparse, quotes, feeds, geo, keywords, alerts, geofences, churn.
    Peers: numpy, duckdb, inverted, rtree, shapely.

    Example: `fieldfare bench engine --workload bluedove --subscriptions 400000`
    """
    from fieldfare.bench import engine as bench

    options = bench.EngineOptions(
        workloads=tuple(workload or bench.WORKLOADS),
        peers=tuple(peer or bench.PEERS),
        subscriptions=subscriptions,
        width=width,
        events=events,
        seconds=seconds,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def pipeline(
    *,
    subscriptions: Count = 40_000,
    width: Annotated[float, typer.Option(help="Width of ranges of 1000.")] = 250.0,
    events: Count = 1_000_000,
    layout: Annotated[str, typer.Option(help="Compared with replicated: multi, single or clusters.")] = "multi",
    policy: Annotated[str, typer.Option(help="adaptive, response-time, subscriptions or random.")] = "adaptive",
    matchers: Count = 2,
    repeats: Repeats = 3,
    stream_seconds: StreamSeconds = 20.0,
    stream_rate: StreamRate = 20_000,
    as_json: AsJson = False,
) -> None:
    """Measure the pipeline on local Spark beside its floor and Spark's own join, checked against brute force.

    Example: `fieldfare bench pipeline --subscriptions 1000000 --width 50`
    """
    from fieldfare.bench import pipeline as bench

    options = bench.PipelineBenchOptions(
        subscriptions=subscriptions,
        width=width,
        events=events,
        layout=layout,
        policy=policy,
        matchers=matchers,
        repeats=repeats,
        stream_seconds=stream_seconds,
        stream_rate=stream_rate,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def flood(
    *,
    subscriptions: Count = 40_000,
    rate: Annotated[int, typer.Option(min=1, help="Events per second of the steady pipeline.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long each phase lasts.")] = 15.0,
    events_per_batch: Annotated[int, typer.Option(min=1, help="At most, in the flooded one.")] = 500_000,
    as_json: AsJson = False,
) -> None:
    """Measure what a pipeline notices of another one in its process that is flooded, beside Spark's own scheduling.

    Example: `fieldfare bench flood --rate 2000`
    """
    from fieldfare.bench import flood as bench

    options = bench.FloodOptions(
        subscriptions=subscriptions, rate=rate, seconds=seconds, events_per_batch=events_per_batch
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def kafka(
    *,
    subscriptions: Count = 40_000,
    width: Annotated[float, typer.Option(help="Width of ranges of 1000; 106 makes about 5 matches.")] = 106.0,
    events: Count = 600_000,
    peer_seconds: Annotated[float, typer.Option(min=0.0, help="How long each peer runs.")] = 5.0,
    stream_seconds: StreamSeconds = 15.0,
    stream_rate: StreamRate = 20_000,
    broker: Annotated[
        str | None, typer.Option(help="host:port of a broker to use; it gets new topics.", show_default="starts one")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the pipeline from and to Kafka, beside the same job written by hand, checked against brute force.

    Example: `fieldfare bench kafka --events 200000`
    """
    from fieldfare.bench.kafka import run as bench

    options = bench.KafkaBenchOptions(
        subscriptions=subscriptions,
        width=width,
        events=events,
        peer_seconds=peer_seconds,
        stream_seconds=stream_seconds,
        stream_rate=stream_rate,
        broker=broker,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def broker(
    *,
    scenario: Scenarios = None,
    peer: Peers = None,
    seconds: Annotated[float, typer.Option(help="How long to measure each broker in each scenario.")] = 5.0,
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Events/s at which to measure latency; may be repeated.", show_default="300 to 8000"),
    ] = None,
    subscriber_processes: SubscriberProcesses = 1,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Measure the broker beside Redis and NATS on loopback, every delivery counted.

    Scenarios: selective, durable, rates, rates-durable, edge-10k, edge-100k, fan-out, one-core, idle.
    Peers: redis, nats.

    Example: `fieldfare bench broker --scenario rates --rate 300 --rate 2000 --peer redis`
    """
    from fieldfare.bench.broker import scenarios as bench

    options = bench.BrokerOptions(
        scenarios=tuple(scenario or bench.SCENARIOS),
        peers=tuple(peer or bench.PEERS),
        seconds=seconds,
        rates=tuple(rate or bench.RATES),
        subscriber_processes=subscriber_processes,
        is_quick=quick,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def overlay(
    *,
    scenario: Scenarios = None,
    system: Annotated[list[str] | None, typer.Option(help="Which system; may be repeated.", show_default="all")] = None,
    edges: Annotated[
        list[int] | None, typer.Option(help="How many edges; may be repeated.", show_default="from 1 to 8")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to measure each system, at saturation and at a rate.")] = 2.0,
    subscriber_processes: SubscriberProcesses = 1,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Measure the overlay beside NATS leaf nodes and Zenoh routers on loopback, two hops, every delivery counted.

    Scenarios: selective, few, single, everything. Systems: fieldfare, fieldfare-durable, nats, zenoh.

    Example: `fieldfare bench overlay --scenario selective --edges 2 --edges 8`
    """
    from fieldfare.bench.overlay import scenarios as bench

    options = bench.OverlayBenchOptions(
        scenarios=tuple(scenario or bench.SCENARIOS),
        systems=tuple(system or bench.SYSTEMS),
        edge_counts=tuple(edges or ()),
        seconds=seconds,
        subscriber_processes=subscriber_processes,
        is_quick=quick,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def acknowledging(
    *,
    edges: Annotated[
        list[int] | None, typer.Option(help="How many edges; may be repeated.", show_default="1, 2, 4 and 8")
    ] = None,
    repeats: Annotated[int, typer.Option(min=2, help="Subscriptions of each kind.")] = 200,
    as_json: AsJson = False,
) -> None:
    """Measure how long a subscription takes to be acknowledged by an edge among others. No peer confirms as much.

    Example: `fieldfare bench acknowledging --edges 2 --edges 8`
    """
    from fieldfare.bench.overlay import acknowledging as bench

    measure = partial(bench.run, edges or bench.EDGE_COUNTS, repeats)
    _show(measure, bench.render, bench.to_json, as_json=as_json)


@app.command()
def simulation(
    *,
    repeats: Repeats = 3,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Measure the simulator: memory of an idle node, messages per second of CPU. No peer runs the same nodes.

    Example: `fieldfare bench simulation --json`
    """
    from fieldfare.bench import simulation as bench

    options = bench.SimulationOptions(repeats, quick)
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)


@app.command()
def pastry(
    *,
    nodes: Annotated[int, typer.Option(min=20, help="Of the ring.")] = 5_000,
    lookups: Annotated[int, typer.Option(min=1, help="Messages to random keys.")] = 10_000,
    join: Annotated[bool, typer.Option("--join", help="Let all nodes join, in place of right tables.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a ring of peers in the simulator: hops, CPU, memory, and how fast the crash of a fifth is healed.

    Example: `fieldfare bench pastry --nodes 1000 --join`
    """
    from fieldfare.bench import pastry as bench

    options = bench.PastryBenchOptions(nodes, lookups, join)
    _show(lambda progress: [bench.run(options, progress)], bench.render, bench.to_json, as_json=as_json)


@app.command()
def covering(
    *,
    workload: Workloads = None,
    subscriptions: Annotated[
        list[int] | None, typer.Option(help="Of the other edge; may be repeated.", show_default="1000 and 100000")
    ] = None,
    boxes: Annotated[
        list[int] | None, typer.Option(help="At most in a covering; may be repeated.", show_default="16 to 1024")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often to measure times; the median counts.")] = 3,
    quick: IsQuick = False,
    as_json: AsJson = False,
) -> None:
    """Measure what an edge tells others of its subscriptions: a covering of few boxes, beside the full index.

    Workloads: bluedove, large, sparse, quotes, feeds, geo, region, selective, edge.

    Example: `fieldfare bench covering --workload geo --subscriptions 10000 --boxes 1024`
    """
    from fieldfare.bench import covering as bench

    usual = bench.CoveringOptions()
    options = bench.CoveringOptions(
        workloads=tuple(workload or usual.workloads),
        subscriptions=tuple(subscriptions or usual.subscriptions),
        boxes_max=tuple(boxes or usual.boxes_max),
        repeats=repeats,
        is_quick=quick,
    )
    _show(partial(bench.run, options), bench.render, bench.to_json, as_json=as_json)
