"""What a CSV cell means. Each cell is read by itself, because events need no schema.

The reading loses nothing: what a number would not give back as it stands (007, +1) stays a string.
"""

from __future__ import annotations

import datetime
import math
import re
from functools import lru_cache

from fieldfare.files.lines import RowError

_integer = re.compile(r"0|-?[1-9][0-9]*")
_float = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")
_time = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_WORDS: dict[str, bool | float] = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    "nan": math.nan, "NaN": math.nan, "inf": math.inf, "Infinity": math.inf, "-inf": -math.inf, "-Infinity": -math.inf,
}  # fmt: skip
_DIGITS_MAX = 400  # no number of interest has more


def is_integer(cell: str) -> bool:
    """The cell is an integer, written as Python writes it."""
    return len(cell) <= _DIGITS_MAX and _integer.fullmatch(cell) is not None


@lru_cache(maxsize=65536)  # cells repeat: names, kinds, small numbers
def cell_value(cell: str) -> bool | int | float | str | datetime.date | datetime.datetime:
    """What a CSV cell says: an integer, a float, true or false, an ISO date or timestamp; else it is a string."""
    if cell[0] not in "0123456789+-." or len(cell) > _DIGITS_MAX:
        return _WORDS.get(cell, cell)
    if _integer.fullmatch(cell):
        return int(cell)
    if _float.fullmatch(cell):
        number = float(cell)
        if math.isinf(number):
            raise RowError(f"the number {cell} is out of range")
        return number
    if _time.fullmatch(cell):
        try:
            return datetime.date.fromisoformat(cell) if len(cell) == 10 else datetime.datetime.fromisoformat(cell)
        except ValueError:  # such as the 30th of February: it has the form, but is no date
            return cell
    return _WORDS.get(cell, cell)
