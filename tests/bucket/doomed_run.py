"""Runs that commit batches to an object store, one of which is killed in a phase of a commit. See `PHASES`.

As a program: the place, a file with its settings, a folder, and how many batches. It prints how the runs ended.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import IO

from tests.pipeline.output_runs import run_on

from fieldfare.kafka.address import read_settings
from fieldfare.pipeline.bucket.address import Bucket
from fieldfare.pipeline.bucket.objects import Objects
from fieldfare.pipeline.bucket.output import BucketOutput

PHASES = ("uploading", "uploaded", "committed")
_DOOMED_BATCH = 1


class Doomed(Objects):
    """The objects of a driver that is killed in a phase of the commit of one batch."""

    def __init__(self, bucket: Bucket, phase: str) -> None:
        super().__init__(bucket)
        self._phase = phase

    def upload(self, key: str, content: bytes | IO[bytes]) -> None:
        super().upload(key, content)
        if key.startswith(f"batch_id={_DOOMED_BATCH}/_quarantine"):
            self._die_in("uploading")

    def create(self, key: str, content: bytes) -> bool:
        if not key.startswith("_commits/") or int(key.rpartition("/")[2]) != _DOOMED_BATCH:
            return super().create(key, content)
        self._die_in("uploaded")
        is_created = super().create(key, content)
        self._die_in("committed")
        return is_created

    def _die_in(self, phase: str) -> None:
        if phase == self._phase:
            os.kill(os.getpid(), signal.SIGKILL)


def run(place: Bucket, folder: Path, batches: int, phase: str) -> None:
    """Commit batches from where the last run was, as Spark asks for them."""
    acknowledged = folder / "acknowledged"
    acknowledged.touch()
    output = BucketOutput(place, "owner", folder)
    output._objects = Doomed(place, phase)
    output.prepare()
    run_on(output, acknowledged, batches)


def main(url: str, settings: Path, folder: Path, batches: int) -> None:
    """For each phase a place below: a run that is killed in it, and then one that finishes."""
    for is_doomed in (True, False):
        children = []
        for phase in PHASES:
            (folder / phase).mkdir(parents=True, exist_ok=True)
            child = os.fork()  # what they import is imported once; obstore has threads, so nothing of it is used before
            if child == 0:
                place = Bucket(f"{url}/{phase}", read_settings(settings))
                run(place, folder / phase, batches, phase if is_doomed else "")
                os._exit(0)
            children.append(child)
        print(*(os.WTERMSIG(os.waitpid(child, 0)[1]) for child in children))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
