"""Array: a stored array, opened for reading and indexed like a numpy array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.machine import cores, parse_memory
from reblock.engine import View, load
from reblock.errors import ReblockError, UsageError, option
from reblock.geometry import Box
from reblock.geometry.grid import Cut
from reblock.geometry.notation import parse_axis
from reblock.model import Layout, Store
from reblock.runs.source import Files, look
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.storage.objects.found import ArrayObject
from reblock.storage.objects.opening import open_object
from reblock.units import parse_size

#: The default memory budget.
DEFAULT_MEMORY = "1GiB"


@dataclass(frozen=True)
class Array:
    """A stored array, opened for reading."""

    store: Store
    """The adapter behind it."""
    memory_bytes: int = parse_size(DEFAULT_MEMORY)
    """Memory budget for reading, beside the result."""
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
    source: ArraySource,
    *,
    format: str | None = None,
    allow_external: Sequence[Where] = (),
    memory: str | int | None = None,
) -> Array:
    """Open an array for reading; links and file names in it may only lead into allowed folders.

    The source is a path or URL, or an `h5py.Dataset`, a `zarr.Array` or a `numpy.ndarray`. An object is opened by the
    path of the local file behind it; if there is none, elements are read through the object.

    `memory` is the budget for slicing, 1 GiB by default. It does not include the result, but everything else, such as
    the chunks that are being decoded.

    Examples
    --------
    >>> import numpy, reblock, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(6).reshape(2, 3))
    >>> reblock.open(path)[1, :2].tolist()
    [3, 4]
    """
    try:
        return open_array(source, format, allow_external, memory)
    except ReblockError as error:
        # Other functions call it `from_format`, because they have two formats.
        error.args = (error.message.replace(option("from_format"), option("format")), *error.args[1:])
        raise


def open_array(
    source: ArraySource, format: str | None, allow_external: Sequence[Where], memory: str | int | None = None
) -> Array:
    """`open` for functions that call the format `from_format`."""
    memory_bytes = parse_memory(DEFAULT_MEMORY if memory is None else memory)
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
    if isinstance(source, str | os.PathLike):
        return Array(registry.open(source, format, allow), memory_bytes)
    if format is not None:
        raise UsageError(f"{option('from_format')} is for a path: an object is of the format of its library")
    return Array(open_object(source, allow), memory_bytes)


def _getitem(array: Array, key: Any) -> npt.NDArray[Any]:
    keys = _keys(array, key)
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    after: list[slice | int] = []
    for k, length in zip(keys, array.shape, strict=True):
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
    box = Box(tuple(starts), tuple(stops))
    if not box.size:
        return np.empty(box.shape, array.dtype)[tuple(after)]
    return load(View.whole(array.store), box, steps=steps, memory_bytes=array.memory_bytes, threads=cores())[
        tuple(after)
    ]


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
