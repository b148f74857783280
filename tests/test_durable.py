"""What must be on the disk is flushed, in the right order; what fails leaves nothing behind."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from fieldfare import durable
from fieldfare.durable import NewFile, UnflushedError


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the disk, in words."""
    steps: list[str] = []
    rename, mkdir = os.rename, os.mkdir

    def flushed(descriptor: int) -> None:
        steps.append("flush a folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "flush a file")

    def renamed(source: Path, target: Path) -> None:
        rename(source, target)
        steps.append(f"rename to {Path(target).name}")

    def made(folder: Path, mode: int = 0o777) -> None:
        mkdir(folder, mode)
        steps.append(f"make {Path(folder).name}")

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "mkdir", made)
    return steps


def fail(*_: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_new_file_is_flushed_before_it_gets_its_name_and_its_folder_after(tmp_path: Path, steps: list[str]) -> None:
    with NewFile(tmp_path / "file") as stream:
        stream.write(b"content")
        assert not (tmp_path / "file").exists()
    assert steps == ["flush a file", "rename to file", "flush a folder"]
    assert (tmp_path / "file").read_bytes() == b"content"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_is_flushed_with_what_is_still_in_its_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    with (tmp_path / "file").open("wb") as stream:
        stream.write(b"content")
        durable.flush_file(stream)
        durable.flush_file(stream.fileno())
    assert sizes == [7, 7]


def test_a_new_file_replaces_another_and_has_the_mode_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with NewFile(path, 0o600) as stream:
        stream.write(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o600)


def test_what_is_discarded_or_fails_leaves_all_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), NewFile(path) as stream:
        stream.writelines([b"new", "no bytes"])  # type: ignore[list-item]
    for call in ("fsync", "rename"):
        with monkeypatch.context() as patched:
            patched.setattr(os, call, fail)
            with pytest.raises(OSError, match="Input/output error"), NewFile(path) as stream:
                stream.write(b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file": b"old"}


def test_a_file_that_was_never_opened_is_neither_made_nor_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    NewFile(path).commit()
    NewFile(path).discard()
    assert path.read_bytes() == b"old"


def test_folders_are_made_durably_one_in_the_other(tmp_path: Path, steps: list[str]) -> None:
    durable.make_folder(tmp_path / "a" / "b", 0o700)
    assert steps == ["make a", "flush a folder", "make b", "flush a folder"]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    durable.make_folder(tmp_path / "a" / "b")
    assert len(steps) == 4


def test_a_rename_whose_flush_fails_is_told_from_one_that_did_not_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(UnflushedError) as told:
            durable.rename(tmp_path / "a", tmp_path / "b")
    assert (told.value.errno, told.value.strerror) == (errno.EIO, os.strerror(errno.EIO))
    assert (tmp_path / "b").exists()
    with pytest.raises(FileNotFoundError):
        durable.rename(tmp_path / "a", tmp_path / "c")


def test_a_folder_that_cannot_be_opened_is_not_flushed(tmp_path: Path) -> None:
    with pytest.raises(UnflushedError):
        durable.flush_folder(tmp_path / "missing")


def test_all_is_written_though_the_system_takes_it_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        durable.write_all(descriptor, b"0123456789")
    finally:
        os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"0123456789"
