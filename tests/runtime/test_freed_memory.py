from __future__ import annotations

import subprocess
import sys

import pytest
from tests.runtime.processes import environment

PROGRAM = """
import resource, sys
from fieldfare.runtime.freed_memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    print("cannot")
    sys.exit()
for _ in range(50):
    blocks = [b"x" * 200_000 for _ in range(20)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def test_memory_that_was_freed_is_used_again() -> None:
    def page_faults(how: str) -> str:
        command = [sys.executable, "-c", PROGRAM, how]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment()).stdout.strip()

    kept = page_faults("keep")
    if kept == "cannot":
        pytest.skip("only glibc can be told")
    assert int(page_faults("default")) > 2 * int(kept)
