"""Rewrites a graph: loads become pieces of buffers, and stores parts of buffers that are written at once.

::

    before      load ──▶ ...              after      buffer ──▶ piece ──▶ ...
                load ──▶ ...                             └────▶ piece ──▶ ...
                load ──▶ ...                         buffer ──▶ piece ──▶ ...

Pieces keep the keys of their loads. One node is added for each buffer, and one for each array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from dask._task_spec import DataNode, List, Task, TaskRef

from reblock.dask.buffers import BufferPlan, Refusal, plan_loads
from reblock.dask.chain import Link
from reblock.dask.graphs import Graph, Key
from reblock.dask.loads import LoadedArray, Loads
from reblock.dask.outcome import ArrayOutcome
from reblock.dask.runtime import BufferSpec, join_pieces, read_buffer, take_piece
from reblock.dask.sources import BufferSource
from reblock.dask.tally import Run
from reblock.geometry import Box


@dataclass
class Rewritten:
    """A rewritten graph, and what was done."""

    graph: Graph
    """The graph; not yet optimised by dask."""
    arrays: list[ArrayOutcome] = field(default_factory=list)
    """Each stored array that the graph loads from or stores to."""
    links: list[Link] = field(default_factory=list)
    """Buffers that are read, in the order in which the graph needs them."""
    notes: list[str] = field(default_factory=list)
    """What was left alone, and why."""

    @property
    def changed(self) -> bool:
        """Whether any load or store uses a buffer."""
        return any(isinstance(one.found, BufferPlan) for one in self.arrays)


@dataclass
class _Planned:
    """The buffers of one array, on the way into the graph."""

    array: LoadedArray
    """The loads."""
    plan: BufferPlan
    """Their buffers."""
    name: str
    """Prefix of the keys of its nodes."""
    ranks: list[int]
    """When the graph first needs each buffer."""
    numbers: list[int]
    """The number of each buffer in that order; ties in dask's order go by number."""


def rewrite_loads(
    graph: Graph, loads: Loads, order: dict[Key, int], run: Run, strategy: str, *, memory_bytes: int
) -> Rewritten:
    """A graph whose loads use buffers where that is faster; buffers of all arrays share the memory."""
    made = Rewritten(graph)
    if loads.passed_over:
        made.notes.append(f"{loads.passed_over} loads are read as they are: they take few elements of a box, or none")
    plans = [_plan(array, memory_bytes, strategy) for array in loads.arrays]
    buffered = sum(isinstance(plan, BufferPlan) for plan in plans)
    if buffered > 1:
        plans = [
            _plan(array, memory_bytes // buffered, strategy) if isinstance(plan, BufferPlan) else plan
            for array, plan in zip(loads.arrays, plans, strict=True)
        ]
    planned = []
    for array, plan in zip(loads.arrays, plans, strict=True):
        made.arrays.append(ArrayOutcome(array.disk, False, array.starts, array.stops, plan))
        if isinstance(plan, BufferPlan):
            planned.append(_Planned(array, plan, f"reblock-{uuid4().hex}", *_ranked(array, plan, order)))
    if planned:
        made.graph = _with_buffers(graph, planned, run)
        made.links = _links(planned)
    return made


def _plan(array: LoadedArray, memory_bytes: int, strategy: str) -> BufferPlan | Refusal:
    return plan_loads(
        array.disk.layout,
        array.starts,
        array.stops,
        memory_bytes=max(memory_bytes, 1),
        strategy=strategy,
        plain_layout=array.disk.plain_layout,
    )


def _ranked(array: LoadedArray, plan: BufferPlan, order: dict[Key, int]) -> tuple[list[int], list[int]]:
    """When each buffer is needed, and its number in that order.

    Where loads are put together from several buffers, the plan says in which order that takes least memory.
    """
    needed = np.array([order.get(key, 0) for key in array.keys], np.int64)
    ranks = np.full(plan.count, np.iinfo(np.int64).max)
    np.minimum.at(ranks, plan.pieces.buffer, needed[plan.pieces.owner])
    if plan.cut:
        ranks[plan.order] = np.sort(ranks)
    numbers = np.empty(plan.count, np.int64)
    numbers[np.argsort(ranks, kind="stable")] = np.arange(plan.count)
    return ranks.tolist(), numbers.tolist()


def _links(planned: list[_Planned]) -> list[Link]:
    found = []
    for place, one in enumerate(planned):
        rows = one.plan.pieces
        sizes = np.bincount(rows.buffer, (rows.stops - rows.starts).prod(axis=1) * one.array.disk.layout.itemsize)
        for rank, number, size in zip(one.ranks, one.numbers, sizes.tolist(), strict=True):
            found.append((rank, place, number, Link((f"{one.name}-buffer", number), int(size))))
    return [link for _, _, _, link in sorted(found, key=lambda row: row[:3])]


def _with_buffers(graph: Graph, planned: list[_Planned], run: Run) -> Graph:
    kept = dict(graph)
    for one in planned:
        for number, spec in enumerate(_specs(one, run)):
            key = (f"{one.name}-buffer", one.numbers[number])
            kept[key] = Task(key, read_buffer, DataNode(None, spec), TaskRef(f"{one.name}-source"))
        source = f"{one.name}-source"
        kept[source] = DataNode(source, BufferSource(one.array.obj, one.array.disk, one.array.lock))
        kept.update(_pieces(one))
    return kept


def _specs(one: _Planned, run: Run) -> Iterator[BufferSpec]:
    """Every buffer, with its pieces in the order of the plan's pieces."""
    pieces: list[list[Box]] = [[] for _ in range(one.plan.count)]
    rows = one.plan.pieces
    for buffer, start, stop in zip(rows.buffer.tolist(), rows.starts.tolist(), rows.stops.tolist(), strict=True):
        pieces[buffer].append(Box(tuple(start), tuple(stop)))
    for some, hull in zip(pieces, one.plan.boxes(), strict=True):
        yield BufferSpec(run, tuple(some), hull)


def _pieces(one: _Planned) -> Iterator[tuple[Key, Task]]:
    """The nodes of the loads."""
    array, rows = one.array, one.plan.pieces
    buffers = [TaskRef((f"{one.name}-buffer", number)) for number in one.numbers]
    filled = [0] * one.plan.count
    several: dict[int, list[tuple[int, int, int]]] = {}
    for row, (owner, buffer) in enumerate(zip(rows.owner.tolist(), rows.buffer.tolist(), strict=True)):
        number = filled[buffer]
        filled[buffer] += 1
        if one.plan.cut:
            several.setdefault(owner, []).append((row, buffer, number))
        else:
            key = array.keys[owner]
            yield key, Task(key, take_piece, buffers[buffer], number, array.indices[owner])
    for owner, parts in several.items():
        key, index = array.keys[owner], array.indices[owner]
        if len(parts) == 1:
            yield key, Task(key, take_piece, buffers[parts[0][1]], parts[0][2], index)
            continue
        first = array.starts[owner]
        places = [
            Box(tuple((rows.starts[row] - first).tolist()), tuple((rows.stops[row] - first).tolist()))
            for row, _, _ in parts
        ]
        yield (
            key,
            Task(
                *(key, join_pieces, List(*(buffers[buffer] for _, buffer, _ in parts))),
                *([number for _, _, number in parts], DataNode(None, places), index),
            ),
        )
