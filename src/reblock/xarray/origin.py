"""Origin: which file, which variables and which part of them a lazily opened dataset shows.

Only views count: selections by slices of step 1, and transpositions. Everything else was computed, and xarray or dask
must write it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from xarray.coders import CFDatetimeCoder

from reblock.api import open_dataset
from reblock.errors import UsageError
from reblock.xarray.lazy import WAY_OUT, LazyVariable, find_lazy

#: Options of `xr.open_dataset` under which values in memory may have been read.
_DECODERS: tuple[dict[str, Any], ...] = (
    *({}, {"decode_times": False}, {"mask_and_scale": False}, {"decode_cf": False}),
    *({"decode_timedelta": False}, {"concat_characters": False}),
)
#: Attributes that decoding moves to other places than a variable's encoding.
_DECODED = ("coordinates", "_FillValue")


@dataclass(frozen=True)
class Origin:
    """The part of a file that a dataset shows."""

    path: str
    """The file, folder or URL."""
    group: str
    """The group in it; "" = the top."""
    names: tuple[str, ...]
    """Variables in the group."""
    shown: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """The range of each dimension."""
    lengths: Mapping[str, int] = field(default_factory=dict)
    """The length of each dimension in the file."""
    order: tuple[str, ...] | None = None
    """The order of all dimensions; None = variables have that of the file."""
    everything: bool = False
    """Whether these are all variables of the group and of those below it."""

    @property
    def location(self) -> str:
        """The group as reblock takes it."""
        return f"{self.path}::{self.group}" if self.group else self.path

    @property
    def region(self) -> dict[str, tuple[int, int]]:
        """Ranges of the dimensions that are not shown whole."""
        return {dim: one for dim, one in self.shown.items() if one != (0, self.lengths[dim])}

    @property
    def ranges(self) -> dict[str, slice] | None:
        """The region as reblock takes it; None = everything."""
        return {dim: slice(*one) for dim, one in self.region.items()} or None


def find_origin(dataset: xr.Dataset) -> Origin:
    """Where the variables of a dataset come from; UsageError if they are not plain views of one file."""
    found = {str(name): find_lazy(name, variable) for name, variable in dataset.variables.items()}
    lazy = {name: one for name, one in found.items() if one is not None}
    path, group = _find_group(dataset, lazy)
    stored = _StoredGroup(path, group)
    stored.check_names(dataset)
    shown: dict[str, tuple[int, int]] = {}
    lengths: dict[str, int] = {}
    for name, one in lazy.items():
        dims, shape = stored.axes_of(name)
        if tuple(one.array.shape) != shape:
            raise UsageError(f"{stored.location} has changed since it was opened: {name!r} has another shape there")
        stored.check_dims(name, dataset.variables[name], dims)
        for dim, part, length in zip(dims, one.ranges(dims), shape, strict=True):
            if dim in one.dims and (shown.setdefault(dim, part) != part or lengths.setdefault(dim, length) != length):
                raise UsageError(f"variables show different parts of the dimension {dim!r}: {WAY_OUT}")
    # Indexes come first: they tell the ranges of their dimensions.
    for name in sorted(found.keys() - lazy.keys(), key=lambda one: (dataset.variables[one].ndim, one)):
        stored.check_values(name, dataset.variables[name], shown, lengths)
    if empty := [dim for dim, (start, stop) in shown.items() if start == stop and lengths[dim]]:
        raise UsageError(f"the selection is empty: it takes nothing of the dimension {empty[0]!r}")
    return Origin(path, group, tuple(found), shown, lengths, stored.find_order(dataset))


def merge_origins(nodes: Mapping[str, Origin]) -> Origin:
    """The origin of a tree, by the paths of its nodes: variables of several groups of one file."""
    origins = list(nodes.values())
    tops = {(one.path, one.group.removesuffix(path).rstrip("/")) for path, one in nodes.items()}
    if len(tops) != 1 or any(not one.group.endswith(path) for path, one in nodes.items()):
        raise UsageError(f"a tree must have the groups of one file, with the names that they have there: {WAY_OUT}")
    if any(one.order is not None for one in origins):
        raise UsageError("a tree of transposed variables cannot be written at once: write its datasets one by one")
    shown: dict[str, tuple[int, int]] = {}
    lengths: dict[str, int] = {}
    for cut in origins:
        for dim, part in cut.region.items():
            if {one.shown[dim] for one in origins if dim in one.shown} != {part}:
                raise UsageError(
                    f"groups show different parts of the dimension {dim!r}: write their datasets one by one"
                )
            shown[dim], lengths[dim] = part, cut.lengths[dim]
    (path, group), *_ = tops
    names = tuple(f"{node}/{name}".lstrip("/") for node, one in nodes.items() for name in one.names)
    merged = Origin(path, group, names, shown, lengths)
    there = open_dataset(merged.location)
    return replace(merged, everything={*there, *there.tables} == set(names))


# ---------------------------------------------------------------- where variables come from
def _find_group(dataset: xr.Dataset, lazy: Mapping[str, LazyVariable]) -> tuple[str, str]:
    """The file and the group of all variables."""
    places = {}
    for name, one in lazy.items():
        place = one.place
        if place is None:
            raise UsageError(
                f"{name!r} was not opened by the path of a local file: open it with "
                "xr.open_dataset(PATH_OR_URL, engine='reblock')"
            )
        if not place[1]:
            raise UsageError(f"{place[0]} holds one array, not a dataset: give its path to `reblock.repartition`")
        group, _, stored = place[1].rpartition("/")
        if stored != name:
            raise UsageError(f"{name!r} is {stored!r} in {place[0]}: it was renamed; {WAY_OUT}")
        places[place[0], group] = name
    if not places:
        known = [dataset.encoding, *(one.encoding for one in dataset.variables.values())]
        sources = {one.get("source") for one in known}
        places = {_group_with(os.fspath(one), dataset): "" for one in sources if isinstance(one, str | os.PathLike)}
    if not places:
        raise UsageError(f"this dataset was not opened from a file, or was computed: {WAY_OUT}")
    if len(places) > 1:
        some = ", ".join(sorted("::".join(filter(None, place)) for place in places)[:3])
        raise UsageError(f"a dataset must come from one group of one file, and this one comes from {some}: {WAY_OUT}")
    return next(iter(places))


def _group_with(path: str, dataset: xr.Dataset) -> tuple[str, str]:
    """The group of a file that has the variables of a dataset, all of which are in memory."""
    names, top = set(map(str, dataset.variables)), open_dataset(path)
    for group in ("", *top.groups):
        there = replace(top, group=group)
        if names <= {*there, *there.tables}:
            return path, group
    return path, ""


class _StoredGroup:
    """The group of a file as it is now, to compare a dataset with it."""

    def __init__(self, path: str, group: str) -> None:
        self._path, self._group = path, group
        self._decoded: dict[Any, xr.Dataset] = {}
        self.location = f"{path}::{group}" if group else path

    @cached_property
    def _raw(self) -> xr.Dataset:
        return self._open({"decode_cf": False})

    def _open(self, options: Mapping[str, Any]) -> xr.Dataset:
        key = tuple(options.items())
        if key not in self._decoded:
            self._decoded[key] = xr.open_dataset(self._path, engine="reblock", group=self._group or None, **options)
        return self._decoded[key]

    def axes_of(self, name: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Names and lengths of the axes of a variable."""
        found = self._raw.variables[name]
        return tuple(map(str, found.dims)), found.shape

    def is_text(self, name: str) -> bool:
        """Whether a variable holds characters, whose last axis decoders remove."""
        return bool(self._raw.variables[name].dtype == "S1")

    def check_names(self, dataset: xr.Dataset) -> None:
        """Raise UsageError if variables or attributes are not those of the file."""
        for name, variable in dataset.variables.items():
            if name not in self._raw.variables:
                raise UsageError(f"{name!r} is not in {self.location}: it was renamed or computed; {WAY_OUT}")
            _check_attributes(repr(name), variable.attrs, self._raw.variables[name].attrs, variable.encoding)
        _check_attributes("the dataset", dataset.attrs, self._raw.attrs, dataset.encoding)

    def check_values(
        self, name: str, variable: xr.Variable, shown: dict[str, tuple[int, int]], lengths: dict[str, int]
    ) -> None:
        """Compare a variable in memory, such as an index, with the file; it may tell the range of a dimension."""
        dims, shape = self.axes_of(name)
        self.check_dims(name, variable, dims)
        objects = ({"decode_times": CFDatetimeCoder(use_cftime=True)},) if variable.dtype == object else ()
        for options in (*_DECODERS, *objects):
            whole = self._open(options).variables[name]
            ranges = _find_ranges(variable, whole, shown)
            if ranges is None:
                continue
            part = whole[tuple(slice(*one) for one in ranges)]
            if set(part.dims) == set(variable.dims) and _equal(variable, part.transpose(*variable.dims)):
                for dim, one, length in zip(dims, ranges, shape, strict=False):
                    shown.setdefault(dim, one)
                    lengths.setdefault(dim, length)
                return
        raise UsageError(f"{name!r} holds values that are not in the file {self.location}: it was computed; {WAY_OUT}")

    def check_dims(self, name: str, variable: xr.Variable, stored: Sequence[str]) -> None:
        """Raise UsageError if a variable has other dimensions than in the file."""
        dims = tuple(map(str, variable.dims))
        if strange := [dim for dim in dims if dim not in stored]:
            raise UsageError(
                f"{name!r} has the dimension {strange[0]!r}, which it does not have in {self.location}: it was renamed "
                f"or computed; {WAY_OUT}"
            )
        missing = [dim for dim in stored if dim not in dims]
        if missing and not (self.is_text(name) and missing == [stored[-1]]):
            raise UsageError(
                f"{name!r} is shown at a single place of the dimension {missing[0]!r}, which is then missing: select a "
                f"range of length 1, such as isel({missing[0]}=slice(3, 4))"
            )

    def find_order(self, dataset: xr.Dataset) -> tuple[str, ...] | None:
        """One order of all dimensions that gives each variable its own; None if they have those of the file."""
        dims_of = {str(name): tuple(map(str, one.dims)) for name, one in dataset.variables.items()}
        if all(dims == tuple(dim for dim in self.axes_of(name)[0] if dim in dims) for name, dims in dims_of.items()):
            return None
        sorter = TopologicalSorter[str]()
        for dims in dims_of.values():
            for before, after in pairwise(dims):
                sorter.add(after, before)
        try:
            return tuple(sorter.static_order())
        except CycleError:
            raise UsageError(
                "variables were transposed to different orders of the same dimensions: transpose the whole dataset, "
                f"or {WAY_OUT}"
            ) from None


def _find_ranges(
    variable: xr.Variable, whole: xr.Variable, shown: Mapping[str, tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """The part of each axis of a stored variable whose values may be those in memory; None if there is none."""
    found = []
    for dim, length in zip(map(str, whole.dims), whole.shape, strict=True):
        if dim in shown:
            found.append(shown[dim])
        elif variable.sizes.get(dim) == length:
            found.append((0, length))
        elif variable.ndim == whole.ndim == 1 and variable.size:
            values, size = whole.values, variable.size
            starts = np.flatnonzero(values[: length - size + 1] == variable.values[0]).tolist()
            same = (one for one in starts if np.array_equal(values[one : one + size], variable.values))
            start = next(same, None)
            if start is None:
                return None
            found.append((start, start + size))
        else:
            return None
    return found


def _equal(one: Any, two: Any) -> bool:
    return bool(one.equals(two))


# ---------------------------------------------------------------- attributes
def _check_attributes(
    where: str, shown: Mapping[Any, Any], stored: Mapping[Any, Any], encoding: Mapping[Any, Any]
) -> None:
    """Raise UsageError if attributes are not those of the file, apart from what decoders took out of them."""
    changed = [name for name, value in shown.items() if name in stored and not _same(value, stored[name])]
    changed += [name for name in shown if name not in stored and name not in _DECODED]
    gone = [name for name in stored if not (name in shown or name in encoding or name in _DECODED)]
    if gone:
        names = ", ".join(map(str, gone[:3]))
        raise UsageError(f"attributes or encoding of {where} were dropped, or it was computed ({names}): {WAY_OUT}")
    if changed:
        names = ", ".join(map(str, changed[:3]))
        raise UsageError(f"attributes of {where} were changed in memory ({names}): {WAY_OUT}")


def _same(one: Any, two: Any) -> bool:
    left, right = np.asarray(one), np.asarray(two)
    numbers = left.dtype.kind in "fc" and right.dtype.kind in "fc"
    return bool(np.array_equal(left, right, equal_nan=numbers))
