"""Arrays in TIFF files as tifffile reads them, without the readers of reblock."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors


def open_with_tifffile(path: str, inner: str) -> LibraryArray:
    """The array of a file: the whole run of bytes mapped, or page by page."""
    import tifffile

    number, _, level = (inner or "0").partition("/")
    with library_errors("tifffile", path), tifffile.TiffFile(path, _multifile=False) as tif:
        series = tif.series[int(number)].levels[int(level or 0)]
        shape, pages = tuple(series.shape), len(series)
        dtype = np.dtype(series.dtype).newbyteorder(tif.byteorder)
        if series.dataoffset is not None and not level:
            mapped = tifffile.memmap(path, series=int(number), mode="r")

            def fetch_mapped(region: tuple[slice, ...]) -> Any:
                # Mapped anew each time: touched pages count as memory as long as they are mapped.
                return tifffile.memmap(path, series=int(number), mode="r")[region]

            return LibraryArray(path, "tifffile", dtype, Grid.whole(shape), False, fetch_mapped, mapped.strides)
        lead = next(n for n in range(len(shape) + 1) if prod(shape[:n]) == pages)

    def fetch(region: tuple[slice, ...]) -> Any:
        out = np.empty([part.stop - part.start for part in region], dtype)
        with tifffile.TiffFile(path, _multifile=False) as tif:
            series: Any = tif.series[int(number)].levels[int(level or 0)]
            for place in np.ndindex(*out.shape[:lead]):
                at = [part.start + n for part, n in zip(region, place, strict=False)]
                page = series.pages[int(np.ravel_multi_index(at, shape[:lead])) if lead else 0]
                out[place] = page.asarray().reshape(shape[lead:])[region[lead:]]
        return out

    grid = Grid.of(shape, [*([1] * lead), *shape[lead:]])
    return LibraryArray(path, "tifffile", dtype, grid, True, fetch)
