"""Layout and its views against addresses of every element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.errors import UsageError
from reblock.geometry import Box, Grid
from reblock.model import Layout
from reblock.testing.arrays import orders
from reblock.testing.problems import layouts, regions, shapes

any_layout = shapes().flatmap(layouts)


def renumbered(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape)


@given(any_layout, st.data())
def test_view(layout: Layout, data: st.DataObject) -> None:
    """Every element of a view has the address that it has in the whole array."""
    region, axes = data.draw(regions(layout.shape)), data.draw(orders(layout.ndim))
    view = layout.view(region, axes)
    for units, seen_units in ((layout.objects, view.objects), (layout.units, view.units)):
        whole, seen = oracle.canvas(layout, units), oracle.canvas(view, seen_units)
        for name in ("offsets", "objects", "units"):
            wanted = getattr(whole, name)[whole.array][region.slices].transpose(axes)
            got = getattr(seen, name)[seen.array]
            assert got.shape == wanted.shape == view.shape
            if name == "offsets":
                assert (got == wanted).all()
            else:
                # Numbers start anew in the crop; which elements share a number does not change.
                pairs = set(zip(wanted.ravel().tolist(), got.ravel().tolist(), strict=True))
                assert len(pairs) == len(set(wanted.ravel().tolist())) == len(set(got.ravel().tolist()))
                if axes == tuple(range(layout.ndim)):
                    assert (renumbered(got) == renumbered(wanted)).all()
    assert view.dtype == layout.dtype
    assert (view.codec, view.indexed, view.partial_reads) == (layout.codec, layout.indexed, layout.partial_reads)


@given(any_layout, st.data())
def test_view_of_a_view(layout: Layout, data: st.DataObject) -> None:
    axes = data.draw(orders(layout.ndim))
    back = tuple(axes.index(d) for d in range(layout.ndim))
    whole = Box.whole(layout.shape)
    assert layout.view(whole, axes).view(whole.permute(axes), back) == layout


@given(any_layout)
def test_sizes(layout: Layout) -> None:
    sizes = oracle.canvas(layout).sizes
    assert layout.object_bytes == max(sizes.values()) * layout.dtype.itemsize
    assert layout.nbytes == np.empty(layout.shape, layout.dtype).nbytes
    assert layout.unit_bytes <= layout.object_bytes
    assert layout.encoded == (layout.codec != "")


def test_transpose_must_be_a_permutation() -> None:
    layout = Layout.raw("u1", Grid.of((4, 5), (2, 2)))
    with pytest.raises(UsageError, match=r"\(0, 0\).*permutation"):
        layout.view(Box.whole((4, 5)), (0, 0))


def test_json() -> None:
    grid = Grid.of((4, 5), (2, (2, 3)))
    assert Layout.raw(">u2", grid, (1, 0)).to_json() == {
        "shape": [4, 5],
        "dtype": ">u2",
        "chunks": [2, [2, 3]],
        "shards": None,
        "parts": None,
        "order": [1, 0],
        "codec": None,
        "partial_reads": True,
        "partial_writes": True,
    }


def test_parts_are_no_chunks() -> None:
    chunks, parts = Grid.of((8, 9), (4, 9)), Grid.of((8, 9), (2, 9))
    layout = Layout(np.dtype("u1"), chunks, parts, (0, 1), "blosc:lz4:5", indexed=True, divided=True)
    assert layout.files is None
    made = layout.to_json()
    assert (made["chunks"], made["shards"], made["parts"]) == ([4, 9], None, [2, 9])
