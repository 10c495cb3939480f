"""Finds the stores of a graph: which node writes which box of which stored array."""

from __future__ import annotations

from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
from dask._task_spec import Task, TaskRef

from reblock.dask.buffers import has_overlaps
from reblock.dask.graphs import STORERS, Graph, Key, arguments, value_of
from reblock.dask.loads import select_elements
from reblock.dask.sources import DiskArray, find_array
from reblock.geometry.axis import Ints


@dataclass
class StoredChunks:
    """The chunks that are stored to one array."""

    obj: Any
    """The object that the graph writes to."""
    disk: DiskArray
    """The stored array."""
    lock: Any
    """The lock of its stores, or None."""
    keys: list[Key] = field(default_factory=list)
    """The node of each store."""
    chunks: list[Key] = field(default_factory=list)
    """The node whose value each store writes."""
    returns: list[bool] = field(default_factory=list)
    """Whether the value of each store is the object, and not None."""
    boxes: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """Bounds of the box of each store."""

    @property
    def starts(self) -> Ints:
        """First element of the box of each store, per axis."""
        return np.array([low for low, _ in self.boxes], np.int64).reshape(len(self.boxes), self.disk.layout.ndim)

    @property
    def stops(self) -> Ints:
        """End of the box of each store, per axis."""
        return np.array([high for _, high in self.boxes], np.int64).reshape(len(self.boxes), self.disk.layout.ndim)


@dataclass
class Stores:
    """The stores of a graph."""

    arrays: list[StoredChunks] = field(default_factory=list)
    """The stored arrays."""
    notes: list[str] = field(default_factory=list)
    """What is left alone, and why."""


def find_stores(graph: Graph) -> Stores:
    """The stores of a graph, by stored array."""
    found = Stores()
    arrays: dict[Any, StoredChunks] = {}
    known: dict[int, tuple[Any, DiskArray | None]] = {}
    mixed = set()
    for key, task in graph.items():
        if type(task) is not Task or task.func not in STORERS:
            continue
        given = arguments(task, tuple(signature(task.func).parameters))
        is_value, obj = value_of(graph, given.get("out"))
        if not is_value:
            continue
        if id(obj) not in known:
            known[id(obj)] = (obj, find_array(obj))
        disk = known[id(obj)][1]
        if disk is None:
            continue
        lock = _plain(graph, given.get("lock")) or None
        array = arrays.setdefault(disk.identity, StoredChunks(obj, disk, lock))
        bounds = _bounds(graph, given, disk)
        chunk: Any = given.get("x")
        if bounds is None or array.lock is not lock or type(chunk) is not TaskRef or _is_read_back(graph, given):
            mixed.add(disk.identity)
            continue
        array.keys.append(key)
        array.chunks.append(chunk.key)
        array.returns.append(bool(_plain(graph, given.get("return_stored"))))
        array.boxes.append(bounds)
    for identity, array in arrays.items():
        if reason := _why_not(array, mixed=identity in mixed):
            found.notes.append(f"{array.disk.name} is written chunk by chunk: {reason}")
        else:
            found.arrays.append(array)
    return found


def _why_not(array: StoredChunks, *, mixed: bool) -> str:
    if mixed:
        return "some of its stores are not plain boxes, have different locks, or read back what they wrote"
    if has_overlaps(array.starts, array.stops):
        return "some of its stores overlap, and which of them wins must not depend on buffers"
    return ""


def _plain(graph: Graph, node: Any) -> Any:
    return value_of(graph, node)[1]


def _is_read_back(graph: Graph, given: dict[str, Any]) -> bool:
    return bool(_plain(graph, given.get("return_stored")) and _plain(graph, given.get("load_stored")))


def _bounds(graph: Graph, given: dict[str, Any], disk: DiskArray) -> tuple[list[int], list[int]] | None:
    """The box that a store writes; None if it is no box, or empty."""
    left: Any = [range(n) for n in disk.layout.shape]
    for name in ("region", "index"):
        index = _plain(graph, given.get(name))
        if index is not None:
            left = select_elements(left, index)
            if left is None:
                return None
    if not all(type(one) is range and len(one) and one.step == 1 for one in left):
        return None
    return [one.start for one in left], [one.stop for one in left]
