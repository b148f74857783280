"""The hash table of members against a dict of Python."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.boxes import Cuts, MemberColumn
from fieldfare.matching.batch import Piece, Texts, Values
from fieldfare.matching.index import Index
from fieldfare.matching.vocabulary import Vocabulary, slots_of_members, values_of, vocabulary_of
from fieldfare.model import Section

# Of all lengths around 8 bytes, up to which a cell has a value in itself, and many with the same start or end.
LETTERS = st.text("ab\0", max_size=3)
TEXTS = st.builds(lambda first, middle, last: first + "x" * middle + last, LETTERS, st.integers(0, 12), LETTERS)

VALUE = "abcdefghijkl"


def column(texts: list[str]) -> MemberColumn:
    cuts = Cuts.of([(Section.STRING, text.encode()) for text in texts])
    return MemberColumn(np.arange(len(texts), dtype=np.int32), cuts)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=40), min_size=1, max_size=3), st.lists(TEXTS, max_size=200))
@settings(max_examples=300)
def test_members_are_found_as_in_a_dict(asked: list[list[str]], looked_up: list[str]) -> None:
    vocabulary, slots = vocabulary_of([column(texts) for texts in asked])
    pairs = [(number, text) for number, texts in enumerate(asked) for text in texts]
    of_pair = dict(zip(pairs, slots.tolist(), strict=True))
    assert len(vocabulary) == len(of_pair)
    listed = values_of(vocabulary)
    assert all(listed[slot] == (number, Section.STRING, text.encode()) for (number, text), slot in of_pair.items())
    everything = looked_up + [text for _, text in pairs]
    members = [Piece(Section.STRING, None, Values(texts=Texts.of([text.encode() for text in everything])))]
    for number in range(len(asked)):
        found = slots_of_members(vocabulary, number, members, len(everything)).tolist()
        assert found == [of_pair.get((number, text), -1) for text in everything]


def test_a_number_is_no_text_of_the_same_bytes() -> None:
    bits = np.array([1.5]).tobytes().decode("latin-1")
    texts = [bits, bits + "x", "a" * 8, "a" * 9]
    vocabulary, slots = vocabulary_of([column(texts)])
    numbers = [
        Piece(Section.NUMBER, None, Values(np.frombuffer(text.encode("latin-1")[:8])))
        for text in texts
        if len(text.encode("latin-1")) >= 8
    ]
    assert [slots_of_members(vocabulary, 0, [piece], 1).tolist() for piece in numbers] == [[-1]] * len(numbers)
    both, _ = vocabulary_of(
        [MemberColumn(np.arange(2, dtype=np.int32), Cuts.of([(Section.NUMBER, 1.5), (Section.STRING, b"x")]))]
    )
    assert slots_of_members(both, 0, numbers[:1], 1).tolist() != [-1]
    assert sorted(slots.tolist()) == [0, 1, 2, 3]


def golden() -> tuple[Index, list[dict[str, Any]]]:
    """What format6 was saved of: posting lists, members that the tree asks for, boxes removed and added."""
    values = [f"'{VALUE[:length]}'" for length in range(len(VALUE) + 1)]
    values += ["5", "2.5", "9007199254740993", "TRUE", "TIMESTAMP '2024-01-01 00:00:00'"]
    conditions = [f"array_contains(tags, {value})" for value in values]
    conditions += [f"{first} AND {second}" for first, second in itertools.pairwise(conditions)]
    conditions += [f"array_contains(words(body), {value}) AND x > {at}" for at, value in enumerate(values[1:13])]
    conditions += [f"array_contains(tags, 'often') AND x BETWEEN {at % 20} AND {at % 20 + 2}" for at in range(300)]
    index = Index(dict(enumerate(conditions))).updated(
        {1000: "array_contains(others, 'abcdefgh')", 1001: "array_contains(tags, 'a')"}, remove=[1, 9, 40, 60, 100]
    )
    instant = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    tags = [[VALUE, 5], [5, 2.5], [2.5, 2**53 + 1], [2**53 + 1, True], [True, instant]]
    numbers: list[dict[str, Any]] = [{"tags": some} for some in tags]
    texts = [VALUE[:length] for length in range(len(VALUE) + 1)]
    pairs = [{"tags": list(pair), "others": list(pair)} for pair in itertools.pairwise([*texts, *texts])]
    bodies = [{"body": " ".join(texts), "x": x, "tags": ["often", "5"]} for x in range(25)]
    return index, [*numbers, *pairs, *bodies, {"tags": ["abcdefgX", "abcdefghX"]}, {}]


def test_integers_beyond_floats_are_exact() -> None:
    integers = [sign * (2**53 + off) for sign in (1, -1) for off in (-1, 0, 1, 2, 3)] + [2**63 - 1, -(2**63)]
    vocabulary, slots = vocabulary_of(
        [MemberColumn(np.arange(len(integers), dtype=np.int32), Cuts.of([(Section.NUMBER, each) for each in integers]))]
    )
    members = [Piece(Section.NUMBER, None, Values(np.array(integers)))]
    assert slots_of_members(vocabulary, 0, members, len(integers)).tolist() == slots.tolist()
    assert len(set(slots.tolist())) == len(integers)


def test_a_snapshot_of_the_format_before_is_read() -> None:
    index, events = golden()
    loaded = Index.load(Path(__file__).parent / "format6")
    expected = index.match_rows(events)
    assert loaded.match_rows(events) == expected
    assert loaded.compacted().match_rows(events) == index.compacted().match_rows(events)
    assert {number for found in expected.to_pylist() for number in found} == set(index.ids.to_pylist())


def test_a_long_value_is_compared_even_where_its_hash_is_the_same() -> None:
    vocabulary, _ = vocabulary_of([column(["abcdefghij"])])
    members = [Piece(Section.STRING, None, Values(texts=Texts.of([b"abcdefghij"])))]
    assert slots_of_members(vocabulary, 0, members, 1).tolist() == [0]
    for other in (b"abcdefghiX", b"abcdefghijk"):
        texts = Texts.of([other])
        of_same_hash = Vocabulary(texts.offsets, texts.data, vocabulary.kinds, vocabulary.cells)
        assert slots_of_members(of_same_hash, 0, members, 1).tolist() == [-1]
