"""The paper's Algorithms 1 to 3 as they are printed, once for each candidate, and trees to try them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from fieldfare.placement.placement_frames import BrokerDelays, BrokerReport


class SlowTree:
    """Answers for one candidate at a time, by walking the tree from it."""

    def __init__(self, reports: Sequence[BrokerReport], published: int) -> None:
        self._by_name = {report.broker: report for report in reports}
        self._published = published

    def _onward(self, broker: str, previous: str | None) -> list[str]:
        return [name for name in self._by_name[broker].neighbours if name != previous and name in self._by_name]

    def _handling(self, broker: str) -> float:
        delays = self._by_name[broker].delays
        return delays.input_seconds + delays.matching_seconds

    def total_delay(self, broker: str, so_far: float = 0.0, previous: str | None = None) -> float:
        """Algorithm 1."""
        report, handling = self._by_name[broker], self._handling(broker)
        total = report.deliveries * (so_far + handling + report.delays.client_seconds)
        for name in self._onward(broker, previous):
            link = handling + report.delays.output_seconds.get(name, 0.0)
            total += self.total_delay(name, so_far + link, broker)
        return total

    def total_messages(self, broker: str) -> int:
        """Algorithm 2, but for the candidate itself: it receives all that is published, wanted or not."""
        return self._published + sum(self._received(name, broker) for name in self._onward(broker, None))

    def _received(self, broker: str, previous: str) -> int:
        return self._wanted(broker, previous).bit_count() + sum(
            self._received(name, broker) for name in self._onward(broker, previous)
        )

    def _wanted(self, broker: str, previous: str) -> int:
        """Algorithm 3, without its memory."""
        bits = int.from_bytes(self._by_name[broker].delivered, "little")
        for name in self._onward(broker, previous):
            bits |= self._wanted(name, broker)
        return bits


def reports_of(
    parents: Sequence[int], delivered: Sequence[int], deliveries: Sequence[int], delays: Mapping[int, BrokerDelays]
) -> list[BrokerReport]:
    """Brokers "0", "1", … where each, but for the first, is a child of an earlier one."""
    neighbours: list[list[str]] = [[] for _ in range(len(parents) + 1)]
    for child, parent in enumerate(parents, 1):
        neighbours[child].append(str(parent))
        neighbours[parent].append(str(child))
    return [
        BrokerReport(
            str(number),
            tuple(names),
            delivered[number].to_bytes((delivered[number].bit_length() + 7) // 8, "little"),
            deliveries[number],
            delays.get(number, BrokerDelays()),
        )
        for number, names in enumerate(neighbours)
    ]


@st.composite
def sessions(draw: st.DrawFn, brokers_max: int = 12, published_max: int = 12) -> tuple[list[BrokerReport], int]:
    """The reports of a session in a random tree, and how many publications it had."""
    parents = [
        draw(st.integers(0, number)) for number in range(draw(st.integers(0, brokers_max - 1)))
    ]  # child number+1 may have any earlier parent
    count, published = len(parents) + 1, draw(st.integers(1, published_max))
    bits = [draw(st.integers(0, 2**published - 1)) for _ in range(count)]
    deliveries = [vector.bit_count() * draw(st.integers(1, 5)) for vector in bits]
    seconds = st.integers(0, 1000).map(lambda each: each / 1000)
    neighbours = reports_of(parents, bits, deliveries, {})
    delays = {
        number: BrokerDelays(
            draw(seconds), draw(seconds), {name: draw(seconds) for name in report.neighbours}, draw(seconds)
        )
        for number, report in enumerate(neighbours)
    }
    return reports_of(parents, bits, deliveries, delays), published
