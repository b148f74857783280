"""An output in an object store, against a real one: each batch is there once, whatever else is there."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow.dataset
import pytest
from tests.bucket.object_store import SECRET_KEY, ObjectStoreServer
from tests.pipeline.output_runs import FAULT, FILES, expected_numbers, run_batch, write_file

from fieldfare.errors import BucketError, InputError, OutputError
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.bucket.output import BucketOutput, commits
from fieldfare.pipeline.committed import committed_files, read_output
from fieldfare.pipeline.output import WriteOptions
from fieldfare.pipeline.secrets import without_secrets


@pytest.fixture
def place(object_store: ObjectStoreServer) -> Bucket:
    return object_store.place()


def opened(place: Bucket, state: Path, owner: str = "owner", *, explode: bool = False) -> BucketOutput:
    output = BucketOutput(place, owner, state, explode=explode)
    output.prepare()
    return output


def found_numbers(place: Bucket, after: int = -1) -> dict[int, list[int]]:
    """What a reader finds: for each batch the numbers of its events, ascending."""
    found: dict[int, list[int]] = {}
    for row in read_output(place, after=after, columns=["number"]).read_all().to_pylist():
        found.setdefault(row["batch_id"], []).append(row["number"])
    return {batch_id: sorted(numbers) for batch_id, numbers in found.items()}


def test_readers_see_committed_batches_once(place: Bucket, tmp_path: Path) -> None:
    assert read_output(place).read_all().num_rows == 0
    output = opened(place, tmp_path)
    for batch_id in range(3):
        run_batch(output, batch_id)
        assert output.is_committed(batch_id)
    again = opened(place, tmp_path)
    again.commit(2, [write_file(again.stage(2), 2, 0, again.task_options(WriteOptions()))])  # a replay that is late
    write_file(again.stage(3), 3, 0, again.task_options(WriteOptions()))  # and one that is not committed
    assert found_numbers(place) == expected_numbers(3)
    assert found_numbers(place, after=1) == {2: expected_numbers(3)[2]}
    rows = read_output(place).read_all().to_pylist()
    assert all(row["subscription_ids"] == list(range(row["number"] % 4)) for row in rows)
    assert len(committed_files(place)) == 3 * FILES
    # What others left of a batch goes when it is committed; what is not committed stays, and is not seen.
    parquet = [found.key for found in Objects(place).below() if found.key.endswith(".parquet")]
    assert len(parquet) == 3 * FILES + 1
    assert [commit.quarantined for commit in commits(place)] == [1, 1, 1]
    buried = Objects(place).read(next(commits(place)).quarantine or "")
    assert FAULT.reason.encode() in (buried or b"")


def test_a_commit_by_another_driver_of_the_checkpoint_is_adopted(place: Bucket, tmp_path: Path) -> None:
    first, second = opened(place, tmp_path), opened(place, tmp_path)
    files = {
        output: [write_file(output.stage(0), 0, file, output.task_options(WriteOptions())) for file in range(FILES)]
        for output in (first, second)
    }
    together = threading.Barrier(2)

    def commit(output: BucketOutput) -> None:
        together.wait()
        output.commit(0, files[output])

    drivers = [threading.Thread(target=commit, args=(output,)) for output in (first, second)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert first.is_committed(0)
    assert second.is_committed(0)
    assert found_numbers(place) == expected_numbers(1)


def test_a_driver_on_a_copy_of_the_checkpoint_ends(place: Bucket, tmp_path: Path) -> None:
    first, copy = opened(place, tmp_path / "state"), opened(place, tmp_path / "copy")
    files = [write_file(copy.stage(0), 0, file, copy.task_options(WriteOptions())) for file in range(FILES)]
    run_batch(first, 0)
    with pytest.raises(BucketError, match="not the one that this checkpoint has begun"):
        copy.commit(0, files)
    with pytest.raises(BucketError, match="old copy"):
        copy.is_committed(0)
    run_batch(first, 1)
    assert found_numbers(place) == expected_numbers(2)


def test_the_output_of_another_checkpoint_is_refused(place: Bucket, tmp_path: Path) -> None:
    opened(place, tmp_path)
    with pytest.raises(OutputError, match="another checkpoint"):
        opened(place, tmp_path, "another")
    with pytest.raises(OutputError, match="one row per event"):
        opened(place, tmp_path, explode=True)


def test_a_place_with_something_else_is_refused(object_store: ObjectStoreServer, tmp_path: Path) -> None:
    place = object_store.place()
    Objects(place).upload("holiday.jpg", b"...")
    with pytest.raises(OutputError, match=r"holiday\.jpg"):
        opened(place, tmp_path)


def test_a_store_without_conditional_puts_is_refused(
    place: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create(objects: Objects, key: str, content: bytes) -> bool:
        objects.upload(key, content)
        return True

    monkeypatch.setattr(Objects, "create", create)
    with pytest.raises(BucketError, match="use another object store"):
        opened(place, tmp_path)


@pytest.mark.parametrize(
    ("url", "settings", "reason"),
    [
        ("s3://tests/x", {"aws_secret_access_key": f"{SECRET_KEY}!"}, "rights"),
        ("s3://no-such-bucket/x", {}, "name"),
        ("s3://tests/x", {"no_such_setting": SECRET_KEY}, "settings"),
    ],
)
def test_errors_say_what_to_do_and_no_secret(
    object_store: ObjectStoreServer, url: str, settings: dict[str, str], reason: str
) -> None:
    bucket = Bucket(url, object_store.settings | settings)
    with pytest.raises((BucketError, InputError), match=reason) as error:
        Objects(bucket).here()
    assert SECRET_KEY not in f"{error.value!r} {error.value.__context__} {bucket!r} {bucket}"


@pytest.mark.parametrize(
    "url", ["s3://key:secret@b/x", "s3://secret@b/x", "s3://", "abfss://c:secret@a/x", "s3://b/x?secret", "ftp://b/x"]
)
def test_an_address_that_cannot_be_used_is_not_repeated_with_its_secret(url: str) -> None:
    with pytest.raises(InputError, match="a place in an object store is") as error:
        Bucket(url)
    assert "secret" not in str(error.value)


def test_secrets_of_the_environment_are_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "canary-of-the-environment")
    assert "canary" not in without_secrets("it said canary-of-the-environment", {})


def test_a_folder_is_read_in_the_same_way(tmp_path: Path) -> None:
    from fieldfare.pipeline.output import OutputFolder

    output = OutputFolder(tmp_path / "out", "owner")
    output.prepare()
    for batch_id in range(2):
        run_batch(output, batch_id)
    table = read_output(tmp_path / "out", columns=["number"]).read_all()
    assert sorted(zip(table["batch_id"].to_pylist(), table["number"].to_pylist(), strict=True)) == [
        (batch_id, number) for batch_id, numbers in expected_numbers(2).items() for number in numbers
    ]
    assert pyarrow.dataset.dataset(committed_files(tmp_path / "out")).count_rows() == table.num_rows
