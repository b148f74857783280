"""A crash of a fifth of some peers, and what it says of replicas that hold entries, or only who sent them."""

from __future__ import annotations

from dataclasses import replace

from fieldfare.dmm.options import DmmOptions
from fieldfare.dmm.sender_replicas import ReplicaContent
from fieldfare.simulation.peer_recovery import Recovery, RecoveryRun, RecoverySettings

SETTINGS = RecoverySettings(
    peers=60, subscriptions=60, loss=0.01, quiet_seconds=3.0, seconds=35.0, events_per_second=2.0
)


def recovery(content: ReplicaContent) -> Recovery:
    return RecoveryRun(replace(SETTINGS, dmm=DmmOptions(replicas_hold=content))).run()


def test_nothing_is_lost_and_copies_of_entries_are_larger_than_lists_of_senders() -> None:
    entries, senders = map(recovery, ReplicaContent)
    for each in (entries, senders):
        assert each.crashed == 12
        assert each.events > 30
        assert each.expected > 0
        assert (each.missing, each.doubled) == (0, 0)
    assert entries.lateness.complete_again_seconds < 30.0
    assert senders.replica_bytes < entries.replica_bytes
