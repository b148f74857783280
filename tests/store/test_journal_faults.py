"""The log on disks that are full or failing, and in the hands of another process."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.journal_records import cursor, events, opened, read, read_all, recovered

from fieldfare.errors import JournalError, JournalFailedError, JournalFullError
from fieldfare.messages import EDGE_RECORDS, Record
from fieldfare.store.journal import Journal, JournalOptions

LARGE = b"x" * 50_000


def fill(journal: Journal[Record]) -> int:
    """Append until there is no space; how many records were taken."""
    for count in range(1_000):
        try:
            journal.append([events(count, payload=LARGE)], sync=True)
        except JournalFullError as error:
            assert "nothing was written" in str(error)  # noqa: PT017 - the test is what comes after
            return count
    pytest.fail("the disk is not full")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run([umount, disk], check=True)


@pytest.mark.parametrize("segment_bytes", [120_000, 10_000_000])
def test_a_full_disk_refuses_and_goes_on_when_space_is_back(small_disk: Path, segment_bytes: int) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    journal, _ = opened(small_disk / "log", JournalOptions(segment_bytes=segment_bytes))
    with journal:
        count = fill(journal)
        assert count > 5
        size = journal.size_bytes
        (small_disk / "rest").write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096))
        with pytest.raises(JournalFullError):
            journal.append([events(count, payload=LARGE), cursor(1)], sync=True)
        with pytest.raises(JournalFullError):
            journal.checkpoint([events(0, payload=LARGE)])
        assert not list((small_disk / "log").glob("*.tmp"))
        assert journal.size_bytes == size
        assert journal.last_position == count - 1
        assert len(read_all(journal, "news")) == count

        ballast.unlink()
        journal.append([events(count, payload=LARGE)], sync=True)
        journal.checkpoint([cursor(count)])
        journal.append([cursor(count + 1)], sync=True)
        assert len(read_all(journal, "news")) == count + 1
    assert recovered(small_disk / "log") == [cursor(count), cursor(count + 1)]


def test_a_write_that_ends_early_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As near the end of a disk: a part is taken, and the rest is refused."""
    journal, _ = opened(tmp_path)
    with journal:
        journal.append([cursor(1)], sync=False)
        room = 100
        write = os.write

        def short(file: int, data: memoryview) -> int:
            nonlocal room
            if not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            taken = write(file, data[:room])
            room -= taken
            return taken

        with monkeypatch.context() as full:
            full.setattr(os, "write", short)
            with pytest.raises(JournalFullError):
                journal.append([cursor(2), cursor(3), events(4, 100)], sync=True)
        assert room == 0
        assert recovered_copy(tmp_path) == [cursor(1)]
        journal.append([cursor(5)], sync=True)
    assert recovered(tmp_path) == [cursor(1), cursor(5)]


def recovered_copy(folder: Path) -> list[Record]:
    """What would be recovered now, while the log is open."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    try:
        return recovered(copy)
    finally:
        shutil.rmtree(copy)


def test_a_write_error_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, _ = opened(tmp_path)
    with journal:
        journal.append([cursor(1)], sync=True)

        def broken(*_: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as failing:
            failing.setattr(os, "write", broken)
            with pytest.raises(JournalFailedError, match="Input/output error"):
                journal.append([cursor(2)], sync=True)
        with pytest.raises(JournalFailedError, match="Input/output error"):
            journal.append([cursor(3)], sync=False)
        with pytest.raises(JournalFailedError, match="Input/output error"):
            journal.checkpoint([])
    assert recovered(tmp_path) == [cursor(1)]


def run(script: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own; the log is in `folder`."""
    preamble = "import sys; from pathlib import Path; folder = Path(sys.argv[1])\n"
    preamble += (
        "from fieldfare.errors import *; from fieldfare.messages import *; from fieldfare.store.journal import *\n"
    )
    return subprocess.run(
        [*command, sys.executable, "-c", preamble + script, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_limit_on_the_size_of_files_refuses_like_a_full_disk(tmp_path: Path) -> None:
    done = run(
        """
import resource, signal
journal = Journal(folder, EDGE_RECORDS); list(journal.recover())
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
journal.append([CursorsMoved("acme", {"s": 1})], sync=True)
try:
    journal.append([DeadLetter("acme", "s", 0.0, "", [bytes(2000)])], sync=True)
except JournalFullError:
    print("refused", sum(path.stat().st_size for path in folder.iterdir()) == journal.size_bytes)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
journal.append([CursorsMoved("acme", {"s": 2})], sync=True)
""",
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, "refused True\n"), done.stderr
    assert recovered(tmp_path) == [cursor(1), cursor(2)]


APPENDING = """
journal = Journal(folder, EDGE_RECORDS); list(journal.recover())
for number in range(6):
    try:
        journal.append([CursorsMoved("acme", {"s": number})], sync=number != 4)
        if number == 2:
            journal.checkpoint([CursorsMoved("acme", {"s": n}) for n in range(3)])
    except JournalError as error:
        print(number, type(error).__name__, error)
    else:
        print(number, "stored", flush=True)
"""


@pytest.mark.skipif(
    shutil.which("strace") is None and "CI" not in os.environ,
    reason="a flush can be made to fail only by strace (Debian, Ubuntu: apt install strace)",
)
@pytest.mark.parametrize(
    ("fault", "first_failed"),
    [
        # The first one is of the new segment; after that, each append has one.
        ("fdatasync:error=EIO:when=3", 1),
        ("fdatasync:error=ENOSPC:when=3", 1),  # some file systems find out so late; what was written may be gone
        ("fdatasync:error=EIO:when=5", 2),  # of the checkpoint
        ("fsync:error=EIO:when=2", 2),  # of the folder, for the checkpoint's name
    ],
)
def test_a_failed_flush_is_final(tmp_path: Path, fault: str, first_failed: int) -> None:
    log = tmp_path / "log"
    log.mkdir()
    done = run(APPENDING, log, "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:first_failed] == [f"{number} stored" for number in range(first_failed)]
    for number, line in enumerate(lines[first_failed:], first_failed):
        assert re.match(
            rf"{number} JournalFailedError .*: cannot be flushed: .*; check the disk, then start again", line
        )
    possible: list[list[Record]] = [[cursor(number) for number in range(count)] for count in range(first_failed, 6)]
    assert recovered(log) in possible


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "log")
    script = "try:\n    Journal(folder, EDGE_RECORDS)\nexcept JournalError as error:\n    print(error)"
    with journal:
        with pytest.raises(JournalError, match="another process has this log: stop it, or use another folder"):
            Journal(tmp_path / "log", EDGE_RECORDS)
        assert "another process has this log" in run(script, tmp_path / "log").stdout
    assert run(script, tmp_path / "log").stdout == ""


def test_what_was_written_survives_the_kill_of_its_process(tmp_path: Path) -> None:
    script = """
import os, signal
journal = Journal(folder, EDGE_RECORDS); list(journal.recover())
journal.append([CursorsMoved("acme", {"s": 1})], sync=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run(script, tmp_path).returncode == -9
    assert recovered(tmp_path) == [cursor(1)]


def test_a_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="check the disk and the rights"):
        Journal(tmp_path / "file" / "log", EDGE_RECORDS)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    journal, _ = opened(tmp_path / "a" / "log")
    with journal:
        journal.checkpoint([])
        assert read(journal, "news", -1) == ([], -1, True, -1, -1)
    assert (tmp_path / "a" / "log").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "a" / "log").iterdir()} == {0o600}
