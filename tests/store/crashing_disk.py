"""A disk that may stop at any moment: it watches a log being written, and shows what each crash would leave.

When a process is killed, all that it wrote is there. When the power fails, only what was flushed is certain: of the
rest, later bytes may be there without earlier ones, and names may be there or not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pytest

from fieldfare import durable

Contents: TypeAlias = tuple[tuple[str, bytes], ...]  # of a folder, by name


class CrashingDisk:
    """Each state of the folder that a crash may leave, with how much was promised to be in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.promised = 0
        self.states: set[tuple[int, Contents]] = set()
        self._folder = folder
        self._flushed = {path.name: path.read_bytes() for path in folder.iterdir()}  # what names and files are sure of
        self._data = dict(self._flushed)  # what is sure of each file, under the name that it has now
        self._watch(monkeypatch)

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write_all, flush_folder = durable.write_all, durable.flush_folder
        flush_data, flush_file = durable.flush_data, durable.flush_file
        rename, unlink = Path.rename, Path.unlink

        def written(descriptor: int, data: bytes) -> None:
            for byte in data:
                self.crash()
                write_all(descriptor, bytes([byte]))
            self.crash()

        def data_flushed(descriptor: int) -> None:
            self.crash()
            flush_data(descriptor)
            remember(descriptor)
            self.crash()

        def file_flushed(file: BinaryIO | int) -> None:
            self.crash()
            flush_file(file)
            remember(file if isinstance(file, int) else file.fileno())
            self.crash()

        def remember(descriptor: int) -> None:
            path = self._path_of(descriptor)
            self._data[path.name] = path.read_bytes()
            if path.name in self._flushed:
                self._flushed[path.name] = self._data[path.name]

        def folder_flushed(folder: Path) -> None:
            self.crash()
            flush_folder(folder)
            if folder == self._folder:
                self._flushed = dict(self._data)
            self.crash()

        def renamed(source: Path, target: Path) -> Path:
            self.crash()
            self._data[target.name] = self._data.pop(source.name, b"")
            moved = rename(source, target)
            self.crash()
            return moved

        def unlinked(path: Path, missing_ok: bool = False) -> None:
            self.crash()
            self._data.pop(path.name, None)
            unlink(path, missing_ok=missing_ok)
            self.crash()

        monkeypatch.setattr(durable, "write_all", written)
        monkeypatch.setattr(durable, "flush_data", data_flushed)
        monkeypatch.setattr(durable, "flush_file", file_flushed)
        monkeypatch.setattr(durable, "flush_folder", folder_flushed)
        monkeypatch.setattr(Path, "rename", renamed)
        monkeypatch.setattr(Path, "unlink", unlinked)

    def _path_of(self, descriptor: int) -> Path:
        number = os.fstat(descriptor).st_ino
        return next(path for path in self._folder.iterdir() if path.stat().st_ino == number)

    def crash(self) -> None:
        for state in self._leftovers():
            self.states.add((self.promised, tuple(sorted(state.items()))))

    def _leftovers(self) -> Iterator[dict[str, bytes]]:
        now = {path.name: path.read_bytes() for path in self._folder.iterdir()}
        yield now
        yield self._flushed
        for name in self._flushed.keys() - now.keys():
            yield now | {name: self._flushed[name]}
        sure = {name: self._data.get(name, b"") for name in now}
        yield sure
        yield {name: sure[name].ljust(len(data), b"\0") for name, data in now.items()}
        # The first page that was not flushed is missing, later ones are there.
        yield {name: _with_hole(data, len(sure[name])) for name, data in now.items()}


def _with_hole(data: bytes, sure: int, size: int = 40) -> bytes:
    hole = min(size, len(data) - sure)
    return data[:sure] + bytes(max(hole, 0)) + data[sure + size :]


def without_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushes cost time, and while no crash comes they show nothing."""
    monkeypatch.setattr(durable, "flush_data", lambda _: None)
    monkeypatch.setattr(durable, "flush_folder", lambda _: None)
