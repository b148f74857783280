"""Runs first in every Python process that the tests start, where this folder is on the PYTHONPATH.

Spark gives its Python processes PySpark as a zip of sources, which each of them compiles anew, for half a second and
more. The same PySpark is installed beside it, compiled: take that.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:] = [entry for entry in sys.path if Path(entry).parent.parts[-3:] != ("pyspark", "python", "lib")]
