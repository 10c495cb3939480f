"""Plans that read many boxes at once, so that boxes that share chunks share reads.

Pieces are boxes whose elements are collected in memory, each until it is complete. They are connected where they touch
the same object; whatever is connected is read together, and nothing else is held meanwhile ::

      ┌────┬────┬────┬────┬────┐      pieces a and b touch a common chunk: one component, its six chunks
      │   aaaa  │    │    │  c │      are read once, in order; then c
      ├───aaaabb┼bb──┼────┼────┤
      │    │  bb│bb  │    │    │      held: a + b, then c
      └────┴────┴────┴────┴────┘

Inside a component objects are read in the order of the axes. A piece takes memory when its first object is read, and
is complete after its last. If the pieces of a component do not fit into the memory together, its pieces are divided
into batches that fit, and an object is read once for each batch that needs it.

Raw objects that are too large to be read whole are read by byte runs. There the boxes themselves connect, after they
were stretched along axes that are read in full, and the union of connected boxes is cut into disjoint boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from math import prod

import numpy as np

from reblock.errors import InfeasibleError
from reblock.geometry import Box
from reblock.model import Layout
from reblock.model.gather import GatherPlan, GatherStep
from reblock.units import format_size

#: Raw objects of at most this many bytes are read whole: one run costs less than the seeks between several.
WHOLE_BYTES = 16 << 20
#: Objects are read in one step up to this many bytes, so that threads have work.
STEP_BYTES = 32 << 20
#: The most boxes that are compared with each other; more are one component.
_MOST_COMPARED = 4096

#: What is read at a time, its bytes, and the pieces that it touches.
_Item = tuple[tuple[Box, ...], int, tuple[int, ...]]


def plan_gather(
    layout: Layout, pieces: Sequence[Box], sizes: Sequence[int], room_bytes: int, *, full: Sequence[int] = ()
) -> GatherPlan:
    """The plan that reads pieces, of which the n-th takes `sizes[n]` bytes, within a room for those that are held.

    Raw objects that are read by runs are read in full along the axes `full`. InfeasibleError if a piece does not fit.
    """
    numbers = [number for number, box in enumerate(pieces) if box.size]
    largest = max((sizes[number] for number in numbers), default=0)
    if largest > room_bytes:
        raise InfeasibleError(
            f"a piece of {format_size(largest)} does not fit into {format_size(room_bytes)}", needs_memory_bytes=largest
        )
    components = list(_components(layout, pieces, numbers, full))
    steps: list[GatherStep] = []
    peak, sweeps, objects, read = 0, 1, 0, 0
    for component in components:
        batches = [component]
        if _peak(_steps(_items(layout, pieces, component, full), STEP_BYTES), sizes) > room_bytes:
            finest = _steps(_items(layout, pieces, component, full), 0)
            if _peak(finest, sizes) > room_bytes:
                batches = list(_batches(component, sizes, room_bytes))
        sweeps = max(sweeps, len(batches))
        for batch in batches:
            items = _items(layout, pieces, batch, full)
            objects += len(items)
            read += sum(size for _, size, _ in items)
            made = _steps(items, STEP_BYTES)
            if _peak(made, sizes) > room_bytes:
                made = _steps(items, 0)
            peak = max(peak, _peak(made, sizes))
            steps += made
    return GatherPlan(tuple(steps), sweeps, peak, objects, read)


def reads_units(layout: Layout) -> bool:
    """Whether objects, or units of them, are read whole rather than by byte runs."""
    return layout.encoded or layout.indexed or (layout.objects.count > 1 and layout.object_bytes <= WHOLE_BYTES)


# ---------------------------------------------------------------- what is connected
def _components(
    layout: Layout, pieces: Sequence[Box], numbers: Sequence[int], full: Sequence[int]
) -> Iterator[list[int]]:
    """Pieces that are connected, in the order in which their first elements are stored."""
    spans = np.array([_span(layout, pieces[number], full) for number in numbers], np.int64).reshape(
        len(numbers), 2, layout.ndim
    )
    order = list(np.lexsort([spans[:, 0, axis] for axis in reversed(layout.order)])) if layout.ndim else [0]
    if len(numbers) > _MOST_COMPARED:
        yield [numbers[place] for place in order]
        return
    left = dict.fromkeys(map(int, order))
    while left:
        first = next(iter(left))
        del left[first]
        found, checked = [first], 0
        while checked < len(found):
            one = spans[found[checked]]
            checked += 1
            rest = list(left)
            meets = (spans[rest, 0] < one[1]).all(axis=1) & (spans[rest, 1] > one[0]).all(axis=1)
            for place in np.flatnonzero(meets).tolist():
                found.append(rest[place])
                del left[rest[place]]
        yield [numbers[place] for place in sorted(found)]


def _span(layout: Layout, box: Box, full: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Bounds by which pieces are compared: indices of objects, or of elements where these are read by runs."""
    if reads_units(layout):
        ranges = [axis.touching(a, b) for axis, a, b in zip(layout.objects.axes, box.start, box.stop, strict=True)]
        return tuple(one.start for one in ranges), tuple(one.stop for one in ranges)
    wide = _stretched(layout, box, full)
    return wide.start, wide.stop


def _stretched(layout: Layout, box: Box, full: Sequence[int]) -> Box:
    """A box that covers its objects along the axes that are read in full."""
    start, stop = list(box.start), list(box.stop)
    for number in full:
        axis = layout.objects.axes[number]
        start[number] = axis.interval(axis.index(box.start[number]))[0]
        stop[number] = axis.interval(axis.index(box.stop[number] - 1))[1]
    return Box(tuple(start), tuple(stop))


def _batches(component: Sequence[int], sizes: Sequence[int], room: int) -> Iterator[list[int]]:
    """Consecutive pieces that fit into memory together."""
    batch: list[int] = []
    taken = 0
    for number in component:
        if batch and taken + sizes[number] > room:
            yield batch
            batch, taken = [], 0
        batch.append(number)
        taken += sizes[number]
    yield batch


# ---------------------------------------------------------------- what is read
def _items(layout: Layout, pieces: Sequence[Box], numbers: Sequence[int], full: Sequence[int]) -> list[_Item]:
    """The reads for some pieces, in the order of the axes on disk."""
    if not reads_units(layout):
        wide = {number: _stretched(layout, pieces[number], full) for number in numbers}
        return [
            ((box,), box.size * layout.itemsize, tuple(n for n in numbers if pieces[n].intersect(box)))
            for box in disjoint(list(wide.values()), layout.order)
        ]
    touching: dict[tuple[int, ...], list[int]] = {}
    for number in numbers:
        for index in layout.objects.touching(pieces[number]):
            touching.setdefault(index, []).append(number)
    items: list[_Item] = []
    for index in sorted(touching, key=lambda one: [one[axis] for axis in layout.order]):
        here = layout.objects.box(index)
        shared = ((number, pieces[number].intersect(here)) for number in touching[index])
        reads = {number: box for number, box in shared if box is not None}
        items.append((tuple(reads.values()), _unit_bytes(layout, index, reads.values()), tuple(reads)))
    return items


def _unit_bytes(layout: Layout, index: tuple[int, ...], boxes: Iterable[Box]) -> int:
    """Decoded bytes that are read of one object."""
    if not layout.indexed:
        return prod(layout.objects.stored(index).shape) * layout.itemsize
    units = {unit for box in boxes for unit in layout.units.touching(box)}
    return sum(layout.units.stored(unit).size for unit in units) * layout.itemsize


def _steps(items: Sequence[_Item], most_bytes: int) -> list[GatherStep]:
    """Items joined into steps of at most `most_bytes`; a larger item is a step of its own."""
    groups: list[list[_Item]] = []
    taken = 0
    for item in items:
        if not groups or taken + item[1] > most_bytes:
            groups.append([])
            taken = 0
        groups[-1].append(item)
        taken += item[1]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, group in enumerate(groups):
        for _, _, touched in group:
            for number in touched:
                first.setdefault(number, place)
                last[number] = place
    opens: list[list[int]] = [[] for _ in groups]
    closes: list[list[int]] = [[] for _ in groups]
    for number, place in first.items():
        opens[place].append(number)
        closes[last[number]].append(number)
    return [
        GatherStep(tuple(box for reads, _, _ in group for box in reads), tuple(opened), tuple(closed))
        for group, opened, closed in zip(groups, opens, closes, strict=True)
    ]


def _peak(steps: Sequence[GatherStep], sizes: Sequence[int]) -> int:
    """The most bytes of pieces that are held at the same time."""
    held = peak = 0
    for step in steps:
        held += sum(sizes[number] for number in step.opens)
        peak = max(peak, held)
        held -= sum(sizes[number] for number in step.closes)
    return peak


def disjoint(boxes: Sequence[Box], order: Sequence[int]) -> list[Box]:
    """Boxes with the same union that do not overlap, in the order of the axes; a box that overlaps none stays whole."""
    if len(boxes) < 2 or not order:
        return list(boxes[:1])
    ndim = boxes[0].ndim
    found = []
    for spans in _slabs([list(zip(box.start, box.stop, strict=True)) for box in boxes], order):
        sides = dict(zip(order, spans, strict=True))
        found.append(Box(tuple(sides[axis][0] for axis in range(ndim)), tuple(sides[axis][1] for axis in range(ndim))))
    return found


def _slabs(boxes: Sequence[Sequence[tuple[int, int]]], order: Sequence[int]) -> list[tuple[tuple[int, int], ...]]:
    """The union of boxes, cut along the first axis where the cross-section changes, and so on."""
    if not order:
        return [()]
    axis, rest = order[0], order[1:]
    cuts = sorted({bound for box in boxes for bound in box[axis]})
    found: list[tuple[tuple[int, int], list[tuple[tuple[int, int], ...]]]] = []
    for low, high in pairwise(cuts):
        active = [box for box in boxes if box[axis][0] <= low and box[axis][1] >= high]
        if not active:
            continue
        inside = _slabs(active, rest)
        if found and found[-1][0][1] == low and found[-1][1] == inside:
            found[-1] = ((found[-1][0][0], high), inside)
        else:
            found.append(((low, high), inside))
    return [(span, *more) for span, inside in found for more in inside]


def cut_box(box: Box, cuts: Sequence[Sequence[int]]) -> Iterator[Box]:
    """The parts of a box between positions on each axis, in C order."""
    sides = []
    for axis, (start, stop) in enumerate(zip(box.start, box.stop, strict=True)):
        bounds = [start, *sorted({cut for cut in cuts[axis] if start < cut < stop}), stop]
        sides.append(list(pairwise(bounds)))
    for chosen in product(*sides):
        yield Box(tuple(low for low, _ in chosen), tuple(high for _, high in chosen))
