"""Fieldfare's own commands as processes of a demo: started until they say that they are ready, and killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fieldfare.errors import FieldfareError


@dataclass(slots=True)
class Program:
    """A process. `said` is what it printed when it was ready, and `seconds` how long that took."""

    process: subprocess.Popen[str]
    said: str
    seconds: float

    @classmethod
    async def start(cls, arguments: list[str], log: Path, **settings: str) -> Self:
        """Start a `fieldfare` command in the folder of its log, where no settings of whoever watches the demo are."""
        began = time.monotonic()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FIELDFARE_")}
        with log.open("a") as file:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own command
                [sys.executable, "-m", "fieldfare", *arguments],
                cwd=log.parent,  # --data and the like are below it
                env=kept | settings,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        program = cls(process, "", 0.0)
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            program.said = (await asyncio.to_thread(process.stdout.readline)).strip()
            if not program.said:
                raise FieldfareError(f"`fieldfare {arguments[0]}` did not start; see {log}")
        except BaseException:
            program.kill()
            raise
        program.seconds = time.monotonic() - began
        return program

    @property
    def url(self) -> str:
        """Where clients connect: the last word that it said."""
        return self.said.split()[-1].rstrip(".")

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
