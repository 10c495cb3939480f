"""Zarr arrays as zarr-python reads them, without the readers of reblock."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
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
        grid = Grid.of(array.shape, [max(n, 1) for n in array.chunks])
        return LibraryArray(str(Location(where.path, inner)), "zarr-python", array.dtype, grid, True, fetching(array))


def fetching(array: Any) -> Callable[[tuple[slice, ...]], Any]:
    """Reads a region of an array of zarr-python, one chunk after the other, so that memory does not add up."""
    import zarr

    def fetch(region: tuple[slice, ...]) -> Any:
        one_by_one = {"async.concurrency": 1, "threading.max_workers": 1}
        # zarr-python 2 has no such settings, and reads one chunk after the other.
        with zarr.config.set(one_by_one) if hasattr(zarr, "config") else nullcontext():
            return array[region]

    return fetch


def metadata_documents(array: Any) -> Callable[[str], bytes | str]:
    """The metadata documents of an array of zarr-python, by name; empty if there is none of that name."""
    metadata = getattr(array, "metadata", None)
    if metadata is None:  # zarr-python 2: the store is a mapping
        prefix = f"{array.path}/" if array.path else ""
        return lambda name: bytes(array.store.get(prefix + name, b""))
    from zarr.core.buffer import default_buffer_prototype

    documents = metadata.to_buffer_dict(default_buffer_prototype())
    return lambda name: documents[name].to_bytes() if name in documents else b""
