"""Array: a stored array, opened for reading, indexed as numpy arrays are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.source import Files, look
from reblock.engine import View, load
from reblock.errors import UsageError
from reblock.geometry import Box
from reblock.geometry.grid import Cut
from reblock.model import Layout, Store
from reblock.storage import registry
from reblock.units import parse_size

#: Memory budget where none is given.
DEFAULT_MEMORY = "1GiB"
#: A location as text or as a path.
Where = str | os.PathLike[str]


@dataclass(frozen=True)
class Array:
    """A stored array, opened for reading."""

    store: Store
    """The adapter behind it."""
    memory_bytes: int = parse_size(DEFAULT_MEMORY)
    """Budget of reading, beside the result."""
    files: Files = field(init=False, repr=False, compare=False)
    """What the files that describe it looked like when it was opened."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", look(self.store.described_by))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.store.schema.shape

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

    def __getitem__(self, key: Any) -> npt.NDArray[Any]:
        """Read a region: integers, slices and `...`, as in numpy; steps apply after reading."""
        return _getitem(self, key)

    def __repr__(self) -> str:
        return f"<reblock.Array {self.store.location} {self.store.format} {self.shape} {self.dtype}>"


def open(
    source: Where | Array,
    *,
    format: str | None = None,
    allow_external: Sequence[Where] = (),
    memory: str | int | None = None,
) -> Array:
    """Open an array for reading; links in it, or names of other files, may only lead into folders that are allowed.

    `memory` is the budget of slicing, 1 GiB unless given. The result is the caller's; the budget is for the rest, such
    as the chunks that are being decoded.

    Examples
    --------
    >>> import numpy, reblock, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> numpy.save(path, numpy.arange(6).reshape(2, 3))
    >>> reblock.open(path)[1, :2].tolist()
    [3, 4]
    """
    memory_bytes = parse_size(DEFAULT_MEMORY if memory is None else memory)
    if isinstance(source, Array):
        return source if memory is None else replace(source, memory_bytes=memory_bytes)
    if isinstance(allow_external, str | os.PathLike):
        raise UsageError(f"allow_external is a list of folders, not {allow_external!r}")
    return Array(registry.open(source, format, tuple(os.fspath(folder) for folder in allow_external)), memory_bytes)


def _getitem(array: Array, key: Any) -> npt.NDArray[Any]:
    keys = list(key) if isinstance(key, tuple) else [key]
    ndim = len(array.shape)
    if sum(k is Ellipsis for k in keys) > 1:
        raise UsageError("an index can only have a single ellipsis ('...')")
    given = sum(k is not Ellipsis for k in keys)
    if given > ndim:
        raise UsageError(f"{given} indices for an array of {ndim} axes")
    place = next((n for n, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[place : place + 1] = [slice(None)] * (ndim - given)
    starts: list[int] = []
    stops: list[int] = []
    steps: list[int] = []
    after: list[slice | int] = []
    for k, length in zip(keys, array.shape, strict=True):
        if isinstance(k, slice):
            taken = range(length)[k]
            low, high = (min(taken), max(taken) + 1) if taken else (0, 0)
            steps.append(abs(taken.step))
            # Read upwards, and turned round afterwards.
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
    return load(View.whole(array.store), box, steps=steps, memory_bytes=array.memory_bytes)[tuple(after)]
