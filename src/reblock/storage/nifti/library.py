"""NIfTI files as nibabel reads them, without the readers of reblock."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors


def open_with_nibabel(path: str) -> LibraryArray:
    """The volume of a file, as it is stored: slope and intercept are not applied."""
    import nibabel
    from nibabel.arrayproxy import ArrayProxy

    with library_errors("nibabel", path):
        image: Any = nibabel.load(path)
        header, shape = image.header, tuple(map(int, image.shape))
        stored = header.get_data_dtype()
        dtype = np.dtype(f"V{stored.itemsize}") if stored.fields is not None else np.dtype(stored.str)
        file = image.file_map["image"].filename
        offset = int(image.dataobj.offset)

        def fetch(region: tuple[slice, ...]) -> Any:
            # Opened anew each time: touched pages count as memory as long as they are mapped.
            proxy = ArrayProxy(file, (shape, stored, offset, 1.0, 0.0))
            return np.asarray(proxy[region]).view(dtype) if 0 not in shape else np.zeros(shape, dtype)[region]

        strides = tuple(accumulate(shape[:-1], lambda size, n: size * n, initial=dtype.itemsize))
        return LibraryArray(path, "nibabel", dtype, Grid.whole(shape), False, fetch, strides)
