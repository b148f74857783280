"""How regions are written as rows of floats (see regions.py): what needs no kernel, which take long to load."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

COVERS, CONTAINS, NEARER, AT_MOST = 0.0, 1.0, 2.0, 3.0  # kinds: polygon with, without its boundary; circle `<`, `<=`

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
