"""MINC1 files of made layouts: ranges in records, and files of NetCDF that only look like MINC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.externals.netcdf import netcdf_file

import reblock
from reblock.errors import FormatError

DATA = Path(nibabel.__file__).parent / "tests" / "data"
AXES, SHAPE = ("time", "zspace", "yspace", "xspace"), (3, 4, 5, 6)


def make(path: Path, ranged: int, *, records: bool) -> None:
    """A series whose ranges are along its first axes."""
    with netcdf_file(str(path), "w") as file:
        for name, length in zip(AXES, SHAPE, strict=True):
            file.createDimension(name, None if records and name == "time" else length)
            axis = file.createVariable(name, "i", ())
            axis.spacing, axis.start, axis.step = b"regular__", 10.0, -2.0
            if name != "time":
                axis.direction_cosines = np.eye(3)["xyz".index(name[0])]
        image: Any = file.createVariable("image", "h", AXES)
        image.signtype, image.valid_range = b"signed__", np.array([0.0, 400.0])
        image[:] = np.arange(360).reshape(SHAPE)
        for name, low in (("image-min", 0.0), ("image-max", 100.0)):
            values: Any = file.createVariable(name, "d", AXES[:ranged])
            values[:] = low + np.arange(np.prod(SHAPE[:ranged])).reshape(SHAPE[:ranged])


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("ranged", [1, 2])
def test_ranges_may_be_in_records(ranged: int, records: bool, tmp_path: Path) -> None:
    make(tmp_path / "x.mnc", ranged, records=records)
    reblock.repartition(tmp_path / "x.mnc", tmp_path / "y.mnc", region="1:,:,2:,:")
    one, other = nibabel.load(tmp_path / "x.mnc"), nibabel.load(tmp_path / "y.mnc")
    assert np.array_equal(other.get_fdata(), one.get_fdata()[1:, :, 2:])


@pytest.mark.parametrize("name", ["minc1_4d.mnc", "minc2_4d.mnc", "minc1-no-att.mnc"])
@pytest.mark.parametrize("between", ["x.nc", "x.nc3"])
def test_netcdf_keeps_the_ranges_of_slices(between: str, name: str, tmp_path: Path) -> None:
    reblock.repartition(DATA / name, tmp_path / between)
    reblock.repartition(tmp_path / between, tmp_path / "y.mnc")
    one, other = nibabel.load(DATA / name), nibabel.load(tmp_path / "y.mnc")
    assert np.array_equal(other.get_fdata(), one.get_fdata())


def test_files_with_other_ranges_are_not_joined(tmp_path: Path) -> None:
    make(tmp_path / "a.mnc", 1, records=False)
    make(tmp_path / "b.mnc", 2, records=False)
    with pytest.raises(FormatError, match=r"image-min .*do not mean the same"):
        reblock.repartition(f"{tmp_path}/?.mnc", tmp_path / "y.zarr", concat="time")


# ---------------------------------------------------------------- real values
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4"])
@pytest.mark.parametrize("scaling", [(0.5, 10), (-2, 3)])
def test_nifti_and_minc_have_the_same_real_values(scaling: tuple[float, float], dtype: str, tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(np.arange(60).reshape(3, 4, 5).astype(dtype), np.eye(4))
    image.header.set_slope_inter(*scaling)
    nibabel.save(image, tmp_path / "x.nii")
    reblock.repartition(tmp_path / "x.nii", tmp_path / "x.mnc")
    wanted = nibabel.load(tmp_path / "x.nii").get_fdata()
    assert np.allclose(nibabel.load(tmp_path / "x.mnc").get_fdata(), wanted)
    reblock.repartition(tmp_path / "x.mnc", tmp_path / "y.nii")
    assert (tmp_path / "y.nii").read_bytes() == (tmp_path / "x.nii").read_bytes()


@pytest.mark.parametrize("name", ["minc1_1_scale.mnc", "minc2_1_scale.mnc"])
def test_one_range_becomes_a_slope(name: str, tmp_path: Path) -> None:
    reblock.repartition(DATA / name, tmp_path / "y.nii")
    assert np.allclose(nibabel.load(tmp_path / "y.nii").get_fdata(), nibabel.load(DATA / name).get_fdata())


def test_scalings_that_cannot_be_kept_are_noted(tmp_path: Path) -> None:
    report = reblock.repartition(DATA / "tiny.mnc", tmp_path / "y.nii")
    assert any("NIfTI has one slope" in note for note in report.notes)
    image = nibabel.Nifti1Image(np.zeros((3, 4, 5), "f4"), np.eye(4))
    image.header.set_slope_inter(2, 0)
    nibabel.save(image, tmp_path / "x.nii")
    report = reblock.repartition(tmp_path / "x.nii", tmp_path / "y.mnc")
    assert any("MINC scales integers only" in note for note in report.notes)
