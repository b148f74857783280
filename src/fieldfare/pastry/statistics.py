"""What a node has counted: how much it had to repeat, and what it refused."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PastryCounts:
    """Counts since the start of a node. What cannot be decoded or has no seal is counted by its host."""

    retransmissions: int = 0
    given_up: int = 0  # frames that were never acknowledged
    repeats: int = 0  # frames that had come before
    too_old: int = 0  # frames that were recorded and played again, or belong to an earlier life
    misplaced: int = 0  # frames in the name of a known node from another address than its own, until it answers there
    false_answers: int = 0  # acknowledgements by another node than the one that was asked
    too_many_hops: int = 0
    refused: int = 0  # messages for which there was no room
    unreadable: int = 0  # joined pieces that are no frame
