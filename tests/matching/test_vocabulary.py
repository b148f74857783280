"""The hash table of members against a dict of Python."""

from __future__ import annotations

import numpy as np

from fieldfare.boxes import Cuts, MemberColumn
from fieldfare.matching.batch import Piece, Values
from fieldfare.matching.vocabulary import slots_of_members, vocabulary_of
from fieldfare.model import Section


def test_integers_beyond_floats_are_exact() -> None:
    integers = [sign * (2**53 + off) for sign in (1, -1) for off in (-1, 0, 1, 2, 3)] + [2**63 - 1, -(2**63)]
    vocabulary, slots = vocabulary_of(
        [MemberColumn(np.arange(len(integers), dtype=np.int32), Cuts.of([(Section.NUMBER, each) for each in integers]))]
    )
    members = [Piece(Section.NUMBER, None, Values(np.array(integers)))]
    assert slots_of_members(vocabulary, 0, members, len(integers)).tolist() == slots.tolist()
    assert len(set(slots.tolist())) == len(integers)
