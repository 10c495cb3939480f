"""Arrays of dask over stored arrays, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np


def mapped(path: Path, chunks: Any) -> da.Array:
    """A file that is mapped into memory; `da.from_array` of newer releases would read all of it."""
    array = np.load(path, mmap_mode="r")
    name = f"mapped-{path}"
    graph = da.core.graph_from_arraylike(array, chunks, array.shape, name, dtype=array.dtype)
    return da.Array(graph, name, da.core.normalize_chunks(chunks, array.shape), array.dtype)
