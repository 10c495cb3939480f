"""For people who have xarray code: `ds.reblock` rewrites what was opened lazily, `engine="reblock"` reads it planned.

::

    import reblock.xarray

    ds = xr.open_dataset("era5.nc")
    ds.sel(time="2020").reblock.to_zarr("era5.zarr", chunks={"time": -1}, memory="4GB")
    xr.open_dataset("era5.zarr", engine="reblock")

Importing this module registers the accessor, and nothing else changes.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("xarray") is None:
    raise ModuleNotFoundError("reblock.xarray needs xarray: pip install 'reblock[xarray]'", name="xarray")

from reblock.xarray.accessor import DatasetAccessor, TreeAccessor
from reblock.xarray.backend import ReblockBackend

__all__ = ["DatasetAccessor", "ReblockBackend", "TreeAccessor"]
