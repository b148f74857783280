r"""Section 3.4: flows with a latency budget have a second path between their edges (figure 7).

publisher - edge --L1-- routing broker --L2-- edge - subscriber
             \______________L3________________/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from fieldfare.experiments.pubsubcoord.laboratory import Laboratory
from fieldfare.experiments.pubsubcoord.networks import CLOUD, Flow, Networks, edge_of
from fieldfare.experiments.pubsubcoord.settings import PERIOD_SECONDS, REQUESTED
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.simulation.network import LinkQuality

HERE, THERE = "here", "there"
BUDGETED = msgspec.structs.replace(REQUESTED, latency_budget_seconds=0.1)
_FLOW = Flow.to("samples", HERE, THERE)
_WARM_SECONDS = 3.0
_FAST_RETRANSMIT_PACKETS = 3  # that follow a lost one, before TCP sends it again
_RETRANSMIT_SECONDS_MAX = 0.2  # beyond a round trip: then it does so in any case


def way(delay_seconds: float, loss: float) -> LinkQuality:
    """A link of the WAN. What is lost comes a round trip later, and as soon as TCP knows that it is lost."""
    known_after = min(_FAST_RETRANSMIT_PACKETS * PERIOD_SECONDS, _RETRANSMIT_SECONDS_MAX)
    return LinkQuality(
        latency_seconds=delay_seconds,
        jitter_seconds=0.0,
        loss=loss,
        retransmission_seconds=2 * delay_seconds + known_after,
    )


@dataclass(frozen=True, slots=True)
class LinkCase:
    """What the three links are like."""

    name: str
    l1: LinkQuality
    l2: LinkQuality
    l3: LinkQuality

    @staticmethod
    def single(delay_seconds: float, loss: float) -> LinkCase:
        """Both hops of a single path alike."""
        quality = way(delay_seconds, loss)
        return LinkCase(f"{delay_seconds * 1e3:g} ms per hop, {loss:.0%} loss", quality, quality, quality)

    @property
    def least_seconds(self) -> float:
        """How long the better path takes at least."""
        return min(self.l1.latency_seconds + self.l2.latency_seconds, self.l3.latency_seconds)


A, B = way(0.03, 0.0), way(0.25, 0.01)  # the groups of Verizon's delays and losses
CASES = {
    number: LinkCase(f"case {number}: {''.join('B' if quality is B else 'A' for quality in links)}", *links)
    for number, links in enumerate(
        ((A, A, A), (A, A, B), (A, B, A), (A, B, B), (B, A, A), (B, A, B), (B, B, A), (B, B, B)), start=1
    )
}


@dataclass(frozen=True, slots=True)
class Path:
    """What samples took over one path, or over two."""

    latencies: npt.NDArray[np.float64]  # seconds
    bytes: int

    @property
    def average_ms(self) -> float:
        """Of all."""
        return float(np.mean(self.latencies)) * 1e3

    @property
    def longest_ms(self) -> float:
        """The worst."""
        return float(np.max(self.latencies)) * 1e3


def simulate(case: LinkCase, samples: int, *, has_second_path: bool) -> Path:
    """Send samples from one network to another."""
    networks = Networks([HERE, THERE], 1, [_FLOW], requested=BUDGETED if has_second_path else REQUESTED)
    networks.begin()
    here, there, routing = edge_of(HERE), edge_of(THERE), f"{CLOUD}.routing-0"
    for one, other, quality in ((here, routing, case.l1), (routing, there, case.l2), (here, there, case.l3)):
        networks.world.network.set_link_quality(one, other, quality)
    measured = networks.measure(_WARM_SECONDS, samples * PERIOD_SECONDS)
    return Path(measured.latencies, measured.bytes_between)


def figure_7a(lab: Laboratory) -> Figure:
    """Latency of a single path, by the delay of its links, with and without loss."""
    scale = lab.scale.budgets
    rows: dict[str, list[Cell]] = {}
    series: list[Series] = []
    hops = [delay * 1e3 for delay in scale.delays_seconds]
    for loss in (0.0, 0.01):
        found = []
        for delay in scale.delays_seconds:
            case = LinkCase.single(delay, loss)
            lab.progress(f"Figure 7a: {case.name}")
            found.append(simulate(case, scale.samples, has_second_path=False))
            rows[case.name] = [2e3 * delay, found[-1].average_ms, found[-1].longest_ms]
        series.append(Series(f"average, {loss:.0%} loss", hops, [path.average_ms for path in found]))
        series.append(Series(f"longest, {loss:.0%} loss", hops, [path.longest_ms for path in found]))
    return Figure(
        "7a",
        "latency of a single path, by the delay of its links",
        f"Simulated, {scale.samples:,} samples. Delays are of each of two hops, one way; publisher and subscriber add "
        "20 ms. Of the paper's delays, its text names 125 ms; the others are ours. A lost packet comes again after a "
        "round trip and three more samples, and all behind it wait.",
        ("both hops, ms", "average ms", "longest ms"),
        rows,
        "Without loss nothing is later than the way is long. With 1% loss on each hop the average grows little, and "
        "the longest latency by several round trips.",
        [Panel("single path", "delay of each hop, ms", "latency, ms", series)],
    )


def figure_7b(lab: Laboratory) -> Figure:
    """Latency over two paths, in the cases of Table 1, beside that of a single path."""
    samples = lab.scale.budgets.samples
    rows: dict[str, list[Cell]] = {}
    averages: dict[str, list[float]] = {"second path": [], "single path": []}
    longest: dict[str, list[float]] = {"second path": [], "single path": []}
    for case in CASES.values():
        for name, has_second_path in (("second path", True), ("single path", False)):
            lab.progress(f"Figure 7b: {case.name}, {name}")
            path = simulate(case, samples, has_second_path=has_second_path)
            averages[name].append(path.average_ms)
            longest[name].append(path.longest_ms)
        rows[case.name] = [
            case.least_seconds * 1e3,
            averages["second path"][-1],
            longest["second path"][-1],
            averages["single path"][-1],
            longest["single path"][-1],
        ]
    reference = simulate(LinkCase.single(0.125, 0.01), samples, has_second_path=False)
    rows["single path of 125 ms per hop, 1% loss"] = [250.0, None, None, reference.average_ms, reference.longest_ms]
    better = sum(average < reference.average_ms for average in averages["second path"])
    numbers = [str(number) for number in CASES]
    return Figure(
        "7b",
        "latency with a second path, in the eight cases of Table 1",
        f"Simulated, {samples:,} samples. A: 30 ms, no loss; B: 250 ms, 1% loss; in the order L1, L2, L3, where L3 is "
        "the link between the edges. The least is what the better path takes; publisher and subscriber add 20 ms.",
        ("least ms", "average ms", "longest ms", "single: average ms", "single: longest ms"),
        rows,
        "The paper: cases 1 to 5 are better than any single path, and all cases are better than a single path with "
        f"125 ms and 1% loss. Ours: {better} of {len(CASES)} are, on average; with a second path no case is worse than "
        "without one.",
        [
            Panel("average", "case", "latency, ms", _series(numbers, averages)),
            Panel("longest", "case", "latency, ms", _series(numbers, longest)),
        ],
    )


def _series(numbers: Sequence[str], values: dict[str, list[float]]) -> list[Series]:
    return [Series(name, numbers, found) for name, found in values.items()]


def figure_7c(lab: Laboratory) -> Figure:
    """What a second path costs in bytes."""
    samples = lab.scale.budgets.samples
    lab.progress("Figure 7c")
    single, double = (simulate(CASES[1], samples, has_second_path=has_path) for has_path in (False, True))
    ratio = double.bytes / single.bytes
    rows: dict[str, list[Cell]] = {
        "single path": [single.bytes / 1e6, single.bytes / samples],
        "with a second path": [double.bytes / 1e6, double.bytes / samples],
        "ratio": [ratio, ratio],
    }
    return Figure(
        "7c",
        f"bytes between brokers for {samples:,} samples",
        "Simulated, case 1. All frames between edges and routing broker, in both directions and over every link, "
        "without what TLS, TCP and IP add.",
        ("MB", "bytes per sample"),
        rows,
        "The single path carries each sample over two links and the word that it was taken back over both; the second "
        "path adds one link to that.",
        [
            Panel(
                "bytes",
                "",
                "MB",
                [Series("sent", ["single path", "second path"], [single.bytes / 1e6, double.bytes / 1e6])],
            )
        ],
    )
