"""Lazy variables: the array of a file behind a variable that xarray has not read, and the part of it that is shown.

xarray wraps arrays: decoders and selections, each with a key, around the array of a backend ::

    variable → copy on write → cache → selection [key] → decoder → selection [key] → array of the file

Keys of slices and integers have one item for each axis of the file. A transposed variable has arrays instead, which
broadcast to its shape: that of an axis varies along the dimension that it became ::

    time(3), lat(2)                    key  0:3            0:2
    transposed to (lat, time)          key  [[0, 1, 2]]    [[0], [1]]
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from reblock.errors import UsageError

#: How deep xarray's wrappers may be nested.
_MAX_WRAPPERS = 24
#: What to do with anything that is no plain view of a file.
WAY_OUT = "write it with `ds.to_zarr`, or with dask and `reblock.dask`"
#: Wrappers of data in memory.
_IN_MEMORY = ("PandasIndexingAdapter", "PandasMultiIndexingAdapter", "CoordinateTransformIndexingAdapter")


@dataclass(frozen=True)
class LazyVariable:
    """A variable that xarray has not read."""

    name: str
    """Its name in the dataset."""
    dims: tuple[str, ...]
    """Its dimensions."""
    array: Any
    """The array of the backend."""
    keys: tuple[tuple[Any, ...], ...]
    """Keys of the selections, innermost first."""

    @property
    def place(self) -> tuple[str, str] | None:
        """The file or folder and the path of the array inside it, as far as the backend says."""
        return _place(self.array)

    def ranges(self, stored: Sequence[str]) -> list[tuple[int, int]]:
        """The part of each axis that is shown; `stored` are the names of the axes in the file."""
        found = [(0, length) for length in self.array.shape]
        for key in self.keys:
            # Characters that a decoder joined have one more axis, the last.
            narrowed = [self._narrow(*one) for one in zip(found, key, stored, strict=False)]
            found = [*narrowed, *found[len(key) :]]
        return found

    def _narrow(self, shown: tuple[int, int], given: Any, axis: str) -> tuple[int, int]:
        """The part of an axis that a key leaves of what was shown."""
        start, stop = shown
        one = self._along(given, axis) if isinstance(given, np.ndarray) else given
        if not isinstance(one, slice):
            raise UsageError(
                f"{self.name!r} is shown in another order, or at single places, along {axis!r}: select a range with a "
                f"slice, such as isel({axis}=slice(3, 4))"
            )
        places = range(*one.indices(stop - start))
        if places.step != 1 and len(places) > 1:
            raise UsageError(f"{self.name!r} is shown with steps of {places.step} along {axis!r}: {WAY_OUT}")
        first = places.start if places else 0
        return start + first, start + first + len(places)

    def _along(self, places: Any, axis: str) -> Any:
        """A slice for consecutive places, else the places; a key that depends on several dimensions is refused."""
        line = places
        if places.ndim > 1:
            if axis not in self.dims:
                return None
            kept = self.dims.index(axis)
            line = places[tuple(slice(None) if d == kept else 0 for d in range(places.ndim))]
            if not (places == line.reshape([-1 if d == kept else 1 for d in range(places.ndim)])).all():
                raise UsageError(f"{self.name!r} is shown at points: {WAY_OUT}")
        if line.ndim == 1 and line.size and (np.diff(line) == 1).all():
            return slice(int(line[0]), int(line[-1]) + 1)
        return slice(0, 0) if line.ndim == 1 and not line.size else line


def find_lazy(name: Hashable, variable: xr.Variable) -> LazyVariable | None:
    """The lazy variable behind one of a dataset; None if its values are in memory."""
    data: Any = variable._data  # noqa: SLF001 - xarray has no public way to a lazy array
    if hasattr(data, "__dask_graph__"):
        raise UsageError(f"{name!r} is a dask array: open one file with chunks=None, or use `reblock.dask`")
    keys: list[tuple[Any, ...]] = []
    for _ in range(_MAX_WRAPPERS):
        if _is_of_backend(data):
            return LazyVariable(str(name), tuple(map(str, variable.dims)), data, tuple(reversed(keys)))
        if (key := getattr(data, "key", None)) is not None:
            keys.append(key.tuple)
        if not hasattr(data, "array") or type(data).__name__ in _IN_MEMORY:
            return None
        data = data.array
    return None


def _is_of_backend(data: Any) -> bool:
    return type(data).__module__.startswith("xarray.backends") or type(data).__module__ == "reblock.xarray.stores"


def _place(array: Any) -> tuple[str, str] | None:
    """The file or folder of a backend's array, and its path inside."""
    if (found := getattr(array, "place", None)) is not None:
        return found[0], found[1]
    if (inside := getattr(array, "_array", None)) is not None:
        root = getattr(getattr(inside, "store", None), "root", None)
        return None if root is None else (str(root), str(inside.path).strip("/"))
    store, name = getattr(array, "datastore", None), getattr(array, "variable_name", None)
    if store is None or name is None:
        return None
    path = getattr(store, "_filename", None) or next(iter(getattr(store._manager, "_args", ())), None)  # noqa: SLF001
    group = getattr(store, "_group", None) or ""
    if not isinstance(path, str) or path.startswith("<"):
        return None  # a file that was opened before
    return path, f"{group.strip('/')}/{name}".lstrip("/")
