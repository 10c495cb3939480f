"""Buffers: the boxes of a file that are read or written at once, chosen by the planner.

::

    loads of the graph           Problem                               buffers
    ┌──┬──┬──┐                   source = the file                     ┌────────┐   R of a point of the family:
    ├──┼──┼──┤  boxes  ───────▶  target = the boxes, each needed  ──▶  ├────────┤   naive, clustered, multiple or keep;
    └──┴──┴──┘                   whole; memory = the budget            └────────┘   here a slab is one run of bytes

A task of a graph needs its whole box, so target objects are written whole (W = O) and the papers' strategies differ in
R only. A load that R cuts is put together from several buffers, which is what KEEP keeps. Stores are the same problem
backwards: the chunks of the graph are the source, read whole, and buffers are boxes of W.

Guédon et al., "Dask IO" (drafts A and B), section V.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from reblock.cost.device import PRESETS
from reblock.dask.counting import count_traffic, reading_seconds, writing_seconds
from reblock.errors import Refused, UsageError
from reblock.geometry import Axis, Box, Grid
from reblock.geometry.axis import Ints
from reblock.model import Device, Layout, Pass, Problem, Traffic
from reblock.strategies import strategies
from reblock.units import format_size

#: Strategies that make buffers, in the order in which equals are preferred.
STRATEGIES = ("clustered", "multiple", "keep", "naive")
AUTO = "auto"
#: Buffers are used if they take less than this share of the time without them.
WORTH = 0.9
#: The most boxes along an axis; more cannot be planned quickly.
MAX_CUTS = 1 << 16


@dataclass(frozen=True)
class Pieces:
    """The parts of loads (or chunks to be stored) that buffers hold; one row per piece."""

    owner: Ints
    """The load that a piece belongs to."""
    buffer: Ints
    """The buffer that holds it."""
    starts: Ints
    """First element of the piece, per axis."""
    stops: Ints
    """End of the piece, per axis."""


@dataclass(frozen=True)
class BufferPlan:
    """The buffers of one array."""

    strategy: str
    """The strategy that chose them."""
    pieces: Pieces
    """The pieces."""
    starts: Ints
    """First element of each buffer, per axis."""
    stops: Ints
    """End of each buffer, per axis."""
    cut: bool
    """Whether a load has pieces in several buffers."""
    plain: Traffic
    """The traffic without buffers."""
    buffered: Traffic
    """The traffic with buffers."""
    plain_seconds: float
    """Predicted time without buffers."""
    buffered_seconds: float
    """Predicted time with buffers."""
    order: Ints
    """The buffers in the order of the plan."""

    @property
    def count(self) -> int:
        """Number of buffers."""
        return len(self.starts)

    def boxes(self) -> Iterator[Box]:
        """The box of each buffer."""
        for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True):
            yield Box(tuple(start), tuple(stop))


@dataclass(frozen=True)
class Refusal:
    """Why an array has no buffers."""

    reason: str
    """The reason, in words."""
    plain: Traffic
    """The traffic without buffers."""


def check_strategy(strategy: str) -> None:
    """UsageError for a name that is no strategy of buffers."""
    if strategy not in (AUTO, *STRATEGIES):
        raise UsageError(f"unknown strategy {strategy!r}: use {AUTO} or one of {', '.join(sorted(STRATEGIES))}")


def plan_loads(
    layout: Layout,
    starts: Ints,
    stops: Ints,
    *,
    memory_bytes: int,
    strategy: str = AUTO,
    device: Device | None = None,
    plain_layout: Layout | None = None,
) -> BufferPlan | Refusal:
    """Buffers for loads, one row per load; a refusal where none would be better than reading each load.

    `plain_layout` is the layout as it is read without buffers, if that differs.
    """
    plain = count_traffic(starts, stops, plain_layout or layout)
    return _plan(
        layout, (starts, stops), plain, memory_bytes, strategy, device or PRESETS["nvme"], _read_passes, writing=False
    )


def plan_stores(
    layout: Layout, starts: Ints, stops: Ints, *, memory_bytes: int, strategy: str = AUTO, device: Device | None = None
) -> BufferPlan | Refusal:
    """Buffers for chunks that are stored, one row per chunk."""
    plain = count_traffic(starts, stops, layout, writing=True)
    return _plan(
        layout, (starts, stops), plain, memory_bytes, strategy, device or PRESETS["nvme"], _write_passes, writing=True
    )


#: Proposes passes for a layout, the grid of the boxes of the graph, a budget and a strategy.
_Propose = Callable[[Layout, Grid, int, str, Device], Pass]


def _plan(
    layout: Layout,
    bounds: tuple[Ints, Ints],
    plain: Traffic,
    memory_bytes: int,
    strategy: str,
    device: Device,
    propose: _Propose,
    *,
    writing: bool,
) -> BufferPlan | Refusal:
    starts, stops = bounds
    seconds = writing_seconds if writing else reading_seconds
    offset = starts.min(axis=0)
    region = Box(tuple(offset.tolist()), tuple(stops.max(axis=0).tolist()))
    if not layout.ndim or not region.size:
        return Refusal("there is nothing to gather", plain)
    cells = _cells(region, starts - offset, stops - offset)
    if cells is None:
        return Refusal(f"its boxes have more than {MAX_CUTS} bounds along an axis", plain)
    inside = layout.view(region, range(layout.ndim))
    best: BufferPlan | None = None
    reasons = []
    for name in STRATEGIES if strategy == AUTO else (strategy,):
        try:
            made = propose(inside, cells, memory_bytes, name, device)
        except Refused as refusal:
            reasons.append(f"{name}: {refusal}")
            continue
        grid, order = (made.writes if writing else made.reads), made.order
        found = _buffers(name, grid, order, layout, bounds, offset, plain, writing=writing)
        if found is None or _largest(found, layout.itemsize) > memory_bytes:
            reasons.append(f"{name}: a buffer needs more than {memory_bytes} bytes")
            continue
        found = replace(
            found,
            plain_seconds=seconds(plain, layout, device),
            buffered_seconds=seconds(found.buffered, layout, device),
        )
        if best is None or found.buffered_seconds < best.buffered_seconds:
            best = found
    if best is None:
        return Refusal(f"no buffer fits the {format_size(memory_bytes)} for buffers; {'; '.join(reasons)}", plain)
    if strategy == AUTO and best.buffered_seconds > WORTH * best.plain_seconds:
        return Refusal("buffers would not be faster: each box is read or written in few pieces already", plain)
    # A strategy that is named is for what it improves: the memory of useless buffers would be missing elsewhere.
    if writing and best.buffered.seeks >= plain.seeks:
        return Refusal("buffers would not save a seek: each chunk is written in one piece already", plain)
    return best


def _read_passes(layout: Layout, cells: Grid, memory_bytes: int, name: str, device: Device) -> Pass:
    target = replace(Layout.raw(layout.dtype, cells), partial_writes=False)
    return _propose(Problem(layout, target, memory_bytes, device, held=True, scratch_bytes=0), name)


def _write_passes(layout: Layout, cells: Grid, memory_bytes: int, name: str, device: Device) -> Pass:
    source = replace(Layout.raw(layout.dtype, cells), partial_reads=False)
    return _propose(Problem(source, layout, memory_bytes, device, held=True, scratch_bytes=0), name)


def _propose(problem: Problem, name: str) -> Pass:
    plan = strategies()[name](problem)
    if len(plan.passes) != 1:
        raise Refused("its plan has several passes")
    return plan.passes[0]


def _cells(region: Box, starts: Ints, stops: Ints) -> Grid | None:
    """The grid that is cut at the bounds of all boxes; None if that is too irregular."""
    axes = []
    for axis in range(region.ndim):
        cuts = np.unique(np.concatenate([starts[:, axis], stops[:, axis], [0, region.shape[axis]]]))
        if len(cuts) > MAX_CUTS:
            return None
        axes.append(Axis.of(np.diff(cuts).tolist()))
    return Grid(tuple(axes))


def _buffers(
    name: str,
    grid: Grid,
    order: Sequence[int],
    layout: Layout,
    bounds: tuple[Ints, Ints],
    offset: Ints,
    plain: Traffic,
    *,
    writing: bool,
) -> BufferPlan | None:
    """Cut loads by a grid, and collect the pieces of each of its boxes."""
    pieces, cut = _cut(grid, bounds[0] - offset, bounds[1] - offset)
    if pieces is None:
        return None
    numbers, buffer = np.unique(pieces.buffer, return_inverse=True)
    shape = (len(numbers), layout.ndim)
    starts, stops = np.full(shape, np.iinfo(np.int64).max), np.zeros(shape, np.int64)
    np.minimum.at(starts, buffer, pieces.starts)
    np.maximum.at(stops, buffer, pieces.stops)
    indices = np.stack(np.unravel_index(numbers, grid.counts))
    starts, stops = starts + offset, stops + offset
    return BufferPlan(
        name,
        Pieces(pieces.owner, buffer, pieces.starts + offset, pieces.stops + offset),
        starts,
        stops,
        cut,
        plain,
        count_traffic(starts, stops, layout, writing=writing),
        0.0,
        0.0,
        np.lexsort([indices[axis] for axis in reversed(order)]),
    )


#: The most pieces of an array.
_MAX_PIECES = 1 << 22


def _cut(grid: Grid, starts: Ints, stops: Ints) -> tuple[Pieces | None, bool]:
    """The pieces of loads in the boxes of a grid, and whether any load has more than one."""
    firsts = np.stack([axis.indices(starts[:, n]) for n, axis in enumerate(grid.axes)], axis=1)
    lasts = np.stack([axis.indices(stops[:, n] - 1) for n, axis in enumerate(grid.axes)], axis=1)
    counts = lasts - firsts + 1
    totals = counts.prod(axis=1)
    if not len(totals) or totals.sum() > _MAX_PIECES or prod(grid.counts) >= 1 << 62:
        return None, False
    owner = np.repeat(np.arange(len(starts)), totals)
    rest = np.arange(len(owner)) - np.repeat(np.cumsum(totals) - totals, totals)
    low, high = starts[owner], stops[owner]
    index = np.empty_like(low)
    for n in reversed(range(grid.ndim)):
        rest, step = np.divmod(rest, counts[owner, n])
        index[:, n] = firsts[owner, n] + step
        axis = grid.axes[n]
        low[:, n] = np.maximum(low[:, n], axis.starts(index[:, n]))
        high[:, n] = np.minimum(high[:, n], axis.starts(index[:, n] + 1))
    number = np.ravel_multi_index(tuple(index.T), grid.counts)
    return Pieces(owner, number, low, high), bool((totals > 1).any())


def has_overlaps(starts: Ints, stops: Ints) -> bool:
    """Whether any two boxes overlap; True if there are too many to tell."""
    region = Box((0,) * starts.shape[1], tuple(stops.max(axis=0).tolist()))
    cells = _cells(region, starts, stops)
    pieces = None if cells is None else _cut(cells, starts, stops)[0]
    return pieces is None or len(np.unique(pieces.buffer)) != len(pieces.buffer)


def _largest(plan: BufferPlan, itemsize: int) -> int:
    """Bytes of the pieces of the largest buffer."""
    sizes = (plan.pieces.stops - plan.pieces.starts).prod(axis=1) * itemsize
    return int(np.bincount(plan.pieces.buffer, sizes).max())
