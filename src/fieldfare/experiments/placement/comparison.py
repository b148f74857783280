"""Figures 5 and 6: every strategy, by the number of brokers that have subscribers of a publisher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fieldfare.experiments.placement.laboratory import (
    BEST_DELAY,
    BEST_HOPS,
    BEST_LOAD,
    DELAY,
    LOAD,
    POP,
    STATIC,
    Laboratory,
    Outcomes,
    Trial,
    gained,
)
from fieldfare.experiments.placement.load_model import ServiceTime
from fieldfare.experiments.placement.settings import BUSIEST_STATIC
from fieldfare.experiments.pubsubcoord.service_times import HOST_SECONDS
from fieldfare.experiments.results import Cell, Figure, Panel, Series

COLUMNS = (
    "messages/s a broker",
    "placement's",
    "input use",
    "output use",
    "busiest",
    "overloaded",
    "delay ms",
    "hops",
    "relocations",
    "overhead",
    "of it pings",
    "kB held",
)
MODEL = (
    "Tracing, selection and damping are the real code; queues, links and the generated quotes are a model's. Averages "
    "over the seeds. Placement's: its own messages for each broker and second, over the whole run. Overhead: its "
    "messages for each message with an event. Held: memory of placement at a broker. Best by load and by hops are "
    "exact; best by delay is the best that was found by trying every broker for each publisher in turn."
)
OURS = ServiceTime(HOST_SECONDS["routing"], HOST_SECONDS["routing"], 0.0002)


def cells(outcomes: Outcomes) -> list[Cell]:
    """A row of a table."""
    return [
        outcomes.message_rate,
        outcomes.own_rate,
        f"{outcomes.input_utilisation:.1%}",
        f"{outcomes.output_utilisation:.1%}",
        f"{outcomes.busiest:.0%}",
        outcomes.overloaded,
        outcomes.delay_seconds * 1e3,
        outcomes.hops,
        outcomes.relocations,
        f"{outcomes.overhead:.1%}",
        f"{outcomes.pings_overhead:.1%}",
        outcomes.state_bytes / 1e3,
    ]


def figure_5abc(lab: Laboratory) -> Figure:
    """Enterprise, on the first testbed."""
    return _figure(
        lab,
        "5abc",
        Trial(lab.scale.testbeds[0]),
        lab.scale.spreads,
        {POP: "load -64%, rate -85%, delay -63%", LOAD: "load -68%, rate -84%", DELAY: "delay -68%"},
    )


def figure_5def(lab: Laboratory) -> Figure:
    """Enterprise, on the second testbed."""
    return _figure(lab, "5def", Trial(lab.scale.testbeds[1]), lab.scale.wide_spreads, {LOAD: "delay above static"})


def figure_6cd(lab: Laboratory) -> Figure:
    """A tree with a fan-out of 4."""
    paper = {LOAD: "as 5abc, but less"}
    return _figure(lab, "6cd", Trial(lab.scale.testbeds[0], fan_out=4), lab.scale.spreads, paper)


def figure_6i(lab: Laboratory) -> Figure:
    """Random, on the first testbed."""
    case = Trial(lab.scale.testbeds[0], "random")
    return _figure(lab, "6i", case, lab.scale.spreads, {LOAD: "rate as static, none overloaded", DELAY: "as load"})


def figure_6h(lab: Laboratory) -> Figure:
    """Random, on the second testbed."""
    case = Trial(lab.scale.testbeds[1], "random")
    return _figure(lab, "6h", case, lab.scale.wide_spreads, {POP: "least delay", DELAY: "as load"})


def figure_ours(lab: Laboratory) -> Figure:
    """The first testbed's enterprise workload, with brokers as fast as ours and on one local network."""
    return _figure(lab, "ours", Trial(lab.scale.testbeds[0], service=OURS), lab.scale.spreads, {})


def figure_ours_random(lab: Laboratory) -> Figure:
    """The same with the random workload."""
    case = Trial(lab.scale.testbeds[0], "random", service=OURS)
    return _figure(lab, "ours-random", case, lab.scale.spreads, {POP: "least delay"})


def _figure(lab: Laboratory, name: str, case: Trial, spreads: Sequence[int], paper: Mapping[str, str]) -> Figure:
    strategies = lab.strategies(case.testbed)
    found = {spread: lab.run(replace(case, spread=spread), strategies) for spread in spreads}
    rows: dict[str, Sequence[Cell]] = {}
    for spread, by_strategy in found.items():
        for strategy, outcomes in by_strategy.items():
            row = [paper.get(strategy), *cells(outcomes), *_shares(by_strategy, outcomes)]
            rows[f"{spread} broker{'s' if spread > 1 else ''}, {strategy}"] = row
    testbed = case.testbed
    return Figure(
        name,
        f"{case.distribution}, {testbed.brokers} brokers, fan-out {case.fan_out}, by brokers with subscribers",
        f"{testbed.publishers} publishers, {testbed.publishers * testbed.subscribers_per_publisher:,} subscribers, "
        f"{lab.scale.minutes} minutes, {testbed.runs} seeds, links of {_link_seconds(case) * 1e3:g} ms. "
        f"{_regime(case)} {MODEL}",
        ("paper", *COLUMNS, "of the load gain", "of the delay gain", "of the hops gain"),
        rows,
        _conclusion(found),
        _panels(found),
    )


def _shares(by_strategy: Mapping[str, Outcomes], outcomes: Outcomes) -> list[Cell]:
    """Of what the best placements gain on static: messages, delay and hops."""
    static = by_strategy[STATIC]
    shares = (
        gained(static.message_rate, outcomes.message_rate, by_strategy[BEST_LOAD].message_rate),
        gained(static.delay_seconds, outcomes.delay_seconds, by_strategy[BEST_DELAY].delay_seconds),
        gained(static.hops, outcomes.hops, by_strategy[BEST_HOPS].hops),
    )
    return [None if share is None else f"{share:.0%}" for share in shares]


def _conclusion(found: Mapping[int, Mapping[str, Outcomes]]) -> str:
    def largest_fall(strategy: str, value: Callable[[Outcomes], float]) -> str:
        falls = [1.0 - value(by_strategy[strategy]) / value(by_strategy[STATIC]) for by_strategy in found.values()]
        return f"{max(falls):.0%}"

    falls = "; ".join(
        f"{strategy}: messages {largest_fall(strategy, lambda each: each.message_rate + each.own_rate)}, "
        f"input {largest_fall(strategy, lambda each: each.input_utilisation)}, "
        f"delay {largest_fall(strategy, lambda each: each.delay_seconds)}"
        for strategy in (POP, LOAD, DELAY)
    )
    return f"Largest falls below static, messages with placement's own: {falls}."


def _panels(found: Mapping[int, Mapping[str, Outcomes]]) -> list[Panel]:
    spreads = [float(spread) for spread in found]
    drawn = (STATIC, POP, LOAD, DELAY, BEST_LOAD, BEST_DELAY)

    def series(names: Sequence[str], value: Callable[[Outcomes], float]) -> list[Series]:
        return [Series(name, spreads, [value(each[name]) for each in found.values()]) for name in names]

    label = "brokers with subscribers"
    rates = series(drawn, lambda each: each.message_rate + each.own_rate)
    inputs = series(drawn, lambda each: each.input_utilisation)
    delays = series(drawn, lambda each: each.delay_seconds * 1e3)
    overheads = series(drawn[:4], lambda each: each.overhead)
    return [
        Panel("message rate, with placement's own", label, "messages/s that a broker receives", rates, log_x=True),
        Panel("input utilisation", label, "share of the time", inputs, log_x=True),
        Panel("delay", label, "ms from publisher to subscriber", delays, log_x=True),
        Panel("message overhead", label, "placement's, for each with an event", overheads, log_x=True),
    ]


def _link_seconds(case: Trial) -> float:
    return case.testbed.link_seconds if case.service is None else case.service.link_seconds


def _regime(case: Trial) -> str:
    if case.service is None:
        return f"Service times are scaled so that static's busiest broker has a utilisation of {BUSIEST_STATIC:.0%}."
    return (
        f"Service times as measured for a routing broker of ours, {case.service.matching_seconds * 1e6:.0f} µs for "
        "each message in or out. (A broker of a tree takes about 100 µs, by figure brokers: it is as idle with that.)"
    )
