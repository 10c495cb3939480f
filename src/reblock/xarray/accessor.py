"""The accessor: `ds.reblock` plans and runs on the files behind a lazily opened dataset, without dask."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import xarray as xr

from reblock import api
from reblock.errors import UsageError
from reblock.xarray.origin import Origin, find_origin


@xr.register_dataset_accessor("reblock")  # type: ignore[no-untyped-call]
class DatasetAccessor:
    """`ds.reblock`: rewrite what a dataset shows of its file.

    The dataset is opened lazily, without chunks. Selections by slices become regions. Values stay as they are stored:
    packed data stays packed, and encoding, attributes with their types and coordinates are kept.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    @property
    def origin(self) -> Origin:
        """The file, the variables and the region that are shown."""
        return find_origin(self._dataset)

    def plan(self, target: Any = None, *, chunks: Mapping[str, int] | str | None = None, **options: Any) -> Any:
        """Plan to rewrite the dataset; takes the options of `reblock.plan`."""
        origin = self.origin
        for name in ("region", "include", "exclude"):
            if name in options:
                raise UsageError(f"{name} comes from the dataset: select from it instead")
        wanted = _chunks(chunks)
        if wanted is not None:
            options["chunks"] = wanted
        include = [re.sub(r"([*?[])", r"[\1]", name) for name in origin.names]
        return api.plan(origin.path, target, region=origin.ranges, include=include, **options)

    def to_zarr(self, store: Any, **options: Any) -> Any:
        """Write the dataset as Zarr; takes the options of `reblock.plan` and `reblock.run`. Returns the report."""
        return self._run(store, {"to_format": "zarr", **options})

    def to_netcdf(self, path: Any, **options: Any) -> Any:
        """Write the dataset as NetCDF; takes the options of `reblock.plan` and `reblock.run`. Returns the report."""
        return self._run(path, {"to_format": "netcdf", **options})

    def advise(self, name: str, **options: Any) -> Any:
        """Advice on the chunks of one variable; takes the options of `reblock.advise`."""
        return api.advise(self._array(name), **options)

    def extract(self, name: str, target: Any, **options: Any) -> Any:
        """Extract regions of one variable; takes the options of `reblock.extract`."""
        return api.extract(self._array(name), target, **options)

    def _array(self, name: str) -> str:
        origin = self.origin
        if origin.region:
            raise UsageError("this dataset shows a part of its file: open it without a selection")
        if name not in origin.names:
            raise UsageError(f"there is no variable {name!r}: there are {', '.join(origin.names)}")
        return f"{origin.path}/{name}" if "::" in origin.path else f"{origin.path}::{name}"

    def _run(self, target: Any, options: dict[str, Any]) -> Any:
        names = (
            "overwrite",
            "exist_ok",
            "scratch",
            "digest",
            "progress",
            "cancelled",
            "executor",
            "workers",
            "cluster",
        )
        running = {name: options.pop(name) for name in names if name in options}
        return api.run(self.plan(os.fspath(target), **options), **running)


@xr.register_datatree_accessor("reblock")  # type: ignore[no-untyped-call]
class TreeAccessor:
    """`tree.reblock`: rewrite a whole file that was opened as a DataTree."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    def plan(self, target: Any = None, *, chunks: Mapping[str, int] | str | None = None, **options: Any) -> Any:
        """Plan to rewrite the file; takes the options of `reblock.plan`."""
        paths = set()
        for node in self._tree.subtree:
            if node.variables:
                origin = find_origin(node.to_dataset(inherit=False))
                if origin.region:
                    raise UsageError(f"{node.path} shows a part of its file: select from its dataset instead")
                paths.add(origin.path.partition("::")[0])
        if len(paths) != 1:
            raise UsageError("a tree must come from one file")
        wanted = _chunks(chunks)
        if wanted is not None:
            options["chunks"] = wanted
        return api.plan(paths.pop(), target, **options)

    def to_zarr(self, store: Any, **options: Any) -> Any:
        """Write the tree as Zarr. Returns the report."""
        overwrite = bool(options.pop("overwrite", False))
        return api.run(self.plan(os.fspath(store), to_format="zarr", **options), overwrite=overwrite)


def _chunks(chunks: Mapping[str, int] | str | None) -> str | None:
    if isinstance(chunks, Mapping):
        return ",".join(f"{name}={length}" for name, length in chunks.items())
    return chunks
