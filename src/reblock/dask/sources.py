"""Sources: which stored array is behind an object of a graph, how it lies on disk, and how it is read.

::

    h5py.Dataset, zarr.Array, numpy.memmap     opened again by path where that is the same array, else read through
    reblock.Array                              its own store
    xarray's lazy arrays                       the layout of the array at the bottom; read through the wrapper, which
                                               may decode values

Planning needs the layout only. Reading needs the object or its path: an object that cannot be pickled travels to other
processes as its path.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from reblock.api.array import Array, open_array
from reblock.engine import View
from reblock.errors import ChangedError, ReblockError, UsageError
from reblock.geometry import Box
from reblock.model import Layout, Schema, Store
from reblock.model.store import ObjectBound
from reblock.runs.source import Files, first_change, look
from reblock.storage.location import absolute
from reblock.storage.objects.found import FoundObject
from reblock.storage.objects.store import ObjectStore

#: How deep wrappers may be nested.
_MAX_WRAPPERS = 16


@dataclass(frozen=True)
class DiskArray:
    """A stored array as a graph reads or writes it."""

    name: str
    """The array in words."""
    identity: Hashable
    """Equal for objects that are the same stored array, read in the same way."""
    layout: Layout
    """Where its elements lie; its dtype is that of the elements as they are read."""
    where: str | None = None
    """A path that leads to the same elements; None if they must be read through the object."""
    files: Files = field(default_factory=list)
    """The state of the files that describe it, when it was found."""
    whole_chunks: bool = False
    """Whether the object itself reads whole chunks, even if these are not encoded."""

    @property
    def plain_layout(self) -> Layout:
        """The layout for counting what the object reads without buffers."""
        return replace(self.layout, partial_reads=False) if self.whole_chunks else self.layout


class BufferSource:
    """An array that buffers are read from; picklable if its path is known or its object is."""

    def __init__(self, obj: Any, disk: DiskArray, lock: Any = None) -> None:
        self._obj, self._disk = obj, disk
        # A lock orders calls of a library, and reading by path calls none.
        self.lock = None if disk.where is not None else lock or None
        self._object_lock = lock or None
        self._opening = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # h5py objects cannot be pickled, so a path takes their place.
        return BufferSource, (None if self._disk.where is not None else self._obj, self._disk, self._object_lock)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return type(self).__name__, self._disk.where or str(id(self._obj))

    @property
    def layout(self) -> Layout:
        return self._disk.layout

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._disk.layout.dtype

    @property
    def view(self) -> View:
        """How the engine reads it."""
        with self._opening:
            return self._view

    @cached_property
    def _view(self) -> View:
        where = self._disk.where
        return View.whole(_store_of(self._obj) if where is None else open_array(where, None, ()).store)

    def check(self) -> None:
        """Raise ChangedError if its files have changed since it was found."""
        if changed := first_change(self._disk.files):
            raise ChangedError(f"{self._disk.name}: {changed} has changed since the graph was optimised")

    def read_directly(self, index: tuple[Any, ...]) -> Any:
        """Read one region as the graph would have done without buffers."""
        obj = self._obj
        if obj is None:
            self.check()
            obj = open_array(str(self._disk.where), None, ())
        if self._object_lock:
            with self._object_lock:
                return np.asarray(obj[index])
        return np.asarray(obj[index])


def find_array(obj: Any) -> DiskArray | None:
    """The stored array behind an object; None if there is none, or if it is not known how it lies on disk."""
    try:
        return _find(obj)
    except (ReblockError, OSError, ValueError, TypeError, AttributeError, KeyError, RuntimeError):
        # The graph reads the object without us, and reports what is wrong with it.
        return None


def _find(obj: Any) -> DiskArray | None:
    if isinstance(obj, Array):
        return _of_store(obj.store, obj)
    if _is_wrapper(obj):
        return _unwrap(obj)
    names = {(one.__module__.partition(".")[0], one.__name__) for one in type(obj).__mro__}
    mapped = isinstance(obj, np.memmap) and obj.filename is not None
    if not mapped and not names & {("h5py", "Dataset"), ("zarr", "Array")}:
        return None
    found = _of_store(open_array(obj, None, ()).store, obj)
    return replace(found, whole_chunks=True) if ("zarr", "Array") in names else found


def _of_store(store: Store, obj: Any) -> DiskArray:
    dtype = np.dtype(obj.dtype)
    layout = replace(store.layout, dtype=dtype)
    if isinstance(store, ObjectBound) or store.layout.dtype != dtype:
        # Another object may be the same array, but that cannot be known.
        return DiskArray(store.location, ("object", id(obj)), layout)
    # Whoever writes through a memmap changes the times of its file, and its elements are the same.
    shared = isinstance(obj, np.memmap) and obj.mode != "r"
    files = [] if shared else look(store.described_by)
    return DiskArray(store.location, ("path", store.location), layout, absolute(store.location), files)


def _is_wrapper(obj: Any) -> bool:
    return type(obj).__module__.partition(".")[0] == "xarray"


def _unwrap(obj: Any) -> DiskArray | None:
    """The array at the bottom of xarray's wrappers, if these keep its shape and axes."""
    inner, region = obj, Box.whole(tuple(obj.shape))
    for _ in range(_MAX_WRAPPERS):
        if not _is_wrapper(inner):
            break
        region = _seen_through(inner, region)
        inner = _behind(inner)
    found = _find(inner)
    if found is None:
        return None
    if len(region.start) != found.layout.ndim:
        return None
    layout = found.layout.view(region, range(found.layout.ndim))
    if layout.shape != tuple(obj.shape):
        return None
    # Values may be decoded on the way, so this is not the same array as the one at the bottom.
    layout = replace(layout, dtype=np.dtype(obj.dtype))
    return replace(found, identity=("wrapper", id(obj)), layout=layout, where=None, files=[])


def _seen_through(wrapper: Any, region: Box) -> Box:
    """The region of the wrapped array that a region of a wrapper shows."""
    key = getattr(wrapper, "key", None)
    if key is None:
        return region
    indices, shape = tuple(key.tuple), tuple(wrapper.array.shape)
    starts, stops = [], []
    for index, length, start, stop in zip(indices, shape, region.start, region.stop, strict=True):
        if not isinstance(index, slice) or index.step not in (None, 1):
            raise UsageError("only plain slices of a wrapped array are read in buffers")
        first = range(length)[index].start
        starts.append(first + start)
        stops.append(first + stop)
    return Box(tuple(starts), tuple(stops))


def _behind(wrapper: Any) -> Any:
    """What a wrapper wraps."""
    for name in ("array", "_array"):
        if (inner := getattr(wrapper, name, None)) is not None:
            return inner
    # An array of a backend opens its variable when it is needed.
    variable = wrapper.get_array()
    return getattr(variable, "_h5ds", variable)


def _store_of(obj: Any) -> Store:
    """A store that reads through an object."""
    if isinstance(obj, Array):
        return obj.store
    if not _is_wrapper(obj):
        return open_array(obj, None, ()).store
    found = find_array(obj)
    if found is None:
        raise UsageError(f"{type(obj).__name__} is not read in buffers")
    layout = found.layout
    aligned = not any(axis.lead for axis in layout.units.axes)
    whole = aligned and (layout.encoded or layout.indexed or not layout.partial_reads)
    chunks = layout.units.largest_stored if whole else tuple(max(n, 1) for n in layout.shape)
    schema = Schema(layout.shape, layout.dtype, chunks, order=layout.order)
    return ObjectStore(
        FoundObject(
            found.name,
            "xarray",
            "zarr",
            lambda region: np.asarray(obj[region]),
            lambda: schema,
            layout.shape,
            layout.dtype,
            whole,
        ),
        schema,
    )
