"""Folders of files as the libraries of their formats read them, without the readers of reblock."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.geometry.grid import Cut, inverse
from reblock.storage.library import Array, LibraryArray, library_errors, open_with_library


def open_with_libraries(path: str, allow: Sequence[str] = ()) -> LibraryArray:
    """The array of a folder with a manifest."""
    with library_errors("json", path):
        with open(os.path.join(path, "reblock.json"), encoding="utf-8") as file:
            said = json.load(file)
        shape, dtype, kind = tuple(said["shape"]), np.dtype(said["dtype"]), str(said["block_format"])
        cuts: list[Cut] = [cut if isinstance(cut, int) else tuple(cut) for cut in said["chunks"]]
        order = tuple(said.get("order") or range(len(shape)))
        grid = Grid.of(shape, cuts)

    def block(index: tuple[int, ...], lengths: Sequence[int]) -> Any:
        file = os.path.join(path, _name(str(said["files"]), index))
        if kind == "raw":
            flat: Array = np.fromfile(file, dtype)
            return flat.reshape([lengths[axis] for axis in order]).transpose(inverse(order))
        return open_with_library(file, kind, allow).fetch((slice(None),) * len(lengths))

    def fetch(region: tuple[slice, ...]) -> Any:
        out = np.empty([part.stop - part.start for part in region], dtype)
        spans = [
            [number for number in range(axis.count) if _meets(axis.interval(number), part)]
            for axis, part in zip(grid.axes, region, strict=True)
        ]
        for index in product(*spans):
            box = grid.box(index)
            found = np.asarray(block(index, box.shape))
            here: list[Any] = []
            there: list[Any] = []
            for start, stop, part in zip(box.start, box.stop, region, strict=True):
                low, high = max(start, part.start), min(stop, part.stop)
                here.append(slice(low - part.start, high - part.start))
                there.append(slice(low - start, high - start))
            out[(*here, ...)] = found[(*there, ...)]
        return out

    return LibraryArray(path, "the library of its files", dtype, grid, True, fetch)


def _name(pattern: str, index: tuple[int, ...]) -> str:
    if "{index}" in pattern:
        return pattern.replace("{index}", "_".join(map(str, index)) or "0")
    return re.sub(
        r"\{([0-9]+)(?::0([0-9]+)d?)?\}", lambda found: str(index[int(found[1])]).zfill(int(found[2] or 0)), pattern
    )


def _meets(interval: tuple[int, int], part: slice) -> bool:
    return bool(interval[0] < part.stop and interval[1] > part.start)
