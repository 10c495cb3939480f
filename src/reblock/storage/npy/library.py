"""Arrays in .npy files as numpy maps them, without the readers of reblock."""

from __future__ import annotations

from typing import Any

from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors, map_npy


def open_with_numpy(path: str) -> LibraryArray:
    """The array of a file."""
    with library_errors("numpy", path):
        head = map_npy(path)

        def fetch(region: tuple[slice, ...]) -> Any:
            # Mapped anew each time: touched pages count as memory as long as they are mapped.
            return map_npy(path)[region]

        return LibraryArray(path, "numpy", head.dtype, Grid.whole(head.shape), False, fetch, head.strides)
