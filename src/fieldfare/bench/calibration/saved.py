"""Where measured costs are kept, and which machine they are of."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path

from fieldfare import __version__
from fieldfare.planning.costs import Costs, load_costs

_PARTS = ("numpy", "numba", "pyarrow", "pyspark")


def costs_file() -> Path:
    """In the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fieldfare" / "costs.json"


def saved_costs() -> Costs | None:
    """What was measured on this machine with these versions; None where nothing was, or on another."""
    file = costs_file()
    if not file.exists():
        return None
    costs = load_costs(file)
    is_of_here = costs.origin.machine == machine() and costs.origin.versions == versions()
    return costs if is_of_here else None


def machine() -> str:
    """The processor and how many cores there are."""
    return f"{_processor()}, {os.cpu_count()} cores"


def versions() -> str:
    """The versions of Fieldfare, of Python and of the libraries on which costs depend."""
    parts = [f"fieldfare {__version__}", f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    for name in _PARTS:
        try:
            parts.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(parts)


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
