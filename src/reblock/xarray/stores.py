"""Stores: groups and arrays of reblock as xarray's decoders take them, with lazy arrays whose reads are planned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends.common import AbstractDataStore, BackendArray
from xarray.core import indexing
from xarray.core.utils import FrozenDict

from reblock.api import open_dataset
from reblock.api.array import Array, open_array
from reblock.api.dataset import Dataset
from reblock.errors import FormatError, ReblockError, UsageError
from reblock.storage.conventions import FILL_VALUE, fill_attribute
from reblock.storage.location import Location
from reblock.xarray.reading import read_outer, read_points


class ReblockArray(BackendArray):
    """One array of a dataset. Picklable and thread-safe, like the array behind it."""

    def __init__(self, array: Array, place: tuple[str, str]) -> None:
        self.array = array
        self.place = place
        """The file or folder, and the array's path in it."""
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if not isinstance(key, indexing.VectorizedIndexer):
            return read_outer(self.array, key.tuple)
        if all(isinstance(one, np.ndarray) for one in key.tuple):
            return read_points(self.array, key.tuple)
        outer = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, outer, lambda one: read_outer(self.array, one))


class TableArray(BackendArray):
    """A table of text, whose rows are read when they are needed."""

    def __init__(self, dataset: Dataset, name: str, place: tuple[str, str]) -> None:
        self._dataset, self._name = dataset, name
        self.place = place
        """The file or folder, and the table's path in it."""
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
        found = {
            name: _variable(array, self._place(name), self.source)
            for name, array in self.dataset.arrays.items()
            if "/" not in name
        }
        for name, table in self.dataset.tables.items():
            if "/" not in name and not table.why:
                data = indexing.LazilyIndexedArray(TableArray(self.dataset, name, self._place(name)))
                dims = table.axes or _dims(name, len(table.shape))
                found[name] = xr.Variable(
                    dims, data, _attributes(table.attributes, netcdf=self._netcdf), {"source": self.source}
                )
        return FrozenDict(found)

    @property
    def _netcdf(self) -> bool:
        return any(schema.netcdf for schema in self.dataset.store.tree.arrays.values())

    def _place(self, name: str) -> tuple[str, str]:
        where = Location.parse(self.dataset.store.location)
        return where.path, "/".join(filter(None, (where.inner, self.dataset.group, name)))

    def get_attrs(self) -> Any:
        """Attributes of the group."""
        return FrozenDict(_attributes(self.dataset.attributes, netcdf=self._netcdf))

    def get_dimensions(self) -> Any:
        """Lengths of the axes that the group defines."""
        return FrozenDict(self.dataset.dimensions)

    def get_encoding(self) -> dict[str, Any]:
        """Where the dataset comes from, and the dimensions along which other programs may append."""
        known = self.dataset.store.tree.groups[self.dataset.group].dimensions
        return {"source": self.source, "unlimited_dims": {name for name, one in known.items() if one.unlimited}}

    def close(self) -> None:
        """Nothing stays open."""


@dataclass(frozen=True)
class SingleStore(AbstractDataStore):
    """An array that is alone in its file, or that was named, as a dataset with one variable."""

    array: Array
    """The array."""
    source: str
    """Its location."""

    def get_variables(self) -> Any:
        """The variable, with the name of the array, or else of the file."""
        where = Location.parse(self.array.store.location)
        name = where.inner.rpartition("/")[2] or os.path.basename(where.path.rstrip("/")).partition(".")[0]
        return FrozenDict({name or "data": _variable(self.array, (where.path, where.inner), self.source)})

    def get_attrs(self) -> Any:
        """All attributes are those of the variable."""
        return FrozenDict({})

    def get_dimensions(self) -> Any:
        """None but those of the variable."""
        return FrozenDict({})

    def get_encoding(self) -> dict[str, Any]:
        """Where the array comes from."""
        return {"source": self.source}

    def close(self) -> None:
        """Nothing stays open."""


def _variable(array: Array, place: tuple[str, str], source: str) -> xr.Variable:
    """A stored array as a variable that is not decoded."""
    schema = array.store.schema
    dims = schema.axes or _dims("axis", array.ndim)
    attributes = _attributes(schema.attributes, netcdf=schema.netcdf)
    if (fill := fill_attribute(attributes.get(FILL_VALUE), schema.dtype)) is not None:
        # Zarr of version 3 has it as text.
        attributes[FILL_VALUE] = fill
    chunks = {dim: one for dim, one in zip(dims, array.chunks, strict=True) if isinstance(one, int)}
    encoding = {"source": source, "original_shape": array.shape, "preferred_chunks": chunks}
    return xr.Variable(dims, indexing.LazilyIndexedArray(ReblockArray(array, place)), attributes, encoding)


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


def open_store(location: str, source: str, format: str | None, memory: str | int | None) -> DatasetStore | SingleStore:
    """A group, or an array that is alone in its file, or that was named."""
    try:
        return DatasetStore(open_dataset(location, format=format, memory=memory), source)
    except (FormatError, UsageError):
        try:
            array = open_array(location, format, (), memory)
        except ReblockError:
            array = None
        if array is None:
            raise
        return SingleStore(array, source)
