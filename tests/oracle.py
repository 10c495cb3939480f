"""An oracle that counts by listing: every block, every element, every byte offset, every step of a sweep.

It shares nothing with the code under test but the fields of an `Axis` (lengths and overhang), a `Layout` and a
`Pass`: edges are added up one by one, cells are labelled with the block that holds them, offsets are computed for
every element, runs are counted where sorted offsets jump, and memory is counted by sweeping with a counter.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np


# ------------------------------------------------------------------ one axis
def lengths(axis: Any) -> list[int]:
    """Block lengths of an axis, one after the other."""
    out = list(axis.head)
    for _ in range(axis.repeats):
        out += axis.pattern
    return out + list(axis.tail)


def edges(axis: Any) -> list[int]:
    """0, every cut, and the length."""
    out = [0]
    for n in lengths(axis):
        out.append(out[-1] + n)
    return out


def owners(axis: Any) -> list[int]:
    """For each position the number of its block."""
    return [number for number, n in enumerate(lengths(axis)) for _ in range(n)]


def blocks(axis: Any) -> list[tuple[int, int]]:
    """Start and end of every block, clipped to the axis."""
    marks = edges(axis)
    return list(itertools.pairwise(marks))


def stored(axis: Any) -> list[tuple[int, int]]:
    """Start and end of every block as it is stored."""
    out = [list(pair) for pair in blocks(axis)]
    if out:
        out[0][0] -= axis.lead
        out[-1][1] += axis.trail
    return [(a, b) for a, b in out]


def union(*axes: Any) -> list[int]:
    """Edges of the common refinement."""
    return sorted({mark for axis in axes for mark in edges(axis)})


def crop(axis: Any, start: int, stop: int) -> tuple[list[int], int, int]:
    """Edges, lead and trail of the part [start, stop), found by looking at each position's owner."""
    if start >= stop:
        return [0], 0, 0
    inside = owners(axis)[start:stop]
    marks = [0] + [k for k in range(1, len(inside)) if inside[k] != inside[k - 1]] + [len(inside)]
    whole = stored(axis)
    return marks, start - whole[inside[0]][0], whole[inside[-1]][1] - stop


def overlap(memory: Any, objects: Any, units: Any = None) -> tuple[int, int, int, int]:
    """Pairs that touch all of the object, other pairs, units touched, length of the units touched."""
    whole = cut = touched = length = 0
    object_spans = list(zip(stored(objects), blocks(objects), strict=True))
    unit_spans = object_spans if units is None else list(zip(stored(units), blocks(units), strict=True))
    for start, stop in blocks(memory):
        if units is None:
            cells = set(range(start, stop))
            touched += len(cells)
        else:
            hit = [pair for pair, (a, b) in unit_spans if a < stop and start < b]
            cells = {x for a, b in hit for x in range(a, b)}
            touched += len(hit)
        length += len(cells)
        for (a, b), (low, high) in object_spans:
            if low < stop and start < high:
                if set(range(a, b)) <= cells:
                    whole += 1
                else:
                    cut += 1
    return whole, cut, touched, length


# ------------------------------------------------------------------ addresses
@dataclass
class Canvas:
    """Every cell of a layout's stored objects, those outside the array included."""

    objects: np.ndarray
    """Number of the object that holds the cell."""
    units: np.ndarray
    """Number of the unit that holds the cell; -1 = none."""
    offsets: np.ndarray
    """Element offset of the cell inside its object, axes as on disk."""
    sizes: dict[int, int]
    """Elements of each object as stored."""
    array: tuple[slice, ...]
    """Where the array itself lies in the canvas."""


def _labels(axis: Any, low: int, high: int) -> np.ndarray:
    out = np.full(high - low, -1)
    for number, (a, b) in enumerate(stored(axis)):
        out[max(a, low) - low : min(b, high) - low] = number
    return out


def canvas(layout: Any, units: Any = None) -> Canvas:
    """Lay a layout out cell by cell; `units` is the grid of smallest pieces (the layout's own by default)."""
    units = units or layout.units
    ndim = len(layout.objects.axes)
    lows = [min((a for a, _ in stored(axis)), default=0) for axis in layout.objects.axes]
    highs = [max((b for _, b in stored(axis)), default=0) for axis in layout.objects.axes]
    shape = tuple(high - low for low, high in zip(lows, highs, strict=True))
    objects = np.zeros(shape, np.int64)
    inner = np.zeros(shape, np.int64)
    outside = np.zeros(shape, bool)
    places, extents = [], []
    for d in range(ndim):
        reshape = tuple(-1 if e == d else 1 for e in range(ndim))
        spans = stored(layout.objects.axes[d])
        label = _labels(layout.objects.axes[d], lows[d], highs[d])
        unit = _labels(units.axes[d], lows[d], highs[d])
        objects = objects * max(len(spans), 1) + label.reshape(reshape)
        inner = inner * max(len(stored(units.axes[d])), 1) + unit.reshape(reshape)
        outside = outside | (unit < 0).reshape(reshape)
        starts = np.array([spans[k][0] for k in label], np.int64)
        sizes = np.array([spans[k][1] - spans[k][0] for k in label], np.int64)
        places.append((np.arange(lows[d], highs[d]) - starts).reshape(reshape))
        extents.append(sizes.reshape(reshape))
    offsets = np.zeros(shape, np.int64)
    for d in layout.order:
        offsets = offsets * extents[d] + places[d]
    inner[outside] = -1
    numbers, counts = np.unique(objects, return_counts=True)
    array = tuple(slice(-low, axis.length - low) for low, axis in zip(lows, layout.objects.axes, strict=True))
    whole = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    return Canvas(objects, inner, offsets, whole, array)


def boxes(*axes: Any) -> list[tuple[slice, ...]]:
    """Slices of every box of a grid, C order."""
    return [tuple(slice(a, b) for a, b in pairs) for pairs in itertools.product(*map(blocks, axes))]


def traffic(boxes_axes: Any, layout: Any, access: str, *, writing: bool = False) -> tuple[int, int, int, int]:
    """Opens, runs, seeks and bytes, by listing the offsets of every visit of a box to an object."""
    cells = canvas(layout, layout.objects if writing else layout.units)
    opens = runs = seeks = moved = 0
    in_array = (cells.objects[cells.array], cells.units[cells.array], cells.offsets[cells.array])
    for box in boxes(*boxes_axes):
        objects, units, offsets = (part[box].ravel() for part in in_array)
        visited = set(objects.tolist())
        units_hit = {}
        if access == "units":
            units_hit = {number: len(set(units[objects == number].tolist())) for number in visited}
            wanted = np.isin(cells.units, np.unique(units))
            objects, offsets = cells.objects[wanted], cells.offsets[wanted]
        for number in visited:
            here = np.sort(offsets[objects == number])
            broken = 1 + int((np.diff(here) != 1).sum())
            opens += 1
            moved += here.size * layout.dtype.itemsize
            if layout.indexed and not writing:
                runs += units_hit[number] + 1
                seeks += 1 + units_hit[number] + 1
            else:
                runs += broken
                seeks += 1 + (0 if here.size == cells.sizes[number] else broken)
    return opens, runs, seeks, moved


# ------------------------------------------------------------------ memory
@dataclass
class Sweep:
    """What happened in a sweep."""

    held: int
    """Most elements read and not yet written."""
    buffers: int
    """Most elements of write boxes that were begun and not finished."""
    slabs: int
    """The same, if along some axes only what was touched counts."""
    steps: int
    """Read boxes."""
    written: int
    """Write boxes."""


class _Marked:
    """An axis as a plain list of edges."""

    def __init__(self, marks: list[int]) -> None:
        self.head, self.pattern, self.repeats = (), (), 0
        self.tail = tuple(b - a for a, b in itertools.pairwise(marks))
        self.lead = self.trail = 0


def sweep(made: Any, target: Any = None, slabs: Collection[int] = ()) -> Sweep:
    """Step through a pass; with a `target`, buffers are its stored objects, overhang included."""
    ndim = len(made.order)
    tasks = [_Marked(edges(axis)) for axis in made.tasks.axes]
    reads = [_Marked(union(a, t)) for a, t in zip(made.read.axes, tasks, strict=True)]
    writes = [_Marked(union(a, t)) for a, t in zip(made.write.axes, tasks, strict=True)]
    shape = tuple(edges(axis)[-1] for axis in tasks)
    label = np.zeros(shape, np.int64)
    for d, axis in enumerate(writes):
        label = label * max(len(blocks(axis)), 1) + np.array(owners(axis), np.int64).reshape(
            tuple(-1 if e == d else 1 for e in range(ndim))
        )
    size = np.bincount(label.ravel(), minlength=1)
    bulk = size.copy()
    if target is not None:
        spans = [stored(axis) for axis in target.objects.axes]
        bulk = np.array([prod(b - a for a, b in pair) for pair in itertools.product(*spans)], np.int64)
        assert bulk.size == size.size
    bounds = list(itertools.product(*(blocks(axis) for axis in writes)))
    whole = list(itertools.product(*(stored(axis) for axis in target.objects.axes))) if target is not None else bounds
    touched: dict[int, set[tuple[int, ...]]] = {}
    left = size.copy()
    open_boxes: set[int] = set()
    held = peak = buffers = most = thin = steps = written = 0
    for task in boxes(*tasks):
        inside = [
            [pair for pair in blocks(axis) if task[d].start <= pair[0] < task[d].stop] for d, axis in enumerate(reads)
        ]
        for pairs in itertools.product(*(inside[d] for d in made.order)):
            box = [slice(0)] * ndim
            for d, pair in zip(made.order, pairs, strict=True):
                box[d] = slice(*pair)
            steps += 1
            numbers, counts = np.unique(label[tuple(box)], return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                held += count
                left[number] -= count
                if number not in open_boxes:
                    open_boxes.add(number)
                    buffers += int(bulk[number])
                touched.setdefault(number, set()).update(_touched(box, bounds[number], whole[number], slabs))
            peak, most, thin = max(peak, held), max(most, buffers), max(thin, sum(map(len, touched.values())))
            for number in numbers.tolist():
                if left[number] == 0:
                    open_boxes.remove(number)
                    held -= int(size[number])
                    buffers -= int(bulk[number])
                    assert len(touched.pop(number)) == bulk[number]
                    written += 1
        assert not open_boxes
        assert held == buffers == 0
    assert not left.any()
    return Sweep(peak, most, thin, steps, written)


def _touched(
    box: list[slice], bounds: Sequence[tuple[int, int]], whole: Sequence[tuple[int, int]], slabs: Collection[int]
) -> Iterator[tuple[int, ...]]:
    """Elements of a write box's memory that a read box takes: along other axes all, along slabs those it touches."""
    spans = []
    for d, ((start, stop), (low, high)) in enumerate(zip(bounds, whole, strict=True)):
        touched = range(max(start, box[d].start), high if box[d].stop >= stop else box[d].stop)
        spans.append(touched if d in slabs else range(low, high))
    return itertools.product(*spans)
