"""Real processes for fault tests: a pipeline as users start it, a standalone cluster, and what can be killed in them.

Everything starts in a session of its own, which all its descendants share: what is killed loses its children to
another parent, but they keep their session, so none of them can be missed at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import fieldfare

DEADLINE_SECONDS = 240.0  # for anything that is waited for: a busy machine is no fault of the pipeline
_SOURCES = Path(fieldfare.__file__).parents[1]


def wait_until(is_so: Callable[[], object], what: str, seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"this did not happen in {seconds:.0f} s: {what}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Process:
    """A running process, as the system shows it."""

    pid: int
    parent: int
    session: int
    command: str

    @property
    def is_jvm(self) -> bool:
        return Path(self.command.partition(" ")[0]).name == "java"

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, by)


def processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has just ended
                state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if state != "Z":
                    yield Process(int(entry.name), int(parent), int(session), command)


def users_of(folder: Path) -> list[Process]:
    """The processes that name a folder in their command or in their environment, where TMPDIR is set to it."""
    name = os.fsencode(folder)
    found = []
    for process in processes():
        with suppress(OSError):
            texts = [(Path("/proc") / str(process.pid) / file).read_bytes() for file in ("cmdline", "environ")]
            if process.pid != os.getpid() and any(name in text for text in texts):
                found.append(process)
    return found


def environment(folder: Path) -> dict[str, str]:
    """An environment in which all that is temporary is below a folder, and Spark opens no port but on this machine."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ,
        "JDK_JAVA_OPTIONS": f"{os.environ['JDK_JAVA_OPTIONS']} -Djava.io.tmpdir={temporary}",  # conftest.py has set it
        "PYTHONPATH": os.pathsep.join([str(_SOURCES), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(temporary),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": "-Dspark.ui.enabled=false -Dspark.log.level=WARN",
        "TMPDIR": str(temporary),
    }


@dataclass
class Running:
    """A command in a session of its own, with its output in a file."""

    command: list[str]
    folder: Path
    log: Path
    popen: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env=environment(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def members(self) -> list[Process]:
        return [process for process in processes() if process.session == self.popen.pid]

    def jvm(self) -> Process:
        """The driver's JVM. What it starts looks like a JVM too, between fork and exec, but a JVM is its parent."""
        jvms = {process.pid: process for process in self.members() if process.is_jvm}
        (first,) = (process for process in jvms.values() if process.parent not in jvms)
        return first

    def python_workers(self) -> list[Process]:
        """The processes that run tasks: forks of Spark's daemon."""
        daemons = {process.pid for process in self.members() if "pyspark.daemon" in process.command}
        return [process for process in self.members() if process.parent in daemons]

    def finish(self) -> int:
        """Ask it to end, and wait for that."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(DEADLINE_SECONDS)

    def kill(self) -> None:
        """End the process as a fault does; what it started lives on until it notices."""
        self.popen.kill()
        self.popen.wait()

    def kill_all(self) -> None:
        """End it and all that it started."""
        self.kill()
        while members := self.members():
            for process in members:
                process.kill()
            time.sleep(0.01)


@dataclass(frozen=True)
class Cluster:
    """A standalone master and its two workers, each with one core."""

    master: str
    workers: tuple[Running, ...]

    def executors(self) -> list[Process]:
        """Those that have run tasks: one that has just started does not count."""
        members = [process for worker in self.workers for process in worker.members()]
        at_work = {process.parent for process in members if "pyspark.daemon" in process.command}
        return [process for process in members if process.is_jvm and process.pid in at_work]


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    daemon = "org.apache.spark.deploy"
    started: list[Running] = []

    def start(name: str, *arguments: str) -> Running:
        command = [spark_class, f"{daemon}.{arguments[0]}", "--host", "127.0.0.1", "--port", "0", *arguments[1:]]
        started.append(Running(command, folder, folder / f"{name}.log"))
        return started[-1]

    try:
        master = start("master", "master.Master", "--webui-port", "0")
        address = "Starting Spark master at "
        wait_until(lambda: address in master.said, "a master starts")
        url = master.said.partition(address)[2].split()[0]
        work = ["--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), url]
        workers = tuple(start(f"worker{number}", "worker.Worker", *work) for number in range(2))
        for worker in workers:
            wait_until(lambda worker=worker: "registered with master" in worker.said, "a worker starts")  # type: ignore[misc]
        yield Cluster(url, workers)
    finally:
        for running in reversed(started):
            running.kill_all()
