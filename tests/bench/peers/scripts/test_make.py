"""Sources: reproducible, compressible, and read back by rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numcodecs import Blosc

from peer_jobs import BY_NAME, job_of, small
from reblock.bench.peers.scripts import make
from reblock.bench.peers.scripts.rows import RowSource


def test_a_source_does_not_depend_on_how_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    job = small(shape=(7, 5, 4), source_chunks=(2, 5, 4))
    at_once = np.concatenate([values for _, values in make.slabs(job)])
    monkeypatch.setattr(make, "SLAB_BYTES", 1)
    parts = list(make.slabs(job))
    assert [planes.start for planes, _ in parts] == [0, 2, 4, 6]
    np.testing.assert_array_equal(np.concatenate([values for _, values in parts]), at_once)
    other = np.concatenate([values for _, values in make.slabs(replace(job, seed=1))])
    assert (other != at_once).any()
    assert len(np.unique(at_once)) > at_once.size // 2


def test_sources_compress_as_data_does() -> None:
    """Neither noise nor zeros: about half is left."""
    job = job_of(BY_NAME["W3"], shape=(64, 512, 512))
    values = np.stack([make._plane(job, number) for number in range(64)])
    for chunk in (values[0], values[:, :32, :32]):
        stored = Blosc("zstd", 3, Blosc.SHUFFLE).encode(np.ascontiguousarray(chunk))
        assert 1.5 < chunk.nbytes / len(stored) < 2.5


def test_integers_do_not_wrap() -> None:
    job = job_of(BY_NAME["W6"], shape=(4, 64, 64))
    plane = make._plane(job, 0).astype(int)
    assert np.abs(np.diff(plane, axis=0)).max() < 1 << 13


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    array = np.arange(60, dtype="<f8").reshape(5, 4, 3)
    np.save(tmp_path / "x.npy", array)
    rows = RowSource(str(tmp_path / "x.npy"))
    assert (rows.shape, rows.dtype, rows.ndim) == (array.shape, array.dtype, 3)
    for box in [(slice(1, 4), slice(0, 4), slice(1, 2)), (slice(4, 5), slice(2, 4)), (slice(0, 5),)]:
        np.testing.assert_array_equal(rows[box], array[box])
