from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldfare.errors import EventError, OutputError
from fieldfare.matching.index import Index
from fieldfare.pipeline import writer as writer_module
from fieldfare.pipeline.output import EventWriter, WriteOptions, WrittenFile
from fieldfare.pipeline.writer import Compression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]
Lists = list[list[Any]]

EVENTS = pa.schema([("price", pa.float64()), ("symbol", pa.string()), ("range", pa.struct([("low", pa.int64())]))])
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)
DICTIONARY = [f"subscriber-{number}" for number in range(50)]


def written(
    folder: Path, batches: list[tuple[pa.RecordBatch, pa.ListArray]], options: WriteOptions
) -> WrittenFile | None:
    with EventWriter(folder, options) as writer:
        for events, ids in batches:
            writer.write(events, ids)
        return writer.close()


def read(file: WrittenFile | None) -> Rows:
    rows: Rows = pq.ParquetFile(file.path).read().to_pylist() if file else []
    return rows


def oracle(batches: list[tuple[Rows, Lists]], options: WriteOptions) -> Rows:
    rows = []
    for events, lists in batches:
        for event, ids in zip(events, lists, strict=True):
            stored = [str(number) for number in ids] if options.string_ids else ids
            if options.explode:
                rows += [event | {"subscription_id": subscription_id} for subscription_id in stored]
            elif stored or not options.only_matched:
                rows.append(event | {"subscription_ids": stored})
    return rows


def integer_lists(lists: Lists) -> pa.ListArray:
    return pa.array(lists, pa.list_(pa.int64()))


def shared_dictionary_lists(lists: Lists) -> pa.ListArray:
    """As an index gives them: places in a dictionary that is larger than what is used."""
    flat = pa.array([DICTIONARY.index(text) for ids in lists for text in ids], pa.int32())
    values = pa.DictionaryArray.from_arrays(flat, pa.array(DICTIONARY, pa.large_string()))
    return pa.ListArray.from_arrays(integer_lists([[0] * len(ids) for ids in lists]).offsets, values)


def batches_of(ids: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Rows, Lists]]]:
    event = st.fixed_dictionaries(
        {
            "price": st.none() | st.floats(allow_nan=False),
            "symbol": st.none() | st.text(max_size=3),
            "range": st.none() | st.fixed_dictionaries({"low": st.none() | st.integers(-9, 9)}),
        }
    )
    rows = st.lists(st.tuples(event, st.lists(ids, max_size=5)), max_size=8)
    batch = rows.map(lambda pairs: ([event for event, _ in pairs], [ids for _, ids in pairs]))
    return st.lists(batch, max_size=4)


options = st.builds(
    WriteOptions,
    explode=st.booleans(),
    only_matched=st.booleans(),
    compression=st.sampled_from(COMPRESSIONS),
    row_group_bytes=st.sampled_from([1, 200, 1 << 20]),
)
int64 = st.integers(-(2**63), 2**63 - 1)


def check(folder: Path, batches: list[tuple[Rows, Lists]], arrays: list[pa.ListArray], options: WriteOptions) -> None:
    """Write slices of larger arrays, as a caller may have them, and compare with the oracle."""
    sliced = []
    for (events, lists), array in zip(batches, arrays, strict=True):
        surplus = {"price": 0.0, "symbol": "surplus", "range": None}
        table = pa.RecordBatch.from_pylist([surplus, *events, surplus], EVENTS)
        sliced.append((table.slice(1, len(events)), array.slice(1, len(lists))))
    file = written(folder, sliced, options)
    expected = oracle(batches, options)
    assert read(file) == expected
    if file is None:
        assert not expected
        assert not list(folder.iterdir())
        return
    assert file.rows == len(expected)
    assert file.matches == sum(len(ids) for _, lists in batches for ids in lists)
    assert file.nbytes == Path(file.path).stat().st_size
    Path(file.path).unlink()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stage")


@settings(deadline=None)  # files are made durable
@given(batches_of(int64), options, st.sampled_from([1, 3, 1_000_000]))
def test_integer_ids_are_written_as_the_oracle_says(
    folder: Path, batches: list[tuple[Rows, Lists]], options: WriteOptions, pairs: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module, "_EXPLODED_PAIRS", pairs)
        check(folder, batches, [integer_lists([[1, 2], *lists, [3]]) for _, lists in batches], options)


@settings(deadline=None)  # files are made durable
@given(batches_of(st.sampled_from(DICTIONARY[5:])), options, st.booleans())
def test_string_ids_are_written_as_the_oracle_says(
    folder: Path, batches: list[tuple[Rows, Lists]], options: WriteOptions, plain: bool
) -> None:
    arrays = [shared_dictionary_lists([DICTIONARY[:2], *lists, DICTIONARY[:1]]) for _, lists in batches]
    if plain:
        arrays = [array.cast(pa.list_(pa.string())) for array in arrays]
    with_strings = WriteOptions(
        options.explode, options.only_matched, string_ids=True, row_group_bytes=options.row_group_bytes
    )
    check(folder, batches, arrays, with_strings)


@settings(deadline=None)  # files are made durable
@given(batches_of(int64))
def test_integer_ids_become_strings_where_the_output_has_strings(
    folder: Path, batches: list[tuple[Rows, Lists]]
) -> None:
    arrays = [integer_lists([[1], *lists, [2]]) for _, lists in batches]
    check(folder, batches, arrays, WriteOptions(string_ids=True))


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize("string_ids", [False, True])
def test_every_reader_reads_every_kind_of_file(
    tmp_path: Path, spark: SparkSession, explode: bool, string_ids: bool
) -> None:
    names: list[Any] = [f"subscriber-{number}" if string_ids else number * 10**15 for number in range(40)]
    index = Index({name: f"price >= {number}" for number, name in enumerate(names)})
    prices = [float(number % 41) for number in range(500)]
    events = pa.record_batch({"price": prices, "symbol": ["A", None] * 250})
    for compression in COMPRESSIONS:
        options = WriteOptions(explode, string_ids=string_ids, compression=compression)
        file = written(tmp_path, [(events, index.match_table(events))], options)
        assert file is not None
        Path(file.path).rename(tmp_path / f"{compression}.parquet")
    pairs = sorted((price, name) for price in prices for number, name in enumerate(names) if price >= number)
    expected = sorted(pairs * len(COMPRESSIONS))
    column = "subscription_id" if explode else "explode(subscription_ids)"
    by_spark = spark.read.parquet(str(tmp_path)).selectExpr("price", column).collect()
    assert sorted(tuple(row) for row in by_spark) == expected
    column = "subscription_id" if explode else "unnest(subscription_ids)"
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(tmp_path / "*.parquet"))
        assert sorted(relation.project(f"price, {column}").fetchall()) == expected


def test_lists_and_ids_are_never_null_and_have_plain_types(tmp_path: Path) -> None:
    events = pa.record_batch({"price": [1.0]})
    file = written(tmp_path, [(events, shared_dictionary_lists([[DICTIONARY[3]]]))], WriteOptions(string_ids=True))
    assert file is not None
    field = pq.ParquetFile(file.path).schema_arrow.field("subscription_ids")
    assert field.equals(pa.field("subscription_ids", pa.list_(pa.field("element", pa.string(), False)), False))


def test_a_dictionary_holds_only_what_is_used(tmp_path: Path) -> None:
    ids = pa.array([f"{number:050d}" for number in range(20_000)], pa.large_string())
    values = pa.DictionaryArray.from_arrays(pa.array([19_999, 3, 3], pa.int32()), ids)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), values)
    events = pa.record_batch({"price": [1.0, 2.0]})
    file = written(tmp_path, [(events, lists)], WriteOptions(string_ids=True, compression="none"))
    assert file is not None
    assert file.nbytes < 5_000
    assert read(file)[0]["subscription_ids"] == [f"{19_999:050d}", f"{3:050d}"]


def test_small_batches_share_one_dictionary(tmp_path: Path) -> None:
    ids = pa.array([f"{number:050d}" for number in range(1_000)], pa.large_string())
    values = pa.DictionaryArray.from_arrays(
        pa.array([(number**2 + number // 200) % 997 for number in range(10_000)], pa.int32()), ids
    )
    lists = pa.ListArray.from_arrays(pa.array(range(0, 10_001, 20), pa.int32()), values)
    events = pa.record_batch({"price": [1.0] * 500})
    options = WriteOptions(string_ids=True, compression="none")
    whole = written(tmp_path, [(events, lists)], options)
    pieces = written(
        tmp_path, [(events.slice(start, 10), lists.slice(start, 10)) for start in range(0, 500, 10)], options
    )
    assert whole is not None
    assert pieces is not None
    assert read(pieces) == read(whole)
    assert pieces.nbytes < 1.5 * whole.nbytes


def test_row_groups_are_bounded_however_batches_come(tmp_path: Path) -> None:
    lists = integer_lists([list(range(100))] * 4_000)
    events = pa.record_batch({"price": [1.0] * 4_000})
    options = WriteOptions(row_group_bytes=400_000)
    whole = written(tmp_path, [(events, lists)], options)
    pieces = written(
        tmp_path, [(events.slice(start, 7), lists.slice(start, 7)) for start in range(0, 4_000, 7)], options
    )
    for file in (whole, pieces):
        assert file is not None
        metadata = pq.ParquetFile(file.path).metadata
        sizes = [metadata.row_group(number).num_rows * 800 for number in range(metadata.num_row_groups)]
        assert sum(sizes) == 4_000 * 800
        assert max(sizes) <= 2 * options.row_group_bytes
        assert min(sizes[:-1]) >= options.row_group_bytes * 0.9


def test_every_attempt_has_a_file_of_its_own(tmp_path: Path) -> None:
    batch = pa.record_batch({"price": [1.0]}), integer_lists([[1]])
    first, second = (written(tmp_path, [batch], WriteOptions()) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.path != second.path


@pytest.mark.parametrize("name", ["batch_id", "subscription_ids", "subscription_id", "Batch_Id"])
def test_an_event_cannot_have_the_outputs_own_columns(tmp_path: Path, name: str) -> None:
    with pytest.raises(EventError, match="rename"):
        written(tmp_path, [(pa.record_batch({name: [1]}), integer_lists([[1]]))], WriteOptions())


def test_strings_are_refused_where_the_output_has_integers(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="another output folder"):
        written(tmp_path, [(pa.record_batch({"a": [1]}), shared_dictionary_lists([DICTIONARY[:1]]))], WriteOptions())


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    batch = pa.record_batch({"price": [1.0]}), integer_lists([[1]])
    found_during: list[Path] = []

    def fail() -> None:
        with EventWriter(tmp_path, WriteOptions(row_group_bytes=1)) as writer:
            writer.write(*batch)
            found_during.extend(tmp_path.iterdir())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert found_during
    assert not list(tmp_path.iterdir())


def test_a_change_of_columns_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    first = pa.record_batch({"price": [1.0]}), integer_lists([[1]])
    second = pa.record_batch({"price": ["one"]}), integer_lists([[1]])
    with pytest.raises(ValueError, match="schema"):
        written(tmp_path, [first, second], WriteOptions(row_group_bytes=1))
    assert not list(tmp_path.iterdir())
