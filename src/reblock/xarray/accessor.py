"""The accessor: `ds.reblock` plans and runs on the files behind a lazily opened dataset, without dask."""

from __future__ import annotations

import inspect
import os
import re
from abc import ABC, abstractmethod
from typing import Any

import xarray as xr

from reblock import api
from reblock.errors import UsageError
from reblock.geometry.notation import Chunks
from reblock.xarray.origin import Origin, find_origin, merge_origins

#: Options that say what is read, which the dataset says.
_FROM_DATASET = ("region", "transpose", "include", "exclude", "from_format", "concat", "stack")
#: Arguments of xarray's methods of the same name, and what to write instead.
_OF_XARRAY = {
    "mode": "overwrite=True replaces a target",
    "group": "name the group after the path: x.zarr::group",
    "encoding": "chunks, shards, codec, dtype and fill_value are options of their own",
    "consolidated": "metadata is consolidated where the format has it",
    "append_dim": "append_along appends to an existing Zarr group",
    "zarr_format": "to_format='zarr2' writes version 2",
    "engine": "reblock writes the file itself",
    "unlimited_dims": "dimensions stay as they are in the file",
    "compute": "the target is written at once",
}
#: Options of `reblock.run`.
_RUNNING = tuple(
    name for name, one in inspect.signature(api.run).parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY
)


class _Accessor(ABC):
    """What the accessors of datasets and of trees have in common."""

    @property
    @abstractmethod
    def origin(self) -> Origin:
        """The file, the variables and the part of them that are shown."""

    def plan(self, target: Any = None, *, chunks: Chunks | None = None, **options: Any) -> Any:
        """Plan to rewrite what is shown; takes the options of `reblock.plan`."""
        for name in options:
            if name in _FROM_DATASET:
                raise UsageError(f"{name} comes from the dataset: select, transpose or drop variables there instead")
            if name in _OF_XARRAY:
                raise UsageError(f"{name} is an argument of xarray, not of reblock: {_OF_XARRAY[name]}")
        origin = self.origin
        include = () if origin.everything else [re.sub(r"([*?[])", r"[\1]", name) for name in origin.names]
        return api.plan(
            origin.location,
            _path(target),
            chunks=chunks,
            region=origin.ranges,
            transpose=origin.order,
            include=include,
            **options,
        )

    def to_zarr(self, store: Any, **options: Any) -> Any:
        """Write what is shown as Zarr; takes the options of `reblock.plan` and `reblock.run`. Returns the report."""
        return self._run(store, {"to_format": "zarr", **options})

    def to_netcdf(self, path: Any, **options: Any) -> Any:
        """Write what is shown as NetCDF; takes the options of `reblock.plan` and `reblock.run`. Returns the report."""
        return self._run(path, {"to_format": "netcdf", **options})

    def advise(self, name: str, **options: Any) -> Any:
        """Advice on the chunks of one variable; takes the options of `reblock.advise`."""
        return api.advise(self._array(name), **options)

    def extract(self, name: str, target: Any, **options: Any) -> Any:
        """Extract regions of one variable; takes the options of `reblock.extract`."""
        return api.extract(self._array(name), target, **options)

    def _array(self, name: str) -> str:
        origin = self.origin
        if origin.region or origin.order is not None:
            raise UsageError("this dataset shows a part of its file, or transposed: open it without a selection")
        if name not in origin.names:
            raise UsageError(f"there is no variable {name!r}: there are {', '.join(origin.names)}")
        return f"{origin.location}/{name}" if origin.group else f"{origin.location}::{name}"

    def _run(self, target: Any, options: dict[str, Any]) -> Any:
        if target is None:
            raise UsageError("a target is needed: a path or a URL")
        running = {name: options.pop(name) for name in _RUNNING if name in options}
        if (workers := running.get("workers")) is not None:
            options["workers"] = workers
        return api.run(self.plan(target, **options), **running)


@xr.register_dataset_accessor("reblock")  # type: ignore[no-untyped-call]
class DatasetAccessor(_Accessor):
    """`ds.reblock`: rewrite what a dataset shows of its file.

    The dataset is opened lazily, without chunks. Selections by slices become regions, and transpositions become orders
    of axes. Values stay as they are stored: packed data stays packed, and encoding, attributes with their types and
    coordinates are kept.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    @property
    def origin(self) -> Origin:
        """The file, the variables and the part of them that are shown."""
        return find_origin(self._dataset)


@xr.register_datatree_accessor("reblock")  # type: ignore[no-untyped-call]
class TreeAccessor(_Accessor):
    """`tree.reblock`: rewrite what a tree shows of its file."""

    def __init__(self, tree: xr.DataTree) -> None:
        self._tree = tree

    @property
    def origin(self) -> Origin:
        """The file, the variables of all its groups, and the part of them that are shown."""
        nodes = {
            node.path.removeprefix(self._tree.path).strip("/"): node.to_dataset(inherit=False)
            for node in self._tree.subtree
        }
        return merge_origins({path: find_origin(node) for path, node in nodes.items() if node.variables})


def _path(target: Any) -> str | None:
    """A target as a path or URL."""
    if target is None or isinstance(target, str | os.PathLike):
        return None if target is None else os.fspath(target)
    raise UsageError(f"a target is a path or a URL, not {type(target).__name__}")
