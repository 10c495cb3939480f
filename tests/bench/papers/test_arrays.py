"""Arrays of the experiments: the same elements in every layout."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from reblock import api
from reblock.bench.papers import arrays
from reblock.bench.papers.arrays import elements, has_elements, make_blocks, make_row_major, store_blocks


def test_elements_depend_on_their_index_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = elements((0, 0, 0), (12, 10, 8), "<u2")
    np.testing.assert_array_equal(elements((3, 2, 5), (9, 10, 8), "<u2"), whole[3:9, 2:10, 5:8])
    assert len(np.unique(whole)) > 0.9 * whole.size
    monkeypatch.setattr(arrays, "_SLAB_ELEMENTS", 20)
    for number, chunks in enumerate([(4, 5, 8), (5, 10, 3)]):
        path = str(tmp_path / str(number))
        make_blocks(path, whole.shape, chunks)
        np.testing.assert_array_equal(api.open(path)[...], whole)


def test_a_row_major_array(tmp_path: Path) -> None:
    path = str(tmp_path / "x.npy")
    make_row_major(path, (6, 10))
    array = np.load(path)
    assert (array.dtype.str, array.flags.c_contiguous) == ("<f8", True)
    np.testing.assert_array_equal(array, elements((0, 0), (6, 10), "<f8"))


def test_a_block_that_is_missing_is_wrong(tmp_path: Path) -> None:
    array = np.arange(8, dtype="<u2").reshape(2, 2, 2)
    view = store_blocks(str(tmp_path / "x"), array, (1, 2, 2))
    assert has_elements(view.store, array)
    os.unlink(view.store.place((1, 0, 0)).path)
    assert not has_elements(view.store, array)
