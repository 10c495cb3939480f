"""Masks: an array of labels beside the source, whose labels are regions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from reblock.api.array import Array, ArraySource, open_array
from reblock.api.extract.regions import MAX_REGIONS, Bools, Region
from reblock.errors import InfeasibleError, UsageError
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.storage.location import Where

_LABELS = re.compile(r"(.*)=([0-9]+(?:,[0-9]+)*)", re.DOTALL)


@dataclass(frozen=True)
class Mask:
    """Labels of elements, along some consecutive axes of the source."""

    array: Array
    """The labels."""
    first: int
    """The axis of the source that is the mask's first."""

    def part(self, box: Box) -> Box:
        """The part of the mask that belongs to a box of the source."""
        last = self.first + self.array.ndim
        return Box(box.start[self.first : last], box.stop[self.first : last])

    def inside(self, box: Box, label: Any) -> Bools:
        """Marks the elements of a box of the source that have a label."""
        found: Bools = self.array.load_box(self.part(box)) == label
        last = self.first + self.array.ndim
        shape = (*(1,) * self.first, *found.shape, *(1,) * (box.ndim - last))
        return np.ascontiguousarray(np.broadcast_to(found.reshape(shape), box.shape))


def parse_mask(given: str) -> tuple[str, tuple[int, ...]]:
    """Location and labels of a mask: `PATH[=3,4]`; no labels = all but 0."""
    found = _LABELS.fullmatch(given)
    if found is None:
        return given, ()
    return found[1], tuple(dict.fromkeys(map(int, found[2].split(","))))


def mask_regions(
    source: ArraySource,
    labels: Sequence[int],
    shape: tuple[int, ...],
    memory_bytes: int,
    allow_external: Sequence[Where] = (),
) -> Iterator[Region]:
    """One region for each label of a mask, or for those that are named."""
    array = open_array(source, None, allow_external, memory_bytes)
    if array.dtype.kind not in "biuf":
        raise UsageError(f"{array.store.location}: a mask holds labels, which are whole numbers, not {array.dtype}")
    mask = Mask(array, _first_axis(array, shape))
    if array.dtype.kind == "f" and any(int(array.dtype.type(label)) != label for label in labels):
        raise UsageError(f"{array.store.location}: labels {labels} are not exact in {array.dtype}")
    boxes = _find_boxes(array, set(labels), memory_bytes)
    missing = [label for label in labels if label not in boxes]
    if missing:
        raise UsageError(f"{array.store.location} has no elements with label {', '.join(map(str, missing))}")
    if not boxes:
        raise UsageError(f"{array.store.location}: the mask has no labels: all its elements are 0")
    for label in labels or sorted(boxes):
        start, stop = boxes[label]
        last = mask.first + array.ndim
        box = Box(
            (*(0,) * mask.first, *start, *(0,) * (len(shape) - last)), (*shape[: mask.first], *stop, *shape[last:])
        )

        def inside(part: Box, label: int = label) -> Bools:
            return mask.inside(part, label)

        yield Region(f"label_{label}", box, {"origin": list(box.start), "label": label}, inside)


def _first_axis(array: Array, shape: tuple[int, ...]) -> int:
    """Where the axes of a mask are among those of the source: all of them, the first ones, or the last ones."""
    if array.shape == shape[: array.ndim] and array.ndim:
        return 0
    if array.shape == shape[len(shape) - array.ndim :] and array.ndim:
        return len(shape) - array.ndim
    raise UsageError(
        f"{array.store.location}: a mask of shape {array.shape} does not fit an array of {shape}: it must have the "
        "shape of the array, or of its first or last axes"
    )


def _find_boxes(
    array: Array, wanted: set[int], memory_bytes: int
) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """The smallest box around each label."""
    found: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    # Elements, a comparison, and what sorting takes.
    most = max(memory_bytes // 4 // (4 * array.dtype.itemsize + 1), 1)
    for box in _blocks(array, most):
        block = array.load_box(box)
        labels = np.unique(block)
        for label in labels[labels != 0]:
            # Elements beside the labels that are named may be anything, such as -1 around a brain.
            if wanted and label.item() not in wanted:
                continue
            number = _whole_number(label.item(), array.store.location)
            start, stop = _bounds(block == label, box)
            if number in found:
                start = tuple(map(min, start, found[number][0]))
                stop = tuple(map(max, stop, found[number][1]))
            found[number] = (start, stop)
        if len(found) > MAX_REGIONS:
            raise UsageError(f"{array.store.location} has more than {MAX_REGIONS:,} labels")
    return found


def _whole_number(label: Any, where: str) -> int:
    if label != label or label < 0 or label >= 1 << 64 or int(label) != label:  # noqa: PLR0124 - not a number
        raise UsageError(f"{where}: a mask holds labels, which are whole numbers above 0, not {label}")
    return int(label)


def _bounds(marked: Bools, box: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    start, stop = [], []
    for axis in range(marked.ndim):
        places = np.flatnonzero(marked.any(axis=tuple(other for other in range(marked.ndim) if other != axis)))
        start.append(box.start[axis] + int(places[0]))
        stop.append(box.start[axis] + int(places[-1]) + 1)
    return tuple(start), tuple(stop)


def _blocks(array: Array, most: int) -> Iterator[Box]:
    """Parts of an array of at most so many elements: several chunks, or parts of a raw array."""
    layout = array.layout
    objects = layout.objects
    if objects.count <= 1 or prod(objects.largest) > most:
        if layout.encoded and prod(objects.largest) > most:
            needed = 4 * prod(objects.largest) * (4 * array.dtype.itemsize + 1)
            raise InfeasibleError(
                f"{array.store.location}: reading the mask needs {needed:,} bytes", needs_memory_bytes=needed
            )
        yield from pieces(Box.whole(array.shape), layout.order, most)
        return
    # A row of chunks along the last axes, as long as it fits.
    for index in objects.indices():
        yield objects.box(index)
