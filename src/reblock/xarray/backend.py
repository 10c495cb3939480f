"""The xarray backend: `xr.open_dataset(url, engine="reblock")` gives lazy arrays whose reads are planned.

A selection becomes one planned read of the engine, within the memory budget, instead of one read for each chunk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends.common import AbstractDataStore, BackendArray, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint
from xarray.core import indexing
from xarray.core.utils import FrozenDict

from reblock.api import open_dataset
from reblock.api.array import Array
from reblock.api.dataset import Dataset


class ReblockArray(BackendArray):
    """One array of a dataset, read by basic indexing. Picklable and thread-safe, like the array behind it."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        """The elements of integers and slices; a slice that runs backwards is read forwards and turned."""
        forward, turned = [], []
        for one, length in zip(key, self.shape, strict=True):
            places = range(*one.indices(length)) if isinstance(one, slice) else None
            if places is None:
                forward.append(one)
                continue
            backwards = places.step < 0 and bool(places)
            forward.append(slice(places[-1], places[0] + 1, -places.step) if backwards else one)
            turned.append(slice(None, None, -1 if backwards else None))
        return np.asarray(self.array[tuple(forward)], self.dtype)[tuple(turned)]


class TableArray(BackendArray):
    """A table of text, whose rows are read when they are needed."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        self._dataset, self._name = dataset, name
        table = dataset.tables[name]
        self.shape, self.dtype = table.shape, np.dtype(object) if table.dtype.hasobject else table.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return self._dataset.read_table(self._name)[key]


@dataclass(frozen=True)
class DatasetStore(AbstractDataStore):
    """The variables of one group, as xarray's decoders take them."""

    dataset: Dataset
    """The group."""
    source: str
    """Its location."""

    def get_variables(self) -> Any:
        """All variables, not decoded."""
        found = {name: self._variable(array) for name, array in self.dataset.arrays.items() if "/" not in name}
        for name, table in self.dataset.tables.items():
            if "/" not in name and not table.why:
                data = indexing.LazilyIndexedArray(TableArray(self.dataset, name))
                dims = table.axes or _dims(name, len(table.shape))
                found[name] = xr.Variable(
                    dims, data, _attributes(table.attributes, netcdf=self._netcdf), {"source": self.source}
                )
        return FrozenDict(found)

    @property
    def _netcdf(self) -> bool:
        return any(schema.netcdf for schema in self.dataset.store.tree.arrays.values())

    def _variable(self, array: Array) -> xr.Variable:
        schema = array.store.schema
        dims = schema.axes or _dims("axis", array.ndim)
        attributes = _attributes(schema.attributes, netcdf=schema.netcdf)
        chunks = {dim: one for dim, one in zip(dims, array.chunks, strict=True) if isinstance(one, int)}
        encoding = {"source": self.source, "original_shape": array.shape, "preferred_chunks": chunks}
        return xr.Variable(dims, indexing.LazilyIndexedArray(ReblockArray(array)), attributes, encoding)

    def get_attrs(self) -> Any:
        """Attributes of the group."""
        return FrozenDict(_attributes(self.dataset.attributes, netcdf=self._netcdf))

    def get_dimensions(self) -> Any:
        """Lengths of the axes that the group defines."""
        return FrozenDict(self.dataset.dimensions)

    def get_encoding(self) -> dict[str, Any]:
        """Where the dataset comes from."""
        return {"source": self.source}

    def close(self) -> None:
        """Nothing stays open."""


def _attributes(given: Mapping[str, Any], *, netcdf: bool) -> dict[str, Any]:
    """Attributes as xarray's other backends give them: text is `str`, and one value of NetCDF is no array."""
    found = {name: _value(value) for name, value in given.items()}
    singles = {name: value[0] for name, value in found.items() if isinstance(value, list) and len(value) == 1}
    return found | singles if netcdf else found


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.rstrip(b"\0").decode()
        except UnicodeDecodeError:
            return value.rstrip(b"\0").decode("latin-1")
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        texts = [_value(one) for one in value.ravel().tolist()]
        return texts[0] if len(texts) == 1 else texts
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.ravel()[0]
    return value


def _dims(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}_{axis}" for axis in range(count))


class ReblockBackend(BackendEntrypoint):
    """Opens everything that reblock can open."""

    description = "Any dataset that reblock reads; a selection is one planned read"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group", "memory", "format")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool = True,
        decode_times: Any = True,
        concat_characters: bool = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        memory: str | int | None = None,
        format: str | None = None,
    ) -> xr.Dataset:
        """Open a file or group lazily; `memory` is the budget of one read, beside its result."""
        where = os.fspath(filename_or_obj)
        located = f"{where}::{group.strip('/')}" if group and group.strip("/") else where
        store = DatasetStore(open_dataset(located, format=format, memory=memory), where)
        decoded: xr.Dataset = StoreBackendEntrypoint().open_dataset(
            store,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )
        return decoded

    def guess_can_open(self, filename_or_obj: Any) -> bool:  # noqa: ARG002 - installing reblock changes no default
        """Never: only `engine="reblock"` chooses it."""
        return False
