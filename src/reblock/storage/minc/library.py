"""MINC1 files as nibabel's reader of NetCDF reads them, without the readers of reblock."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors


def open_with_nibabel(path: str) -> LibraryArray:
    """The image of a file, as it is stored: the ranges of slices are not applied."""
    from nibabel.externals.netcdf import netcdf_file

    with library_errors("nibabel", path):

        def image() -> Any:
            # Opened anew each time: touched pages count as memory as long as they are mapped.
            with netcdf_file(path, mmap=False) as file:
                found = file.variables["image"]
                sign = getattr(found, "signtype", b"unsigned" if found.data.dtype.itemsize == 1 else b"")
                unsigned = sign.startswith(b"unsigned") and found.data.dtype.kind == "i"
                kind = np.dtype(found.data.dtype.str.replace("i", "u")) if unsigned else found.data.dtype
                return np.array(found.data).view(kind)

        head = image()
        return LibraryArray(path, "nibabel", head.dtype, Grid.whole(head.shape), True, lambda part: image()[part])
