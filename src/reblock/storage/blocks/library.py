"""Block folders as numpy maps their files, without the readers of reblock."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.geometry.grid import Cut, inverse
from reblock.geometry.placement import placing_one
from reblock.storage.library import Array, LibraryArray, library_errors, map_npy


def open_with_numpy(path: str, disks: Sequence[str] = ()) -> LibraryArray:
    """The array of a folder, with its blocks there or in folders on several disks; numpy follows any link."""
    with library_errors("numpy", path):
        with open(os.path.join(path, "reblock.json"), encoding="utf-8") as file:
            said = json.load(file)
        shape, dtype, name = tuple(said["shape"]), np.dtype(said["dtype"]), str(said["files"])
        cuts: list[Cut] = [cut if isinstance(cut, int) else tuple(cut) for cut in said["chunks"]]
        order = tuple(said.get("order") or range(len(shape)))

        counts = Grid.of(shape, cuts).counts
        placed = placing_one(said["disks"]["placement"], counts, len(disks)) if disks else None

        def block(index: tuple[int, ...], lengths: Sequence[int]) -> Array:
            folder = disks[placed(index)] if placed else path
            file = os.path.join(folder, name.replace("{index}", "_".join(map(str, index)) or "0"))
            if name.endswith(".npy"):
                return map_npy(file)
            flat: Array = np.memmap(file, dtype, "r")
            return flat.reshape([lengths[axis] for axis in order]).transpose(inverse(order))

        def fetch(region: tuple[slice, ...]) -> Any:
            return _joined(cuts, shape, dtype, region, block)

        return LibraryArray(path, "numpy", dtype, Grid.of(shape, cuts), False, fetch)


def _joined(
    cuts: Sequence[Cut],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    region: tuple[slice, ...],
    block: Callable[[tuple[int, ...], Sequence[int]], Array],
) -> Array:
    """A region of an array that is cut into blocks."""
    out = np.empty([part.stop - part.start for part in region], dtype)
    spans = [list(_spans(cut, length, part)) for cut, length, part in zip(cuts, shape, region, strict=True)]
    for chosen in product(*spans):
        found = block(tuple(span[0] for span in chosen), [span[2] - span[1] for span in chosen])
        here: list[Any] = []
        there: list[Any] = []
        for (_, start, stop), part in zip(chosen, region, strict=True):
            low, high = max(start, part.start), min(stop, part.stop)
            here.append(slice(low - part.start, high - part.start))
            there.append(slice(low - start, high - start))
        out[(*here, ...)] = found[(*there, ...)]
    return out


def _spans(cut: Cut, length: int, part: slice) -> Iterator[tuple[int, int, int]]:
    """Number, start and stop of the blocks along an axis that a part of it meets."""
    if isinstance(cut, int):
        for number in range(part.start // cut, -(-part.stop // cut)):
            yield number, number * cut, min((number + 1) * cut, length)
        return
    start = 0
    for number, size in enumerate(cut):
        if start < part.stop and start + size > part.start:
            yield number, start, start + size
        start += size
