"""Once a broker has started, merging boxes compiles nothing any more: a compilation would hold up all its clients."""

from __future__ import annotations

import subprocess
import sys

from tests.runtime.processes import environment

PROGRAM = """
from fieldfare.language import compile
from fieldfare.partitioning import box_groups, few_boxes
from fieldfare.overlay.covering import Covering

def compiled():
    kernels = {name: kernel for name, kernel in vars(box_groups).items() if hasattr(kernel, "signatures")}
    assert kernels
    return {name: set(kernel.signatures) for name, kernel in kernels.items()}

few_boxes.warm_up()
before = compiled()
texts = [f"number < {n} AND text = 'a{n}' AND decimal > {n / 7}" for n in range(40)]
texts += [f"number BETWEEN {n} AND {n + 3} AND flag" for n in range(40)] + [f"text > 'b{n}'" for n in range(40)]
assert len(Covering.of([compile(text) for text in texts], 8).condition.boxes) == 8
assert compiled() == before, (before, compiled())
"""


def test_all_kernels_are_compiled_by_then() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
