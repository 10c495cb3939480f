"""Raw arrays that only their library can read: they count, and take memory, as planned."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock
from reblock.model.store import TransferMode

COUNTS = ("opens", "seeks", "runs", "bytes_read", "bytes_written")


def extensible(path: Path) -> np.ndarray:
    """An index whose places HDF5 reports wrongly; two chunks of twelve are not stored."""
    array = np.arange(80 * 66, dtype="<i4").reshape(80, 66)
    with h5py.File(path, "w", libver="latest") as file:
        made = file.create_dataset("d", array.shape, array.dtype, chunks=(20, 25), maxshape=(80, None), fillvalue=7)
        made[:60], made[60:, 50:] = array[:60], array[60:, 50:]
        return made[...]


def contiguous(path: Path) -> np.ndarray:
    """Integers of 24 bits in four bytes, one behind the other."""
    array = np.arange(300 * 500, dtype="<i4").reshape(300, 500)
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(24)
    with h5py.File(path, "w") as file:
        made = h5py.h5d.create(file.id, b"d", kind, h5py.h5s.create_simple(array.shape))
        h5py.Dataset(made)[...] = array
        return h5py.Dataset(made)[...]


@pytest.mark.parametrize("make", [extensible, contiguous])
@pytest.mark.parametrize("objective", ["time", "seeks", "memory"])
def test_they_count_as_planned(make, objective: str, tmp_path: Path) -> None:
    wanted = make(tmp_path / "x.h5")
    assert reblock.open(tmp_path / "x.h5").store.reads is TransferMode.BOX
    for memory in ("300KiB", "1GiB"):
        options = {"region": "7:77,3:66", "transpose": "1,0", "chunks": (20, 33), "objective": objective}
        report = reblock.repartition(tmp_path / "x.h5", tmp_path / f"{memory}.zarr", memory=memory, **options)
        predicted, measured = report.predicted, report.measured
        assert {name: getattr(measured, name) for name in COUNTS} == {name: getattr(predicted, name) for name in COUNTS}
        assert measured.peak_bytes <= predicted.peak_bytes
        assert np.array_equal(reblock.open(tmp_path / f"{memory}.zarr")[...], wanted[7:77, 3:66].T)


def test_what_is_not_stored_counts_once_per_visit(tmp_path: Path) -> None:
    wanted = extensible(tmp_path / "x.h5")
    report = reblock.repartition(tmp_path / "x.h5", tmp_path / "y.npy", strategy="baseline")
    assert report.missing_chunks == 2
    assert np.array_equal(np.load(tmp_path / "y.npy"), wanted)
