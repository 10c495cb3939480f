"""What a caller may expect of the Python interface beyond moving bytes."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.arange(24 * 20, dtype="<f4").reshape(24, 20))
    return tmp_path / "x.npy"


def test_a_verdict_is_true_or_false(sample: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.zeros((24, 20), "<f4"))
    assert reblock.verify(sample, sample)
    assert not reblock.verify(sample, tmp_path / "y.npy")


def test_a_conversion_is_named(sample: Path, tmp_path: Path) -> None:
    narrow = reblock.plan(sample, tmp_path / "y.zarr", chunks=8, dtype="i2")
    wide = reblock.plan(sample, tmp_path / "y.zarr", chunks=8, dtype="f8")
    same = reblock.plan(sample, tmp_path / "y.zarr", chunks=8)
    assert any("float32 to int16" in note and "stops the run" in note for note in narrow.schema.notes)
    assert any("float32 to float64" in note and "rounded" not in note for note in wide.schema.notes)
    assert same.schema.notes == ()


def test_one_integer_is_for_every_axis(sample: Path, tmp_path: Path) -> None:
    reblock.repartition(sample, tmp_path / "y.zarr", chunks=8)
    assert reblock.open(tmp_path / "y.zarr").chunks == (8, 8)


def test_a_file_with_other_arrays_is_never_replaced(sample: Path, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["keep"] = [1, 2, 3]
        file["old"] = [4]
    before = (tmp_path / "y.h5").read_bytes()
    with pytest.raises(reblock.UsageError, match=r"choose (a new file|another name)"):
        reblock.repartition(sample, f"{tmp_path}/y.h5::old", chunks=8, overwrite=True)
    assert (tmp_path / "y.h5").read_bytes() == before
    reblock.repartition(sample, f"{tmp_path}/y.h5::new", chunks=8, overwrite=True)
    with h5py.File(tmp_path / "y.h5") as file:
        assert (list(file["keep"]), list(file["old"]), "new" in file) == ([1, 2, 3], [4], True)
    reblock.repartition(sample, f"{tmp_path}/z.h5::data", chunks=8)
    reblock.repartition(sample, f"{tmp_path}/z.h5::data", chunks=5, overwrite=True)
    assert reblock.open(f"{tmp_path}/z.h5::data").chunks == (5, 5)


def test_urls_of_other_kinds_are_named(sample: Path) -> None:
    with pytest.raises(reblock.UsageError, match="not another URL"):
        reblock.plan(sample, "ftp://host/x.zarr", chunks=8)


@pytest.mark.parametrize("key", [np.s_[3], np.s_[-1, :], np.s_[2:9, ::3], np.s_[::-2, 1], np.s_[..., 5], np.s_[5:5]])
def test_indexing_is_numpys(sample: Path, tmp_path: Path, key: object) -> None:
    array = np.load(sample)
    reblock.repartition(sample, tmp_path / "y.zarr", chunks=7)
    found = reblock.open(tmp_path / "y.zarr")[key]
    assert np.array_equal(found, array[key])
    assert np.shape(found) == array[key].shape


@pytest.mark.parametrize("key", [np.s_[99], np.s_[1, 2, 3], np.s_[..., ...], "x"])
def test_wrong_indices_are_usage_errors(sample: Path, key: object) -> None:
    with pytest.raises(reblock.UsageError):
        reblock.open(sample)[key]
