"""Origin: which file, which variables and which part of them a lazily opened dataset shows.

Only views count: selections by slices of step 1. Everything else was computed, and xarray or dask must write it.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from reblock.errors import UsageError

#: How deep xarray's wrappers may be nested.
_MAX_WRAPPERS = 24
_WAY_OUT = "write it with `ds.to_zarr`, or with dask and `reblock.dask`"


@dataclass(frozen=True)
class Origin:
    """The part of a file that a dataset shows."""

    path: str
    """The file, folder or URL, with its group."""
    names: tuple[str, ...]
    """Variables in it."""
    region: dict[str, tuple[int, int]]
    """Ranges of the dimensions that are not shown whole."""

    @property
    def ranges(self) -> str | None:
        """The region as reblock takes it; None = everything."""
        return ",".join(f"{dim}={start}:{stop}" for dim, (start, stop) in self.region.items()) or None


def find_origin(dataset: xr.Dataset) -> Origin:
    """Where the variables of a dataset come from; UsageError if they are not plain views of one file."""
    sources = {_source(name, variable) for name, variable in dataset.variables.items()}
    if len(sources) != 1:
        some = ", ".join(sorted(map(str, sources))[:3]) or "none"
        raise UsageError(f"a dataset must come from one file, and this one comes from {some}: {_WAY_OUT}")
    (path,) = sources
    region: dict[str, tuple[int, int]] = {}
    lengths: dict[str, int] = {}
    loaded: list[tuple[Hashable, xr.Variable]] = []
    group = ""
    for name, variable in dataset.variables.items():
        found = _window(name, variable)
        if found is None:
            loaded.append((name, variable))
            continue
        ranges, shape, group = found
        for dim, one, length in zip(variable.dims, ranges, shape, strict=True):
            if region.setdefault(str(dim), one) != one or lengths.setdefault(str(dim), length) != length:
                raise UsageError(f"variables show different parts of the dimension {dim!r}: {_WAY_OUT}")
    location = f"{path}::{group}" if group else path
    _check_loaded(location, dataset, loaded, region, lengths)
    cut = {dim: one for dim, one in region.items() if one != (0, lengths[dim])}
    return Origin(location, tuple(map(str, dataset.variables)), cut)


def _source(name: Hashable, variable: xr.Variable) -> str:
    found = variable.encoding.get("source")
    if not isinstance(found, str | os.PathLike):
        raise UsageError(f"{name!r} was not opened from a file, or was computed: {_WAY_OUT}")
    return os.fspath(found)


def _window(name: Hashable, variable: xr.Variable) -> tuple[list[tuple[int, int]], tuple[int, ...], str] | None:
    """The part of a stored variable that is shown, its whole shape, and its group; None if it is in memory."""
    data: Any = variable._data  # noqa: SLF001 - xarray has no public way to a lazy array
    if hasattr(data, "__dask_graph__"):
        raise UsageError(f"{name!r} is a dask array: open the file without chunks, or use `reblock.dask`")
    keys: list[Any] = []
    for _ in range(_MAX_WRAPPERS):
        if type(data).__module__.startswith("xarray.backends") or type(data).__name__ == "ReblockArray":
            break
        if (key := getattr(data, "key", None)) is not None:
            keys.append(key.tuple)
        if not hasattr(data, "array") or type(data).__name__ == "PandasIndexingAdapter":
            return None
        data = data.array
    else:
        return None
    shape = tuple(variable.encoding.get("original_shape") or data.shape)
    ranges = [(0, length) for length in data.shape]
    for key in reversed(keys):
        ranges = _narrow(name, ranges, key)
    if len(ranges) != variable.ndim:
        raise UsageError(f"{name!r} is shown without one of its dimensions: select with slices, such as 3:4")
    return ranges, tuple(data.shape) if len(shape) != len(data.shape) else shape, _group(data)


def _narrow(name: Hashable, ranges: list[tuple[int, int]], key: tuple[Any, ...]) -> list[tuple[int, int]]:
    found = []
    for (start, stop), given in zip(ranges, key, strict=True):
        one = _as_slice(given) if isinstance(given, np.ndarray) else given
        if not isinstance(one, slice):
            raise UsageError(
                f"{name!r} is transposed, or shown at single places of a dimension: select with slices, such as 3:4, "
                "and transpose what was written"
            )
        places = range(*one.indices(stop - start))
        if places.step != 1 and len(places) > 1:
            raise UsageError(f"{name!r} is shown with steps of {places.step}: {_WAY_OUT}")
        first = places.start if places else 0
        found.append((start + first, start + first + len(places)))
    return found


def _as_slice(places: Any) -> Any:
    """A slice for consecutive places, else the places."""
    flat = np.asarray(places)
    if flat.ndim == 1 and flat.size and (np.diff(flat) == 1).all():
        return slice(int(flat[0]), int(flat[-1]) + 1)
    return places


def _group(data: Any) -> str:
    """The group of a variable, as its backend names it."""
    store = getattr(data, "datastore", None)
    found = getattr(store, "_group", None)
    if isinstance(found, str):
        return found.strip("/")
    array = getattr(data, "_array", None) or getattr(data, "array", None)
    if type(data).__name__ == "ReblockArray":
        inner = str(data.array.store.location).partition("::")[2]
        return inner.rpartition("/")[0]
    name = getattr(array, "name", None) or ""
    return str(name).strip("/").rpartition("/")[0]


def _check_loaded(
    location: str,
    dataset: xr.Dataset,
    loaded: list[tuple[Hashable, xr.Variable]],
    region: dict[str, tuple[int, int]],
    lengths: dict[str, int],
) -> None:
    """Compare variables in memory, such as indexes, with the file; they may also tell the range of a dimension."""
    path, _, group = location.partition("::")
    stored = xr.open_dataset(path, engine="reblock", group=group or None)
    for name, variable in dataset.variables.items():
        if name not in stored.variables:
            raise UsageError(f"{name!r} is not in {location}: it was renamed or computed; {_WAY_OUT}")
        if not _same_attributes(variable.attrs, stored[name].attrs):
            raise UsageError(f"the attributes of {name!r} were changed in memory: {_WAY_OUT}")
    if not _same_attributes(dataset.attrs, stored.attrs):
        raise UsageError(f"the attributes of the dataset were changed in memory: {_WAY_OUT}")
    for name, variable in loaded:
        whole = stored[name].variable
        for dim, length in zip(whole.dims, whole.shape, strict=True):
            lengths.setdefault(str(dim), length)
            if str(dim) not in region:
                region[str(dim)] = _find_range(name, variable, whole)
        there = whole[tuple(slice(*region[str(dim)]) for dim in whole.dims)]
        if variable.dims != there.dims or not _equal(variable, there):
            raise UsageError(f"{name!r} does not hold what is in {location}: it was computed; {_WAY_OUT}")


def _equal(one: Any, two: Any) -> bool:
    return bool(one.equals(two))


def _find_range(name: Hashable, variable: xr.Variable, whole: xr.Variable) -> tuple[int, int]:
    """Where the values of an index occur in the file."""
    if variable.ndim != 1 or whole.ndim != 1 or not variable.size:
        raise UsageError(f"{name!r} was computed: {_WAY_OUT}")
    values, first = whole.values, variable.values[0]
    for start in np.flatnonzero(values == first).tolist():
        if start + variable.size <= values.size and np.array_equal(
            values[start : start + variable.size], variable.values
        ):
            return start, start + variable.size
    raise UsageError(f"{name!r} holds values that are not in the file: {_WAY_OUT}")


def _same_attributes(one: Any, two: Any) -> bool:
    return dict(one).keys() == dict(two).keys() and all(
        np.array_equal(np.asarray(one[name]), np.asarray(two[name])) or one[name] == two[name] for name in one
    )
