"""Arrays in TIFF files as tifffile reads them, without the readers of reblock."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.tiff.structure import choose_series, open_tifffile


def open_with_tifffile(path: str, inner: str) -> LibraryArray:
    """The array of a file."""
    import tifffile

    with library_errors("tifffile", path), open_tifffile(path, LOCAL) as (tif, _, _):
        series = choose_series(tif, inner, path)
        shape, pages, contiguous = tuple(series.shape), len(series), series.dataoffset is not None
        dtype = np.dtype(series.dtype).newbyteorder(tif.byteorder)
        number, _, level = (inner or "0").partition("/")
    lead = 0
    while lead < len(shape) and np.prod(shape[:lead], dtype=np.int64) != pages:
        lead += 1
    if np.prod(shape[:lead], dtype=np.int64) != pages and not contiguous:
        raise FormatError(f"{path}: {pages:,} pages do not make up an array of {shape}")
    if contiguous and not level:
        mapped = tifffile.memmap(path, series=int(number), mode="r")

        def fetch_mapped(region: tuple[slice, ...]) -> Any:
            return tifffile.memmap(path, series=int(number), mode="r")[region]

        return LibraryArray(path, "tifffile", dtype, Grid.whole(shape), False, fetch_mapped, mapped.strides)

    def fetch(region: tuple[slice, ...]) -> Any:
        out = np.empty([part.stop - part.start for part in region], dtype)
        with tifffile.TiffFile(path, _multifile=False) as tif:
            series = tif.series[int(number)].levels[int(level or 0)]
            for place in np.ndindex(*out.shape[:lead]):
                at = [part.start + n for part, n in zip(region, place, strict=False)]
                page = series.pages[int(np.ravel_multi_index(at, shape[:lead])) if lead else 0]
                out[place] = page.asarray().reshape(shape[lead:])[region[lead:]]
        return out

    grid = Grid.of(shape, [*([1] * lead), *shape[lead:]])
    return LibraryArray(path, "tifffile", dtype, grid, True, fetch)
