from __future__ import annotations

from pathlib import Path

import pytest

from fieldfare.errors import InputError
from fieldfare.files.lines import Line, RowError, text_lines


def read(path: Path) -> list[Line]:
    with path.open("rb") as stream:
        return list(text_lines(stream, path))


def test_json_lines_count_empty_lines_and_know_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n{"a": 2}')
    assert [(line.number, line.values) for line in read(path)] == [(1, {"a": 1}), (3, {"a": 2})]


def test_a_line_beyond_the_limit_is_one_bad_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fieldfare.files.lines.LINE_BYTES_MAX", 16)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"a": "' + b"x" * 100 + b'"}\n{"a": 2}\n')
    long, short = read(path)
    assert isinstance(long.values, RowError)
    assert (short.number, short.values) == (2, {"a": 2})


def test_csv_records_of_several_lines_keep_the_count(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('a,b\n1,"two\nlines"\n\n3,4\n')
    assert [(line.number, line.values) for line in read(path)] == [
        (2, {"a": "1", "b": "two\nlines"}),
        (5, {"a": "3", "b": "4"}),
    ]


def test_bad_csv_rows_do_not_stop_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b'a,b\n1\n\xff,2\n"x"y,3\n' + b"z" * 200_000 + b",4\n5,6\n")
    reasons = [str(line.values) for line in read(path)]
    assert [reason.split(":")[0] for reason in reasons[:4]] == [
        "1 cells where the header has 2",
        "not valid UTF-8",
        "not CSV",
        "not CSV",
    ]
    assert reasons[4] == "{'a': '5', 'b': '6'}"


@pytest.mark.parametrize("text", ["", "a,\n1,2\n", "a,a\n1,2\n", '"a\n'])
def test_a_header_that_names_no_columns_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(InputError):
        read(path)
