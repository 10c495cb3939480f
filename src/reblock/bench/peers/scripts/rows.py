"""RowSource: an .npy file read with plain reads, because mapped pages would count as memory of the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class RowSource:
    """An array in an .npy file that can be sliced; it reads whole rows."""

    def __init__(self, path: str) -> None:
        mapped = np.load(path, mmap_mode="r")
        self.path = path
        self.shape: tuple[int, ...] = mapped.shape
        self.dtype: np.dtype[Any] = mapped.dtype
        self.ndim: int = mapped.ndim
        self.offset: int = mapped.offset

    def __getitem__(self, box: tuple[slice, ...]) -> npt.NDArray[Any]:
        start, stop, _ = box[0].indices(self.shape[0])
        row = int(np.prod(self.shape[1:], dtype=np.int64))
        offset = self.offset + start * row * self.dtype.itemsize
        flat = np.fromfile(self.path, self.dtype, (stop - start) * row, offset=offset)
        return flat.reshape(stop - start, *self.shape[1:])[(slice(None), *box[1:])]
