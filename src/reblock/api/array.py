"""Array: a stored array, opened for reading and indexed like a numpy array."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.access_log import AccessLog, location_name
from reblock.api.joining import joined_source
from reblock.api.machine import DEFAULT_MEMORY, cores, parse_memory
from reblock.api.spreading import DisksGiven, allowed_folders
from reblock.engine import Step, View, load
from reblock.errors import DiskError, InfeasibleError, ReblockError, UsageError, option
from reblock.geometry import Box
from reblock.geometry.grid import Cut
from reblock.geometry.notation import parse_axis
from reblock.model import Layout, Store, Updatable
from reblock.runs.source import Files, look
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.storage.objects.found import ArrayObject
from reblock.storage.objects.opening import open_object
from reblock.units import parse_size

#: What locations of replicas start with.
REPLICAS = "replicas:"
#: How often a region is read whose chunks are replaced meanwhile.
_MOST_ATTEMPTS = 20
#: Copies of a chunk that an update takes: elements, stored bytes, and buffers of the library that moves them.
_UPDATE_COPIES = 6


@dataclass(frozen=True)
class Array:
    """A stored array, opened for reading, or also for updates."""

    store: Store
    """The adapter behind it."""
    memory_bytes: int = parse_size(DEFAULT_MEMORY)
    """Memory budget for reading, beside the result."""
    log: AccessLog | None = field(default=None, repr=False, compare=False)
    """Where its reads are logged."""
    mode: str = "r"
    """`r`, or `r+` if elements may be assigned."""
    files: Files = field(init=False, repr=False, compare=False)
    """The state of the files that describe it, when it was opened."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", look(self.store.described_by))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.store.schema.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, decoded."""
        return self.size * self.dtype.itemsize

    @property
    def axes(self) -> tuple[str, ...] | None:
        """Names of the axes, or None."""
        return self.store.schema.axes

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.store.schema.dtype

    @property
    def chunks(self) -> tuple[Cut, ...]:
        return self.store.schema.chunks

    @property
    def layout(self) -> Layout:
        return self.store.layout

    @property
    def attributes(self) -> dict[str, Any]:
        return dict(self.store.schema.attributes)

    def logged(self, log: Where) -> Array:
        """The same array with its reads appended to a log."""
        again = copy(self)
        object.__setattr__(again, "log", AccessLog(log, location_name(self.store.location), self.shape))
        return again

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __bool__(self) -> bool:
        # As in numpy.
        raise ValueError("an array has no truth value: compare its size, or its elements")

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Read a region: integers, slices and `...` as in numpy, or a dict of them by axis name."""
        return _getitem(self, key)

    def load_box(self, box: Box, steps: Sequence[Step] | None = None) -> npt.NDArray[Any]:
        """The elements of a box; with steps, some along each axis. A chunk that is replaced is read again."""
        for attempt in range(_MOST_ATTEMPTS):
            try:
                return load(View.whole(self.store), box, steps=steps, memory_bytes=self.memory_bytes, threads=cores())
            except DiskError as error:
                if error.errno != errno.ESTALE or attempt == _MOST_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replace a region, if the array was opened with `mode="r+"`: all elements or none, in one transaction."""
        _setitem(self, key, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:  # noqa: FBT001 - numpy's signature
        """All elements, for `numpy.asarray` and similar functions."""
        if copy is False:
            raise ValueError(f"{self.store.location} is on storage: its elements cannot be read without a copy")
        elements = np.asarray(self[...])
        return elements if dtype is None else elements.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<reblock.Array {self.store.location} {self.store.format} {self.shape} {self.dtype}>"


#: All that can be read: a path or URL, an array that is open, or an object of h5py, zarr or numpy.
ArraySource = Where | Array | ArrayObject


def open(
    source: ArraySource | Sequence[Where],
    *,
    format: str | None = None,
    allow_external: Sequence[Where] = (),
    disks: DisksGiven | None = None,
    memory: str | int | None = None,
    log: Where | None = None,
    mode: str = "r",
    concat: str | int | None = None,
    stack: str | None = None,
) -> Array:
    """Open an array for reading; links and file names in it may only lead into allowed folders.

    The source is a path or URL, or an `h5py.Dataset`, a `zarr.Array` or a `numpy.ndarray`. An object is opened by the
    path of the local file behind it; if there is none, elements are read through the object.

    `disks` are the folders over which a block folder was spread; they may have been mounted elsewhere since.

    `memory` is the budget for slicing, 1 GiB by default. It does not include the result, but everything else, such as
    the chunks that are being decoded.

    `log` is a file to which each read is appended, for `reblock advise --log`; several processes may share it.

    With `mode="r+"`, regions can be assigned: `array[10:20] = 0` rewrites the chunks that it touches, in one
    transaction. Arrays in PostgreSQL can be opened so, see `reblock.create`.

    With `concat`, the source is a pattern such as `era5_*.nc::t2m` or a list of paths, and all arrays follow each other
    along that axis, in the order of its coordinate or else of their names. With `stack`, they follow each other along a
    new first axis of that name.

    Examples
    --------
    >>> import numpy, reblock, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(6).reshape(2, 3))
    >>> reblock.open(path)[1, :2].tolist()
    [3, 4]
    """
    try:
        one = joined_source(source, concat, stack)
        array = for_updates(open_array(one, format, allowed_folders(allow_external, disks), memory), mode)
        return array if log is None else array.logged(log)
    except ReblockError as error:
        # Other functions call it `from_format`, because they have two formats.
        error.args = (error.message.replace(option("from_format"), option("format")), *error.args[1:])
        raise


def open_array(
    source: ArraySource, format: str | None, allow_external: Sequence[Where], memory: str | int | None = None
) -> Array:
    """`open` for functions that call the format `from_format`."""
    memory_bytes = parse_memory(memory)
    if isinstance(source, Array):
        if memory is None:
            return source
        # Not opened again, so that it keeps the state of its files from when it was opened.
        again = copy(source)
        object.__setattr__(again, "memory_bytes", memory_bytes)
        return again
    if isinstance(allow_external, str | os.PathLike):
        raise UsageError(f"allow_external is a list of folders, not {allow_external!r}")
    allow = tuple(os.fspath(folder) for folder in allow_external)
    if isinstance(source, str) and source.startswith(REPLICAS):
        # Loaded on first use: it needs the advisor.
        replicas: Array = import_module("reblock.api.replicas.array").open_replicas(source[len(REPLICAS) :], memory)
        return replicas
    if isinstance(source, str | os.PathLike):
        return Array(registry.open(source, format, allow), memory_bytes)
    if format is not None:
        raise UsageError(f"{option('from_format')} is for a path: an object is of the format of its library")
    return Array(open_object(source, allow), memory_bytes)


def for_updates(array: Array, mode: str) -> Array:
    """An array in a mode; UsageError if its format cannot replace elements."""
    if mode not in ("r", "r+"):
        raise UsageError(f"mode is 'r' or 'r+', not {mode!r}")
    if mode == "r+" and not isinstance(array.store, Updatable):
        raise UsageError(
            f"{array.store.location}: arrays of the format {array.store.format} cannot be updated in place, those in "
            "PostgreSQL can"
        )
    if mode == array.mode:
        return array
    again = copy(array)
    object.__setattr__(again, "mode", mode)
    return again


def _getitem(array: Array, key: Any) -> npt.NDArray[Any]:
    box, steps, after = _selection(array, key)
    if not box.size:
        return np.empty(box.shape, array.dtype)[after]
    found = array.load_box(box, steps)
    if array.log is not None:
        array.log.note(box.start, box.stop)
    return found[after]


def _setitem(array: Array, key: Any, value: Any) -> None:
    store = array.store
    if array.mode != "r+" or not isinstance(store, Updatable):
        raise UsageError(f"{store.location} was opened for reading: open it with mode='r+'")
    needed = _UPDATE_COPIES * store.layout.object_bytes
    if needed > array.memory_bytes:
        raise InfeasibleError(
            f"updating chunks of {store.layout.object_bytes:,} bytes needs {needed:,} bytes of memory",
            needs_memory_bytes=needed,
        )
    box, steps, after = _selection(array, key)
    counts = [-(-(stop - start) // step) for start, stop, step in zip(box.start, box.stop, steps, strict=True)]
    wanted = [count for count, one in zip(counts, after, strict=True) if isinstance(one, slice)]
    try:
        values = np.broadcast_to(_elements(value, array.dtype), wanted).reshape(counts)
    except ValueError as error:
        raise UsageError(f"the values do not fit into a region of {tuple(wanted)}: {error}") from None
    if box.size:
        store.update(box, steps, values[tuple(one if isinstance(one, slice) else slice(None) for one in after)])


def _elements(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Values as elements of a type; UsageError if any of them changes in a way that rounding does not explain."""
    try:
        given = np.asarray(value)
        if given.dtype != dtype and isinstance(value, int | float) and not isinstance(value, bool):
            given = np.asarray(value, dtype) if float(value).is_integer() or dtype.kind in "fc" else given
        if not np.can_cast(given.dtype, dtype, "same_kind"):
            raise TypeError(f"elements of type {given.dtype} are not of type {dtype}")
        found = given.astype(dtype)
    except (TypeError, OverflowError, ValueError) as error:
        raise UsageError(f"cannot assign this value: {error}") from None
    if given.dtype.kind in "biu" and dtype.kind in "biu" and not np.array_equal(found, given):
        raise UsageError(f"cannot assign this value: integers are outside the range of {dtype}")
    return found


def _selection(array: Array, key: Any) -> tuple[Box, list[int], tuple[slice | int, ...]]:
    """The box and steps of an index, and the index of the result in what is read."""
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    after: list[slice | int] = []
    for k, length in zip(_keys(array, key), array.shape, strict=True):
        if isinstance(k, slice):
            taken = range(length)[k]
            low, high = (min(taken), max(taken) + 1) if taken else (0, 0)
            steps.append(abs(taken.step))
            # Read forwards, and reversed afterwards.
            after.append(slice(None, None, -1 if taken.step < 0 else 1))
        else:
            try:
                low = range(length)[k]
            except (IndexError, TypeError) as error:
                raise UsageError(f"index {k!r} on an axis of {length}: {error}") from None
            high = low + 1
            steps.append(1)
            after.append(0)
        starts.append(low)
        stops.append(high)
    return Box(tuple(starts), tuple(stops)), steps, tuple(after)


def _keys(array: Array, key: Any) -> list[Any]:
    """One index for every axis."""
    if isinstance(key, Mapping):
        keys: list[Any] = [slice(None)] * array.ndim
        for name, one in key.items():
            keys[parse_axis(name, array.ndim, array.axes)] = one
        return keys
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise UsageError("an index can only have a single ellipsis ('...')")
    given = sum(k is not Ellipsis for k in keys)
    if given > array.ndim:
        raise UsageError(f"{given} indices for an array of {array.ndim} axes")
    place = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (array.ndim - given)
    return keys
