"""Finds the loads of a graph: which node reads which box of which stored array.

A load whose only use is a slice of it reads that slice only, as dask itself would have it. Slices are composed as
`range` objects: `range(n)[a:b:c][d:e]` is the elements that are left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from dask._task_spec import DataNode, Task, TaskRef

from reblock.dask.graphs import GETTERS, SELECTORS, Graph, Key, arguments, dependents_of, value_of
from reblock.dask.sources import DiskArray, find_array
from reblock.geometry.axis import Ints

#: The elements of an axis that a load reads: an arithmetic sequence, or one element of an axis that it drops.
Selected = range | int

#: First element and end of a box, and what is taken of it; None = everything.
_Bounds = tuple[list[int], list[int], tuple[Any, ...] | None]

_GETTER_NAMES = ("a", "b", "asarray", "lock")
#: A load that takes less than one in this many elements of its box is left alone.
_SPARSE = 4


@dataclass
class LoadedArray:
    """The loads from one stored array."""

    obj: Any
    """The object that the graph reads."""
    disk: DiskArray
    """The stored array."""
    lock: Any
    """The lock of its loads, or None."""
    keys: list[Key] = field(default_factory=list)
    """The node of each load."""
    starts: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """First element of the box of each load, per axis."""
    stops: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """End of the box of each load, per axis."""
    indices: list[tuple[Any, ...] | None] = field(default_factory=list)
    """What each load takes of its box; None = everything."""
    boxes: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """Bounds, while loads are collected."""

    def close(self) -> None:
        """Turn the collected bounds into arrays."""
        shape = (len(self.keys), self.disk.layout.ndim)
        self.starts = np.array([low for low, _ in self.boxes], np.int64).reshape(shape)
        self.stops = np.array([high for _, high in self.boxes], np.int64).reshape(shape)
        self.boxes = []


@dataclass
class Loads:
    """The loads of a graph."""

    arrays: list[LoadedArray] = field(default_factory=list)
    """The stored arrays."""
    passed_over: int = 0
    """Loads of stored arrays that are left alone: nothing, too little of a box, or no slices of it."""


def find_loads(graph: Graph, keys: Collection[Key]) -> Loads:
    """The loads of a graph, by stored array."""
    found, wanted = Loads(), set(keys)
    candidates = {key: node for key, node in graph.items() if type(node) is Task and node.func in SELECTORS}
    dependents: dict[Key, list[Key]] | None = None
    # Only what a selection uses can be sliced; the users of all nodes are found only if that happens.
    sliced = set().union(*(node.dependencies for node in candidates.values())).intersection(candidates)
    known: dict[int, DiskArray | None] = {}
    held: list[Any] = []
    arrays: dict[Any, LoadedArray] = {}
    for key, task in candidates.items():
        origin = _origin(graph, task, known, held)
        if origin is None:
            continue
        obj, disk, index, lock = origin
        end, bounds = key, _plain_bounds(index, disk.layout.shape)
        if bounds is None or (key in sliced and key not in wanted):
            selected = select_elements([range(n) for n in disk.layout.shape], index)
            if selected is not None:
                if dependents is None:
                    dependents = dependents_of(graph)
                end, selected = _follow(graph, key, selected, dependents, wanted)
            bounds = None if selected is None or _is_sparse(selected) else _bounds(selected)
        if bounds is None:
            found.passed_over += 1
            continue
        group = (disk.identity, id(lock))
        if group not in arrays:
            arrays[group] = LoadedArray(obj, disk, lock)
        array = arrays[group]
        array.keys.append(end)
        array.boxes.append(bounds[:2])
        array.indices.append(bounds[2])
    found.arrays = list(arrays.values())
    for array in found.arrays:
        array.close()
    return found


def _origin(
    graph: Graph, task: Task, known: dict[int, DiskArray | None], held: list[Any]
) -> tuple[Any, DiskArray, Any, Any] | None:
    """The object that a task reads, the stored array behind it, the index and the lock; None if it is no load."""
    args = task.args
    if len(args) == 2 and not task.kwargs and type(args[0]) is TaskRef and type(args[1]) is DataNode:
        # As dask makes almost all of them.
        node: Any = graph.get(args[0].key)
        index, lock = args[1].value, None
        if type(node) is not DataNode:
            return None
        obj = node.value
    else:
        given = arguments(task, _GETTER_NAMES)
        is_value, obj = value_of(graph, given.get("a"))
        has_index, index = value_of(graph, given.get("b"))
        if not is_value or not has_index:
            return None
        _, lock = value_of(graph, given.get("lock"))
    if id(obj) not in known:
        # Kept, so that no other object gets the same id.
        held.append(obj)
        known[id(obj)] = find_array(obj)
    disk = known[id(obj)]
    if disk is None:
        return None
    return obj, disk, index, lock if task.func in GETTERS and lock else None


def _plain_bounds(index: Any, shape: tuple[int, ...]) -> _Bounds | None:
    """The bounds of an index that is a box as dask writes it; None for any other."""
    if type(index) is not tuple or len(index) != len(shape):
        return None
    starts, stops = [], []
    for one, length in zip(index, shape, strict=True):
        if type(one) is not slice or one.step is not None or type(one.start) is not int or type(one.stop) is not int:
            return None
        if not 0 <= one.start < one.stop <= length:
            return None
        starts.append(one.start)
        stops.append(one.stop)
    return starts, stops, None


def _follow(
    graph: Graph, key: Key, selected: list[Selected], dependents: dict[Key, list[Key]], wanted: set[Key]
) -> tuple[Key, list[Selected]]:
    """The last of the slices that are each the only use of the one before, and what it selects."""
    while key not in wanted and len(users := dependents.get(key, [])) == 1:
        user = graph[users[0]]
        if type(user) is not Task or user.func not in SELECTORS or user.dependencies != {key}:
            break
        given = arguments(user, _GETTER_NAMES)
        first = given.get("a")
        is_value, index = value_of(graph, given.get("b"))
        if type(first) is not TaskRef or not is_value or given.get("lock"):
            break
        less = select_elements(selected, index)
        if less is None:
            break
        key, selected = users[0], less
    return key, selected


def select_elements(selected: list[Selected], index: Any) -> list[Selected] | None:
    """What is left of a selection; None for an index other than slices and integers."""
    indices = index if type(index) is tuple else (index,)
    if Ellipsis in indices if all(type(one) is not np.ndarray for one in indices) else True:
        return None
    left = [place for place, one in enumerate(selected) if type(one) is range]
    if len(indices) > len(left):
        return None
    found = list(selected)
    for place, one in zip(left, indices, strict=False):
        chosen = found[place]
        if isinstance(chosen, int):
            return None
        if type(one) is slice:
            if not all(part is None or isinstance(part, int | np.integer) for part in (one.start, one.stop, one.step)):
                return None
            found[place] = chosen[one]
        elif isinstance(one, int | np.integer) and not isinstance(one, bool):
            if not -len(chosen) <= int(one) < len(chosen):
                return None
            found[place] = chosen[int(one)]
        else:
            return None
    return found


def _is_sparse(selected: list[Selected]) -> bool:
    return prod(abs(one.step) for one in selected if type(one) is range and len(one) > 1) > _SPARSE


def _bounds(selected: list[Selected]) -> _Bounds | None:
    """The box around a selection, and what to take of it; None if nothing is selected."""
    starts: list[int] = []
    stops: list[int] = []
    taken: list[slice | int] = []
    for one in selected:
        if isinstance(one, int):
            starts.append(one)
            stops.append(one + 1)
            taken.append(0)
            continue
        if not one:
            return None
        starts.append(min(one[0], one[-1]))
        stops.append(max(one[0], one[-1]) + 1)
        taken.append(slice(None) if one.step == 1 or len(one) == 1 else slice(None, None, one.step))
    return starts, stops, None if all(one == slice(None) for one in taken) else tuple(taken)
