"""The compiled loop does what numpy does, for any boxes, strides, orders and element sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cases import cuts
from reblock.engine.reading import Loaded
from reblock.engine.scatter import Scatter, library
from reblock.engine.view import shaped
from reblock.engine.writing import Buffer
from reblock.geometry import Box, Grid
from reblock.model import Access, Layout

pytestmark = pytest.mark.skipif(library() is None, reason="the compiled loop was not built: no C compiler")

DTYPES = ["u1", "<u2", ">u2", "<f4", "<f8", "<c16", "S3", "S40"]


def buffers(writes: Grid, layout: Layout, *, whole: bool) -> dict[tuple[int, ...], Buffer]:
    found = {}
    for index in writes.indices():
        box = writes.box(index)
        stored = layout.objects.stored(index) if whole else box
        flat = np.zeros(stored.size * layout.itemsize, np.uint8)
        found[index] = Buffer(box, stored, index, flat, shaped(flat, stored, layout), box.size)
    return found


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
    results = []
    for compiled in (True, False):
        into = buffers(grid.clipped(), layout, whole=whole)
        scatter = Scatter(grid.clipped(), layout, access, 0, compiled=compiled)
        copied = scatter(loaded, scatter.window(wanted), into)
        results.append((copied, {index: buffer.flat.tobytes() for index, buffer in into.items()}))
    assert results[0] == results[1]
    assert sum(count for _, count in results[0][0]) == wanted.size


def test_other_types_are_converted_by_numpy() -> None:
    grid = Grid.of((6,), (4,))
    layout = Layout.raw(">i4", grid)
    into = buffers(grid, layout, whole=False)
    loaded = Loaded(Box((0,), (6,)), Box((1,), (6,)), np.arange(6, dtype="<i4"))
    scatter = Scatter(grid, layout, Access.RUNS, 0)
    assert scatter(loaded, scatter.window(loaded.wanted), into) == [((0,), 3), ((1,), 2)]
    assert into[(1,)].array.tolist() == [4, 5]


def test_what_is_not_stored_is_fill() -> None:
    grid = Grid.of((6,), (4,))
    layout = Layout.raw("<i4", grid)
    into = buffers(grid, layout, whole=False)
    loaded = Loaded(Box((0,), (6,)), Box((2,), (6,)), None)
    scatter = Scatter(grid, layout, Access.RUNS, 7)
    scatter(loaded, scatter.window(loaded.wanted), into)
    assert [into[index].array.tolist() for index in ((0,), (1,))] == [[0, 0, 7, 7], [7, 7]]
