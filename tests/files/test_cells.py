from __future__ import annotations

import datetime
import math

import pytest

from fieldfare.files.cells import cell_value
from fieldfare.files.lines import RowError


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("9007199254740993", 9007199254740993),
        ("1.50", 1.5),
        (".5", 0.5),
        ("-2.", -2.0),
        ("1e3", 1000.0),
        ("-0.0", -0.0),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("2024-02-29", datetime.date(2024, 2, 29)),
        ("2024-02-29 10:30", datetime.datetime(2024, 2, 29, 10, 30)),  # noqa: DTZ001 - no zone is what it says
        ("2024-02-29T10:30:00Z", datetime.datetime(2024, 2, 29, 10, 30, tzinfo=datetime.UTC)),
        ("2024-02-29T10:30:00.5+0000", datetime.datetime(2024, 2, 29, 10, 30, 0, 500_000, tzinfo=datetime.UTC)),
    ],
)
def test_cells_that_are_more_than_text(cell: str, value: object) -> None:
    read = cell_value(cell)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "cell", ["007", "+1", "00", "-0", "1,5", "2024-02-30", "2024-2-1", "Nan", "tRue", "-", "1_000", "٣", " 1"]
)
def test_cells_that_stay_text(cell: str) -> None:
    assert cell_value(cell) == cell


def test_nan_is_a_number() -> None:
    assert math.isnan(float(cell_value("NaN")))  # type: ignore[arg-type]


def test_a_number_out_of_range_is_an_error() -> None:
    with pytest.raises(RowError, match="out of range"):
        cell_value("1e999")
