"""HDF5 datasets as h5py reads them, without the readers of reblock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reblock.errors import ExternalError
from reblock.geometry import Grid
from reblock.storage.hdf5.file import Elsewhere, find_dataset, open_file
from reblock.storage.hdf5.plugins import load_plugins
from reblock.storage.library import LibraryArray, library_errors
from reblock.storage.location import Location


def open_with_h5py(where: Location, allow: Sequence[str]) -> LibraryArray:
    """A dataset, or the only one of its file; elements in other files only if a folder is allowed."""
    with library_errors("h5py", str(where)):
        file = open_file(where.path, "r")
        try:
            name, dataset = find_dataset(file, where.path, where.inner)
        except Elsewhere as link:
            raise ExternalError(f"{where}: {link}: name that file itself") from None
        if (dataset.external or dataset.is_virtual) and not allow:
            raise ExternalError(f"{where}: its elements are in other files: allow their folder, or use another reader")
        load_plugins(dataset, str(where), elements=True)
        shape = dataset.shape or ()
        grid = Grid.of(shape, dataset.chunks) if dataset.chunks else Grid.whole(shape)

        def fetch(region: tuple[slice, ...]) -> Any:
            return dataset[region]

        return LibraryArray(f"{where.path}::{name}", "h5py", dataset.dtype, grid, dataset.chunks is not None, fetch)
