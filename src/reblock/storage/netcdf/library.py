"""Variables of NetCDF files as the NetCDF library reads them, without the readers of reblock."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import FormatError, UsageError
from reblock.geometry import Grid
from reblock.storage.library import LibraryArray, library_errors


def open_with_netcdf4(path: str, inner: str) -> LibraryArray:
    """A variable by its path, or the only one of the file."""
    try:
        import netCDF4
    except ImportError as error:
        raise UsageError("reading NetCDF with its own library needs netCDF4: pip install 'reblock[netcdf]'") from error

    with library_errors("netCDF4", path):
        file: Any = netCDF4.Dataset(path, "r")
        file.set_auto_maskandscale(False)
        names = _variables(file)
        name = inner or (names[0] if len(names) == 1 else "")
        if name not in names:
            raise FormatError(f"{path}: add ::NAME, one of {', '.join(names[:10])}")
        variable = file[name]
        variable.set_auto_chartostring(False)
        cut: Any = variable.chunking()
        chunked = cut not in (None, "contiguous")
        grid = Grid.of(variable.shape, tuple(cut)) if chunked else Grid.whole(variable.shape)

        def fetch(region: tuple[slice, ...]) -> Any:
            return np.asarray(variable[region or ...])

        dtype = np.dtype("O") if variable.dtype is str else np.dtype(variable.dtype)
        return LibraryArray(f"{path}::{name}", "netCDF4", dtype, grid, chunked, fetch)


def _variables(group: Any, prefix: str = "") -> list[str]:
    """Paths of all variables below a group."""
    found = [prefix + name for name in group.variables]
    for name, inner in group.groups.items():
        found += _variables(inner, f"{prefix}{name}/")
    return found
