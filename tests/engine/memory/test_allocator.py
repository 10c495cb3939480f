"""Allocators: memory is counted when a read box first touches a write box, and no earlier."""

from __future__ import annotations

import numpy as np
import pytest

from cases import make
from reblock.engine.memory.allocator import BufferAllocator, SlabAllocator
from reblock.engine.pipeline.boxes import Boxes
from reblock.engine.pipeline.scatter import Scatter
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.geometry import Box, Grid
from reblock.model import Access
from reblock.model.accounting import with_pages
from reblock.model.medium import PAGE_BYTES

#: A write box has two pages for each of its rows; there are two write boxes of four rows.
ROW_BYTES = 2 * PAGE_BYTES
SHAPE, WRITES = (8, PAGE_BYTES), (4, PAGE_BYTES)


def size_of(*rows: int, slabs: bool) -> int:
    """What parts of this many rows count; slabs also count the pages at their ends."""
    sizes = [count * ROW_BYTES for count in rows]
    return sum(map(with_pages, sizes) if slabs else sizes)


def allocator(folder: str, rows: int, *, slabs: bool, finished: tuple[int, ...] = ()) -> BufferAllocator:
    store = make(folder, "y", "blocks", SHAPE, WRITES)
    boxes = Boxes(Grid.of(SHAPE, WRITES), Access.UNITS, store.layout)
    scatter = Scatter(boxes, np.zeros((), "u2"), None, digest=False)
    target, limit = TargetWriter(store, boxes), size_of(rows, slabs=slabs)
    return (
        SlabAllocator(limit, scatter, target, finished, (0,))
        if slabs
        else BufferAllocator(limit, scatter, target, finished)
    )


def read(rows: tuple[int, int]) -> Box:
    return Box((rows[0], 0), (rows[1], SHAPE[1]))


@pytest.mark.parametrize("slabs", [False, True])
def test_a_box_is_taken_whole_or_as_far_as_it_is_touched(memory_folder: str, slabs: bool) -> None:
    taken = allocator(memory_folder, 8, slabs=slabs)
    window = taken.window(read((0, 3)))
    assert taken.allocate(window, [0], 0, 1) == 1
    assert taken.budget.peak == size_of(3 if slabs else 4, slabs=slabs)
    # The next one touches the last row of the first box, and a row of the second.
    window = taken.window(read((3, 5)))
    assert taken.allocate(window, [0, 1], 0, 2) == 2
    assert taken.budget.peak == size_of(*((3, 1, 1) if slabs else (4, 4)), slabs=slabs)
    assert sorted(taken.open) == [0, 1]
    taken.free(list(taken.open.values()))
    assert not taken.open


@pytest.mark.parametrize("slabs", [False, True])
def test_boxes_are_taken_in_order_as_far_as_memory_goes(memory_folder: str, slabs: bool) -> None:
    taken = allocator(memory_folder, 5, slabs=slabs)
    window = taken.window(read((0, 8)))
    assert taken.allocate(window, [0, 1], 0, 2) == 1
    assert list(taken.open) == [0]
    taken.free([taken.open[0]])
    assert taken.allocate(window, [0, 1], 1, 2) == 2
    assert taken.budget.peak == size_of(4, slabs=slabs)


@pytest.mark.parametrize("slabs", [False, True])
def test_finished_boxes_are_passed_over(memory_folder: str, slabs: bool) -> None:
    taken = allocator(memory_folder, 4, slabs=slabs, finished=(0,))
    window = taken.window(read((0, 8)))
    assert taken.allocate(window, [0, 1], 0, 2) == 2
    assert list(taken.open) == [1]
    assert window.has_any([1])
    assert not window.has_any([0])
