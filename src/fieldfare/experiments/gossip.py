"""Gossip measured in the simulator: how soon all know of a change or a crash, what it costs, and what loss does to it.

BlueDove's matchers exchange tables with log N random others each second (III-C) and report the bytes of that (IV-C).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

from msgspec.structs import replace

from fieldfare.coordination.gossip_options import GossipOptions
from fieldfare.errors import InputError
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.messages import Announce, MemberGone, Role
from fieldfare.simulation import LinkQuality, World
from fieldfare.simulation.gossip import GossipingBrokers

_HEADER_BYTES = 28  # of IPv4 and UDP
_STEP_SECONDS = 0.05
_PATIENCE_SECONDS = 300.0
_DISPATCHERS = 20
_LOSSES = (0.0, 0.01, 0.05)
_WAN = LinkQuality(0.02, 0.02)  # 40 to 80 ms there and back


@dataclass(frozen=True, slots=True)
class GossipScale:
    """How much to do."""

    nodes: Sequence[int] = (10, 20, 50, 100, 200, 500, 1000)
    changes: int = 10
    crashes: int = 5
    traffic_nodes: int = 20  # as in the paper
    traffic_seconds: float = 300.0
    loss_nodes: Sequence[int] = (20, 100)
    loss_seconds: float = 1800.0
    options: GossipOptions = field(default_factory=GossipOptions)


QUICK = GossipScale((10, 20), 2, 1, 20, 20.0, (20,), 60.0)


class GossipLaboratory:
    """Deployments of brokers that do nothing but gossip."""

    def __init__(self, scale: GossipScale, progress: Callable[[str], None]) -> None:
        self.scale = scale
        self._progress = progress

    def deployment(self, count: int, purpose: str, quality: LinkQuality = _WAN) -> GossipingBrokers:
        """So many brokers that know each other, of which one in ten is a routing broker, after their first rounds."""
        self._progress(f"{purpose}, {count:,} members")
        brokers = GossipingBrokers(World(count, quality), self.scale.options)
        roles: dict[str, Role] = {
            f"broker-{number:04}": "edge" if number % 10 else "routing" for number in range(count)
        }
        brokers.add_acquainted(roles)
        brokers.world.run_for(10 * self.scale.options.round_seconds)
        return brokers

    def rounds(self, seconds: float) -> float:
        """A time in rounds."""
        return seconds / self.scale.options.round_seconds


# How soon


def figure_rounds(lab: GossipLaboratory) -> Figure:
    """Rounds until all know of a change."""
    found = {count: _changes(lab, count) for count in lab.scale.nodes}
    rows: dict[str, Sequence[Cell]] = {
        f"{count:,} members": (math.log2(count), median(rounds), max(rounds)) for count, rounds in found.items()
    }
    sizes = [float(count) for count in found]
    return Figure(
        "gossip-rounds",
        "rounds until all know of a change",
        f"Simulated: {lab.scale.changes} changes at random members, {_latencies(_WAN)}. A round is "
        f"{lab.scale.options.round_seconds:g} s; the members' rounds are not aligned.",
        ("paper: log2 N", "median", "longest"),
        rows,
        "A member sends on what is new to it to log2 N others in each of its rounds, so the number of those who know "
        "is multiplied by about as much: fewer rounds than log2 N, and hardly more for ten times the members.",
        [
            Panel(
                "a change reaches all",
                "members",
                "rounds",
                [
                    Series("longest", sizes, [max(rounds) for rounds in found.values()]),
                    Series("median", sizes, [median(rounds) for rounds in found.values()]),
                    Series("log2 N", sizes, [math.log2(count) for count in found]),
                ],
                log_x=True,
            )
        ],
        "Section III-C",
    )


def _changes(lab: GossipLaboratory, count: int) -> list[float]:
    brokers = lab.deployment(count, "changes")
    rng, rounds = brokers.world.rng("changes"), []
    for number in range(lab.scale.changes):
        name, url = rng.choice(brokers.living), f"https://{number}.example"
        brokers.do(name, Announce(replace(brokers.broker(name).member, url=url)))
        ignorant = set(brokers.living) - {name}

        def all_know(name: str = name, url: str = url, ignorant: set[str] = ignorant) -> bool:
            ignorant -= {each for each in ignorant if brokers.broker(each).members[name].url == url}
            return not ignorant

        rounds.append(lab.rounds(brokers.run_until(all_know, _PATIENCE_SECONDS, _STEP_SECONDS)))
        brokers.world.run_for(rng.uniform(1.0, 2.0) * lab.scale.options.round_seconds)
    return rounds


def figure_detection(lab: GossipLaboratory) -> Figure:
    """Seconds until a crash is known."""
    found = {count: _crashes(lab, count) for count in lab.scale.nodes}
    rows: dict[str, Sequence[Cell]] = {}
    for count, crashes in found.items():
        suspicion = lab.scale.options.suspicion_seconds(count)
        rows[f"{count:,} members"] = (17.5, suspicion, mean(c.first for c in crashes), max(c.last for c in crashes))
    sizes = [float(count) for count in found]
    return Figure(
        "gossip-detection",
        "seconds until a crash is known",
        f"Simulated: crashes of {lab.scale.crashes} random members, {_latencies(_WAN)}. The paper's time is from a "
        "crash until no message is sent to the dead matcher.",
        ("paper", "time to object", "first told, mean", "last told, longest"),
        rows,
        "Most of it is the time in which a member that is wrongly suspected may object, and that grows with log N. "
        "Those who say goodbye are gone at once.",
        [
            Panel(
                "a crash is known",
                "members",
                "seconds",
                [
                    Series("by all, longest", sizes, [max(c.last for c in crashes) for crashes in found.values()]),
                    Series("by the first, mean", sizes, [mean(c.first for c in crashes) for crashes in found.values()]),
                    Series("time to object", sizes, [lab.scale.options.suspicion_seconds(count) for count in found]),
                ],
                log_x=True,
            )
        ],
        "Figure 10",
    )


@dataclass(frozen=True, slots=True)
class _Crash:
    """Seconds until the first and the last of the others was told of a crash."""

    first: float
    last: float


def _crashes(lab: GossipLaboratory, count: int) -> list[_Crash]:
    brokers = lab.deployment(count, "crashes")
    world, rng, crashes = brokers.world, brokers.world.rng("crashes"), []
    for name in rng.sample(brokers.living, lab.scale.crashes):
        world.run_for(rng.random())
        world.crash(brokers.hosts[name])
        waiting = set(brokers.living)
        seconds: list[float] = []
        crashed_at = world.clock.now
        while waiting and world.clock.now < crashed_at + _PATIENCE_SECONDS:
            world.run_for(_STEP_SECONDS)
            told = {each for each in waiting if name not in brokers.broker(each).members}
            seconds += [world.clock.now - crashed_at] * len(told)
            waiting -= told
        crashes.append(_Crash(seconds[0], seconds[-1]))
    return crashes


# What it costs


def figure_traffic(lab: GossipLaboratory) -> Figure:
    """Bytes that each member sends per second."""
    count = lab.scale.traffic_nodes
    rows: dict[str, Sequence[Cell]] = {
        case: (_paper_bytes(every_seconds), *_traffic(lab, count, every_seconds))
        for case, every_seconds in {
            f"{count} members, nothing changes": None,
            f"{count} members, each load changes by more than 10% every 10 s": 10.0,
            f"{count} members, each load changes by more than 10% every second": 1.0,
        }.items()
    }
    sizes = list(lab.scale.nodes)
    quiet = [_traffic(lab, size, None)[0] for size in sizes]
    for size, sent in zip(sizes, quiet, strict=True):
        if size != count:
            rows[f"{size:,} members, nothing changes"] = (None, sent, None, None)
    return Figure(
        "gossip-traffic",
        "bytes that each member sends per second",
        f"Simulated, over {lab.scale.traffic_seconds:g} s, with real packets and their seals; headers of IPv4 and UDP "
        f"are {_HEADER_BYTES} bytes. Of the paper: its formula with {_DISPATCHERS} dispatchers.",
        ("paper", "bytes/s", "with headers", "datagrams/s"),
        rows,
        "While nothing changes only hashes and pings travel, so that a large deployment costs hardly more than a small "
        "one. There is no one to pull a table or to push loads to: every broker is a member and has all of it, and a "
        "load is news if it changed by more than 10%.",
        [
            Panel(
                "nothing changes",
                "members",
                "bytes/s sent by each",
                [
                    Series("ours", [float(size) for size in sizes], quiet),
                    Series("BlueDove's gossip, 20 matchers", [float(size) for size in sizes], [2900.0] * len(sizes)),
                ],
                log_x=True,
            )
        ],
        "Section IV-C",
    )


def _paper_bytes(load_every_seconds: float | None) -> float:
    """What a matcher of BlueDove sends: gossip, 60 N bytes that dispatchers pull every 10 s, 64 for each push."""
    pushed = 64 / load_every_seconds if load_every_seconds is not None else 0.0
    return 2900.0 + (6 + pushed) * _DISPATCHERS


def _traffic(lab: GossipLaboratory, count: int, load_every_seconds: float | None) -> tuple[float, float, float]:
    """Bytes per second and member, the same with headers, and datagrams."""
    brokers = lab.deployment(count, "traffic")
    world, codec = brokers.world, brokers.codec
    rng = world.rng("loads")
    if load_every_seconds is not None:
        for name in brokers.living:
            first_at = world.clock.now + rng.random() * load_every_seconds
            world.clock.call_at(first_at, _keep_changing, brokers, name, rng, load_every_seconds)
    world.run_for(10 * lab.scale.options.round_seconds)
    bytes_before, packets_before = codec.bytes, codec.packets
    seconds = lab.scale.traffic_seconds if count <= 100 else lab.scale.traffic_seconds / 10
    world.run_for(seconds)
    packets = (codec.packets - packets_before) / count / seconds
    sent = (codec.bytes - bytes_before) / count / seconds
    return sent, sent + _HEADER_BYTES * packets, packets


def _keep_changing(brokers: GossipingBrokers, name: str, rng: random.Random, every_seconds: float) -> None:
    """Announce another load, now and from now on every so many seconds."""
    member, clock = brokers.broker(name).member, brokers.world.clock
    brokers.do(name, Announce(replace(member, load=rng.random())))
    clock.call_at(clock.now + every_seconds, _keep_changing, brokers, name, rng, every_seconds)


# What loss does


def figure_loss(lab: GossipLaboratory) -> Figure:
    """Members that are suspected, or believed to be gone, although they live."""
    rows: dict[str, Sequence[Cell]] = {}
    for count in lab.scale.loss_nodes:
        for loss in _LOSSES:
            rows[f"{count} members, {loss:.0%} lost"] = _losses(lab, count, loss)
    return Figure(
        "gossip-loss",
        "wrong suspicions where datagrams are lost",
        f"Simulated, over {20 * lab.scale.loss_seconds / 3600:g} hours of one member, {_latencies(_WAN)}. A suspicion "
        "counts once, at the member that raises it.",
        ("suspicions per hour", "of each member per hour", "told to be gone"),
        rows,
        "A ping and its answer have to be lost, and so has one of each helper's four datagrams. Those that are "
        "suspected all the same object in time, so that no broker is told that one is gone.",
        [
            Panel(
                "wrong suspicions",
                "datagrams lost",
                "of each member per hour",
                [
                    Series(
                        f"{count} members",
                        [f"{loss:.0%}" for loss in _LOSSES],
                        [_number(rows[f"{count} members, {loss:.0%} lost"][1]) for loss in _LOSSES],
                    )
                    for count in lab.scale.loss_nodes
                ],
            )
        ],
    )


def _losses(lab: GossipLaboratory, count: int, loss: float) -> tuple[float, float, float]:
    quality = LinkQuality(_WAN.latency_seconds, _WAN.jitter_seconds, loss)
    brokers = lab.deployment(count, f"loss of {loss:.0%}", quality)
    seconds = lab.scale.loss_seconds * 20 / count
    brokers.world.run_for(seconds)
    suspicions = sum(node.gossip.membership.suspicion_count for node in brokers.nodes.values())
    gone = sum(isinstance(told, MemberGone) for name in brokers.living for told in brokers.broker(name).told)
    per_hour = suspicions / seconds * 3600
    return per_hour, per_hour / count, float(gone)


def _number(cell: Cell) -> float:
    return cell if isinstance(cell, float) else 0.0


def _latencies(quality: LinkQuality) -> str:
    low = quality.latency_seconds
    return f"{1000 * low:g} to {1000 * (low + quality.jitter_seconds):g} ms one way"


FIGURES: Mapping[str, Callable[[GossipLaboratory], Figure]] = {
    "rounds": figure_rounds,
    "detection": figure_detection,
    "traffic": figure_traffic,
    "loss": figure_loss,
}


def run(names: Sequence[str], scale: GossipScale, progress: Callable[[str], None]) -> list[Figure]:
    """Run some of the measurements; `progress` is told what is being done."""
    for name in names:
        if name not in FIGURES:
            raise InputError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    if min(scale.nodes) < 3 or min(scale.nodes) <= scale.crashes:
        raise InputError(f"so few members cannot be measured: give at least {max(3, scale.crashes + 1)}")
    laboratory = GossipLaboratory(scale, progress)
    return [FIGURES[name](laboratory) for name in names]
