"""What a peer's neighbours keep for it: who sent entries, as in the paper, beside the entries themselves."""

from __future__ import annotations

from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.experiments.dmm.laboratory import Laboratory
from fieldfare.experiments.results import Cell, Figure, Panel, Series
from fieldfare.simulation.peer_recovery import LATE_SECONDS, Recovery

_KILOBYTE = 1_000


def figure_replicas(laboratory: Laboratory) -> Figure:
    """Both, in bytes and in seconds, when a fifth of all peers crash at once."""
    scale = laboratory.scale
    found = {content: laboratory.recover(content) for content in ReplicaContent}
    names = [str(content) for content in found]
    seconds = [recovery.lateness.complete_again_seconds for recovery in found.values()]
    return Figure(
        "replicas",
        f"copies at neighbours, {scale.recovery_peers:,} peers, {scale.recovery_subscriptions:,} subscriptions, "
        f"{scale.crashed_share:.0%} crash",
        "simulated: real peers and packets, virtual time, every way 10 to 15 ms and 0.1% lost",
        [
            "copies: kB of each peer",
            "subscribing: kB each",
            "quiet: B/s each",
            "publishing: B/s each",
            "30 s after the crash: B/s each",
            "whole again after s",
            "slowest delivery s",
            "late deliveries",
            "missing",
            "doubled",
        ],
        {name: _row(recovery, scale.recovery_peers) for name, recovery in zip(names, found.values(), strict=True)},
        f"Delivery is whole again when the last event has come that took more than {LATE_SECONDS:g} s.",
        [
            Panel("After a crash of a fifth", "", "seconds until whole again", [Series("seconds", names, seconds)]),
            Panel(
                "Traffic in the 30 s after it",
                "",
                "kB/s of each peer",
                [Series("kB/s", names, [each.traffic_after.bytes / _KILOBYTE for each in found.values()])],
            ),
        ],
    )


def _row(recovery: Recovery, peers: int) -> list[Cell]:
    return [
        recovery.replica_bytes / peers / _KILOBYTE,
        recovery.traffic_subscribing.all_bytes / peers / _KILOBYTE,
        recovery.traffic_quiet.bytes,
        recovery.traffic_before.bytes,
        recovery.traffic_after.bytes,
        recovery.lateness.complete_again_seconds,
        recovery.lateness.slowest_seconds,
        recovery.lateness.late,
        recovery.missing,
        recovery.doubled,
    ]
