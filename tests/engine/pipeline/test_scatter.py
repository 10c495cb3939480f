"""The compiled loop does what numpy does, for any boxes, strides, orders and element sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cases import cuts
from reblock.engine import native
from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Memory
from reblock.engine.pipeline.boxes import Boxes, Buffer
from reblock.engine.pipeline.readers.visits import Loaded
from reblock.engine.pipeline.scatter import Scatter
from reblock.geometry import Box, Grid
from reblock.model import Access, Layout

pytestmark = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built: no C compiler")

DTYPES = ["u1", "<u2", ">u2", "<f4", "<f8", "<c16", "S3", "S40"]


def moves(layout: Layout, fill: object = 0) -> native.Moves:
    return native.Moves(
        shape=layout.shape,
        dtype=layout.dtype,
        source_order=layout.order,
        target_order=layout.order,
        fill=fill,
        fills=True,
        direct=1 << 20,
        digest=True,
    )


def copied(boxes: Boxes, compiled: native.Moves | None, loaded: Loaded, fill: object = 0) -> list[tuple]:
    """What every box holds, lacks and adds up to after a scatter, and which are complete."""
    layout, writes, whole = boxes.layout, boxes.writes, boxes.access is Access.UNITS
    scatter = Scatter(boxes, fill, compiled, digest=True)
    window = scatter.window(Box.whole(layout.shape), {})
    for position, number in enumerate(window.numbers):
        index = writes.index(number)
        assert number == writes.number(index)
        assert window.elements[position] == writes.box(index).size
        assert window.sizes[position] == layout.itemsize * (layout.objects.stored if whole else writes.box)(index).size
        size = window.sizes[position]
        memory = Memory(size, *Arena().cut(size))
        memory.flat[:] = 0
        window.put(position, Buffer(boxes, number, window.elements[position], memory))
    complete = {buffer.number for buffer in scatter(loaded, window)}
    return [
        (buffer.number, buffer.memory.flat.tobytes(), buffer.memory.record[1:], buffer.number in complete)
        for buffer in window.buffers
        if buffer is not None
    ]


@pytest.mark.parametrize("seed", range(150))
def test_both_ways_copy_the_same(seed: int) -> None:
    rng = random.Random(seed)
    ndim = rng.randint(0, 5)
    shape = tuple(rng.randint(1, (90, 40, 17, 9, 6)[ndim - 1]) for _ in range(ndim))
    dtype = np.dtype(rng.choice(DTYPES))
    whole = rng.random() < 0.5
    grid = Grid.of(shape, [cuts(rng, n, regular=whole) for n in shape], padded=whole)
    layout = Layout.raw(dtype, grid, rng.sample(range(ndim), ndim))
    raw = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8)
    memory = raw.view(dtype).reshape([shape[a] for a in rng.sample(range(ndim), ndim)])
    order = np.argsort([memory.shape.index(n) for n in shape]) if len(set(shape)) == ndim else None
    array = memory.transpose([memory.shape.index(n) for n in shape]) if order is not None else memory.reshape(shape)
    start = tuple(rng.randint(0, n - 1) for n in shape)
    wanted = Box(start, tuple(rng.randint(a + 1, n) for a, n in zip(start, shape, strict=True)))
    loaded = Loaded(Box.whole(shape), wanted, array)
    access = Access.UNITS if whole else Access.RUNS
    writes = grid.clipped()
    boxes = Boxes(writes, access, layout)
    results = [copied(boxes, compiled, loaded) for compiled in (moves(layout), None)]
    assert results[0] == results[1]
    missing = sum(record[0] for _, _, record, _ in results[0])
    assert missing == int(np.prod(shape)) - wanted.size


def test_other_types_are_converted_by_numpy() -> None:
    grid = Grid.of((6,), (4,))
    layout = Layout.raw(">i4", grid)
    loaded = Loaded(Box((0,), (6,)), Box((1,), (6,)), np.arange(6, dtype="<i4"))
    first, second = copied(Boxes(grid, Access.RUNS, layout), moves(layout), loaded)
    assert np.frombuffer(second[1], ">i4").tolist() == [4, 5]
    assert (first[2][0], first[3]) == (1, False)
    assert (second[2][0], second[3]) == (0, True)


def test_what_is_not_stored_is_fill() -> None:
    grid = Grid.of((6,), (4,))
    layout = Layout.raw("<i4", grid)
    loaded = Loaded(Box((0,), (6,)), Box((2,), (6,)), None)
    found = copied(Boxes(grid, Access.RUNS, layout), moves(layout), loaded, fill=np.array(7, "<i4"))
    assert [np.frombuffer(data, "<i4").tolist() for _, data, _, _ in found] == [[0, 0, 7, 7], [7, 7]]
