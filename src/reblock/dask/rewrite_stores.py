"""Rewrites stores: chunks become parts of buffers that are written at once.

::

    before      chunk ──▶ store           after      chunk ──┐
                chunk ──▶ store                      chunk ──┴─▶ write ──▶ store (only the name of the result)

Stores keep their keys. A buffer is written only if chunks fill all of it; chunks of other buffers are stored as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import numpy as np
from dask._task_spec import DataNode, List, Task, TaskRef

from reblock.dask.buffers import BufferPlan, Refusal, plan_stores
from reblock.dask.graphs import Graph, Key
from reblock.dask.outcome import ArrayOutcome
from reblock.dask.stores import StoredChunks, Stores
from reblock.dask.tally import Run
from reblock.dask.writing import WriteSpec, WriteTarget, stored, write_buffer
from reblock.geometry import Box


def rewrite_stores(
    graph: Graph, stores: Stores, run: Run, strategy: str, *, memory_bytes: int
) -> tuple[Graph, list[ArrayOutcome]]:
    """A graph whose stores use buffers where that is faster; buffers of all arrays share the memory."""
    plans = [_plan(array, memory_bytes, strategy) for array in stores.arrays]
    buffered = sum(isinstance(plan, BufferPlan) for plan in plans)
    if buffered > 1:
        plans = [
            _plan(array, memory_bytes // buffered, strategy) if isinstance(plan, BufferPlan) else plan
            for array, plan in zip(stores.arrays, plans, strict=True)
        ]
    outcomes, found = [], dict(graph)
    for array, plan in zip(stores.arrays, plans, strict=True):
        outcomes.append(ArrayOutcome(array.disk, True, array.starts, array.stops, plan))
        if isinstance(plan, BufferPlan):
            found.update(_nodes(array, plan, run))
    return found, outcomes


def _plan(array: StoredChunks, memory_bytes: int, strategy: str) -> BufferPlan | Refusal:
    found = plan_stores(
        array.disk.layout, array.starts, array.stops, memory_bytes=max(memory_bytes, 1), strategy=strategy
    )
    if isinstance(found, BufferPlan) and not _are_full(found).all():
        return Refusal("chunks do not fill its buffers", found.plain)
    return found


def _are_full(plan: BufferPlan) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the pieces of each buffer fill it; they do not overlap."""
    rows = plan.pieces
    filled = np.bincount(rows.buffer, (rows.stops - rows.starts).prod(axis=1), minlength=plan.count)
    full: np.ndarray[tuple[int], np.dtype[np.bool_]] = filled == (plan.stops - plan.starts).prod(axis=1)
    return full


def _nodes(array: StoredChunks, plan: BufferPlan, run: Run) -> Iterator[tuple[Key, object]]:
    name = f"reblock-{uuid4().hex}"
    target = f"{name}-target"
    yield target, DataNode(target, WriteTarget(array.obj, array.lock, array.disk.layout))
    wholes = [Box(tuple(low), tuple(high)) for low, high in array.boxes]
    rows = plan.pieces
    members: list[list[tuple[int, Box]]] = [[] for _ in range(plan.count)]
    written: list[list[TaskRef]] = [[] for _ in wholes]
    for owner, buffer, start, stop in zip(
        *(rows.owner.tolist(), rows.buffer.tolist(), rows.starts.tolist(), rows.stops.tolist()), strict=True
    ):
        members[buffer].append((owner, Box(tuple(start), tuple(stop))))
        written[owner].append(TaskRef((f"{name}-write", buffer)))
    for buffer, box in enumerate(plan.boxes()):
        key = (f"{name}-write", buffer)
        parts, chunks = tuple(part for _, part in members[buffer]), tuple(wholes[owner] for owner, _ in members[buffer])
        refs = List(*(TaskRef(array.chunks[owner]) for owner, _ in members[buffer]))
        yield key, Task(key, write_buffer, DataNode(None, WriteSpec(run, box, parts, chunks)), TaskRef(target), refs)
    for owner, name_of_store in enumerate(array.keys):
        yield name_of_store, Task(name_of_store, stored, array.obj if array.returns[owner] else None, *written[owner])
