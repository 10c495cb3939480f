"""Dataset: the arrays of a file or group, opened for reading by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.array import Array
from reblock.api.described import describe_dataset
from reblock.api.machine import DEFAULT_MEMORY, parse_memory
from reblock.errors import ReblockError, UsageError, option
from reblock.model import TableSchema, TreeStore
from reblock.render.tree import tree_text
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.units import parse_size

#: The most names that an error lists.
_MANY_NAMES = 20


@dataclass(frozen=True)
class Dataset:
    """The arrays of a file or group, by name; a name of a group gives the dataset below it."""

    store: TreeStore
    """The adapter behind it."""
    group: str = ""
    """The group that names start from; "" = the top."""
    memory_bytes: int = parse_size(DEFAULT_MEMORY)
    """Memory budget for reading an array, beside the result."""

    def __getitem__(self, name: str) -> Array | Dataset:
        """An array by its name, such as `t2m` or `ocean/t2m`, or the dataset of a group."""
        inner = self._inner(name)
        if inner in self.store.tree.arrays:
            return Array(self.store.array(inner), self.memory_bytes)
        if inner in self.store.tree.groups:
            return Dataset(self.store, inner, self.memory_bytes)
        if (table := self.store.tree.tables.get(inner)) is not None:
            why = table.why or f"its elements are of any length or type ({table.kind}); read it with `read_table`"
            raise UsageError(f"{self.store.location}: {name!r} is not an array that can be sliced: {why}")
        some = [*self, *self.tables][:_MANY_NAMES]
        there = (
            f"there are {', '.join(map(repr, some))}{', …' if len(self) > len(some) else ''}" if some else "it is empty"
        )
        raise UsageError(f"{self.store.location}: there is no array {name!r}: {there}")

    def __iter__(self) -> Iterator[str]:
        """The names of the arrays."""
        return iter(self._below(self.store.tree.arrays))

    def __len__(self) -> int:
        return len(self._below(self.store.tree.arrays))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._inner(name) in self.store.tree.arrays

    def __bool__(self) -> bool:
        return True

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays by name."""
        prefix = self._inner("")
        inside = f"{prefix}/" if prefix else ""
        return {name: Array(self.store.array(inside + name), self.memory_bytes) for name in self}

    @property
    def tables(self) -> dict[str, TableSchema]:
        """Arrays that cannot be sliced: text of any length, records, enumerations, and types that are not supported."""
        return self._below(self.store.tree.tables)

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, parents first."""
        return tuple(name for name in self._below(self.store.tree.groups) if name)

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of the group."""
        return dict(self.store.tree.groups[self.group].attributes)

    @property
    def dimensions(self) -> dict[str, int]:
        """Lengths of the axes that are defined in the group."""
        return {name: one.length for name, one in self.store.tree.groups[self.group].dimensions.items()}

    def read_table(self, name: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Rows of one of the `tables`, all within the memory budget; objects are `str` or `bytes`."""
        inner = self._inner(name)
        table = self.store.tree.tables.get(inner)
        if table is None:
            raise UsageError(f"{self.store.location}: there is no table {name!r}")
        if not table.shape:
            return self.store.rows(inner, 0, 1, self.memory_bytes)
        first, last, _ = slice(start, stop).indices(table.shape[0])
        parts, left = [], self.memory_bytes
        while first < last:
            parts.append(self.store.rows(inner, first, last, max(left, 1)))
            left -= parts[-1].nbytes
            first += len(parts[-1])
        return np.concatenate(parts) if parts else np.empty((0, *table.shape[1:]), table.dtype)

    def tree(self) -> str:
        """All groups and arrays as text."""
        return tree_text(describe_dataset(self.store, self.group), repr_of(self))

    def _inner(self, name: str) -> str:
        parts = [part for part in name.split("/") if part]
        return "/".join([self.group, *parts] if self.group else parts)

    def _below(self, names: Any) -> dict[str, Any]:
        if not self.group:
            return dict(names)
        inside = f"{self.group}/"
        return {name[len(inside) :]: one for name, one in names.items() if name.startswith(inside)}

    def __repr__(self) -> str:
        count = len(self)
        return f"<reblock.Dataset {repr_of(self)} {self.store.format} {count} array{'' if count == 1 else 's'}>"


def repr_of(dataset: Dataset) -> str:
    """The location of a dataset."""
    if not dataset.group:
        return dataset.store.location
    path, _, inner = dataset.store.location.partition("::")
    return f"{path}::{'/'.join(filter(None, [inner, dataset.group]))}"


def open_dataset(
    source: Where, *, format: str | None = None, allow_external: Sequence[Where] = (), memory: str | int | None = None
) -> Dataset:
    """Open all arrays of a file or group for reading, without reading their elements.

    The source is a path or URL, with `::GROUP` for a part of it. Slices of the arrays stay within `memory`, 1 GiB by
    default.

    Examples
    --------
    >>> import os, reblock, tempfile, zarr
    >>> path = os.path.join(tempfile.mkdtemp(), "x.zarr")
    >>> group = zarr.create_group(path)
    >>> array = group.create_array("ocean/t2m", data=__import__("numpy").arange(6.0))
    >>> dataset = reblock.open_dataset(path)
    >>> list(dataset), dataset["ocean"]["t2m"][2:4].tolist()
    (['ocean/t2m'], [2.0, 3.0])
    """
    if isinstance(allow_external, str | os.PathLike):
        raise UsageError(f"allow_external is a list of folders, not {allow_external!r}")
    memory_bytes = parse_memory(memory)
    try:
        return Dataset(
            registry.open_tree(source, format, tuple(os.fspath(folder) for folder in allow_external)), "", memory_bytes
        )
    except ReblockError as error:
        error.args = (error.message.replace(option("from_format"), option("format")), *error.args[1:])
        raise
