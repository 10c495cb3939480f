"""Zarr arrays as zarr-python reads them, without the readers of reblock."""

from __future__ import annotations

from typing import Any

from reblock.errors import FormatError, UsageError
from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors
from reblock.storage.location import Location


def open_with_zarr_python(where: Location) -> LibraryArray:
    """An array, or the only one of its group; zarr-python follows any link."""
    try:
        import zarr
    except ImportError as error:
        why = "zarr-python is needed to read it, and is not installed: pip install 'reblock[library]'"
        raise UsageError(f"{where}: {why}") from error
    with library_errors("zarr-python", str(where)):
        found = zarr.open(where.path, path=where.inner or None, mode="r")
        inner = where.inner
        if isinstance(found, zarr.Group):
            inside = [(name, one) for name, one in found.members(max_depth=None) if isinstance(one, zarr.Array)]
            if len(inside) != 1:
                raise FormatError(f"{where} holds {len(inside)} arrays: add ::NAME")
            inner, found = "/".join(filter(None, [inner, inside[0][0]])), inside[0][1]
        array: Any = found

        def fetch(region: tuple[slice, ...]) -> Any:
            with zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1}):
                return array[region]

        grid = Grid.of(array.shape, [max(n, 1) for n in array.chunks])
        return LibraryArray(str(Location(where.path, inner)), "zarr-python", array.dtype, grid, True, fetch)
