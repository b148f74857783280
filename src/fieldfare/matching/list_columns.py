"""The lists that an expression gives, for a batch of events: their members in columns, found once for a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fieldfare.language.kinds import text_of
from fieldfare.matching.batch import Batch, Piece, Texts, Values
from fieldfare.matching.column_functions import contents_of, results_of
from fieldfare.matching.list_evaluation import values_for
from fieldfare.matching.operands import Strings, chosen
from fieldfare.matching.words import words_in
from fieldfare.model import Attribute, Call, Derived, Section

Rows = npt.NDArray[np.int64]


class ListColumn(NamedTuple):
    """Some rows' lists: row rows[i] has list choice[i], whose members are members offsets[…] of the pieces."""

    rows: Rows | None  # ascending; None: all
    choice: Rows | None  # None: the list of the same number
    offsets: npt.NDArray[np.int64]
    pieces: Sequence[Piece]


class BatchLists(NamedTuple):
    """An expression's lists, and the rows where they may be anything, because an attribute is a range."""

    columns: Sequence[ListColumn]
    anything: Rows


def lists_of(axis: Derived, batch: Batch) -> BatchLists:
    """The lists of a batch, made once."""
    found = batch.lists.get(axis)
    if found is None:
        match axis.expression:
            case Attribute(name):
                found = _attribute(batch.columns.get(name, ()), batch.rows)
            case Call("words", (Attribute(name),)):
                found = _words(batch.columns.get(name, ()), batch.rows)
            case Call() as call:
                found = _called(call, batch)
            case _:
                found = BatchLists((), np.empty(0, np.int64))
        batch.lists[axis] = found
    return found


def _attribute(pieces: Sequence[Piece], rows: int) -> BatchLists:
    columns = [
        ListColumn(piece.rows, None, piece.lists.offsets, piece.lists.pieces)
        for piece in pieces
        if piece.lists is not None
    ]
    return BatchLists(columns, _ranged(pieces, rows))


def _words(pieces: Sequence[Piece], rows: int) -> BatchLists:
    columns = []
    for piece in pieces:
        if piece.high is None and piece.section is not Section.NAN:
            texts, codes, known = _texts(piece)
            offsets, words = words_in(texts)
            members = [Piece(Section.STRING, None, Values(texts=words))]
            columns.append(ListColumn(known, codes, offsets, members))
    return BatchLists(columns, _ranged(pieces, rows))


def _texts(piece: Piece) -> tuple[Texts, Rows | None, Rows | None]:
    """The texts of a piece's values, which of them each value is, and the rows that have a value."""
    if piece.low.texts is not None:
        codes = None if piece.low.codes is None else piece.low.codes.astype(np.int64)
        return piece.low.texts, codes, piece.rows
    operand = chosen(piece.section, piece.low, None, np.arange(len(piece.low.numbers)))
    known = np.flatnonzero(operand.known)
    contents = contents_of(operand)
    texts = Texts.of([text_of(piece.section, contents[place]).encode() for place in known.tolist()])
    rows = piece.rows if len(known) == len(contents) else known if piece.rows is None else piece.rows[known]
    return texts, None, rows


def _ranged(pieces: Sequence[Piece], rows: int) -> Rows:
    found = [np.arange(rows) if piece.rows is None else piece.rows for piece in pieces if piece.high is not None]
    return np.concatenate([np.empty(0, np.int64), *found])


def _called(call: Call, batch: Batch) -> BatchLists:
    values, uncertain = values_for(call, batch, np.arange(batch.rows))
    rows = [row for row, (_, content) in enumerate(values) if isinstance(content, tuple)]
    lists = [values[row][1] for row in rows]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(members) for members in lists], out=offsets[1:])
    pieces = list(_pieces([member for members in lists for member in members]))
    return BatchLists(
        [ListColumn(np.array(rows, np.int64), None, offsets, pieces)], np.flatnonzero(uncertain).astype(np.int64)
    )


def _pieces(members: Sequence[tuple[Section, object]]) -> Iterator[Piece]:
    for section, places, column in results_of(members):
        if section is not Section.NAN:
            values = Values(texts=column.texts) if isinstance(column, Strings) else Values(column)
            yield Piece(section, places, values)
