"""Where NIfTI volumes are in space: crops, transpositions and stacks, compared with nibabel and with the affines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

import reblock
from reblock.errors import FormatError
from reblock.storage.nifti_fields import slope_and_intercept, turned_header
from reblock.testing.arrays import noise

DATA = noise((6, 7, 8), "<i2")
OBLIQUE = np.array([[-1.9, -0.9, 0, 10], [-0.6, 2.9, 0, -20], [0, 0, 1.5, 30], [0, 0, 0, 1]])


def save(path: Path, affine: Any, kind: Any = nibabel.Nifti1Image, data: Any = DATA) -> Any:
    """Write a volume, and return what nibabel reads."""
    image = kind(data, affine)
    image.set_qform(affine, 1, strip_shears=True)
    image.header.set_dim_info(0, 1, 2)
    nibabel.save(image, path)
    return nibabel.load(path)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_voxels_may_have_any_size(scale: float, kind: Any, tmp_path: Path) -> None:
    image = save(tmp_path / "x.nii", OBLIQUE * [[scale], [scale], [scale], [1]], kind)
    reblock.repartition(tmp_path / "x.nii", tmp_path / "y.nii", region="1:5,2:,3:4")
    found = nibabel.load(tmp_path / "y.nii").affine
    assert np.allclose(found / scale, image.slicer[1:5, 2:, 3:4].affine / scale, rtol=1e-5)


@pytest.mark.parametrize("between", [None, "x.zarr", "x.h5", "x.nc", "x.nc3"])
def test_turned_as_nibabel_does(between: str | None, tmp_path: Path) -> None:
    image = save(tmp_path / "x.nii", OBLIQUE)
    source = tmp_path / "x.nii"
    if between is not None:
        reblock.repartition(source, tmp_path / between)
        source = tmp_path / between
    reblock.repartition(source, tmp_path / "y.nii", transpose=(2, 0, 1), region="1:,:,2:")
    wanted = image.slicer[1:, :, 2:].as_reoriented(np.array([[1, 1], [2, 1], [0, 1]]))
    found: Any = nibabel.load(tmp_path / "y.nii")
    assert np.allclose(found.affine, wanted.affine, atol=1e-5)
    assert found.header.get_dim_info() == wanted.header.get_dim_info() == (1, 2, 0)
    assert np.allclose(found.header.get_zooms(), wanted.header.get_zooms())
    assert np.array_equal(np.asarray(found.dataobj), np.asarray(wanted.dataobj))


def test_both_affines_are_moved(tmp_path: Path) -> None:
    """The scanner's affine stays the scanner's, where sform leads to a template."""
    image = nibabel.Nifti1Image(DATA, np.eye(4))
    scanner, template = np.diag([2.0, 3, 4, 1]), np.array([[0, 3.0, 0, -90], [-2, 0, 0, 9], [0, 0, 4, 5], [0, 0, 0, 1]])
    image.set_qform(scanner, 1)
    image.set_sform(template, 4)
    nibabel.save(image, tmp_path / "x.nii")
    reblock.repartition(tmp_path / "x.nii", tmp_path / "y.nii", region="1:5,2:,3:", transpose=(2, 0, 1))
    found: Any = nibabel.load(tmp_path / "y.nii")
    here, there = [1, 2, 3, 1], [2 + 1, 3 + 2, 1 + 3, 1]
    assert np.allclose(found.get_qform() @ here, scanner @ there)
    assert np.allclose(found.get_sform() @ here, template @ there)


@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_sizes_of_voxels_follow_their_axes(kind: Any, tmp_path: Path) -> None:
    image = kind(DATA[..., None, None] * np.ones((4, 5), "i2"), None)
    image.header.set_zooms((1, 2, 3, 4, 5))
    nibabel.save(image, tmp_path / "x.nii")
    reblock.repartition(tmp_path / "x.nii", tmp_path / "y.nii", transpose=(3, 2, 0, 1, 4))
    assert nibabel.load(tmp_path / "y.nii").header.get_zooms() == (4, 3, 1, 2, 5)


def test_slices_follow_each_other_in_space(tmp_path: Path) -> None:
    for z in range(3):
        save(tmp_path / f"s{z}.nii", OBLIQUE, data=DATA[..., z])
    reblock.repartition(f"{tmp_path}/s*.nii", tmp_path / "y.nii", stack="z", transpose=(1, 2, 0))
    found: Any = nibabel.load(tmp_path / "y.nii")
    assert np.allclose(found.affine, OBLIQUE, atol=1e-5)
    assert np.array_equal(np.asarray(found.dataobj), DATA[..., :3])


@pytest.mark.parametrize("how", [{"stack": "t"}, {"concat": "z"}])
def test_files_with_other_scalings_are_not_joined(how: dict[str, str], tmp_path: Path) -> None:
    for name, slope in (("a", 1), ("b", 2)):
        image = nibabel.Nifti1Image(DATA, np.eye(4))
        image.header.set_slope_inter(slope, 0)
        nibabel.save(image, tmp_path / f"{name}.nii")
    with pytest.raises(FormatError, match=r"b\.nii: slope and intercept 2\.0,0\.0, but 1\.0,0\.0 in .*a\.nii"):
        reblock.repartition(f"{tmp_path}/?.nii", tmp_path / "y.zarr", **how)


@pytest.mark.parametrize("value", [None, "", "x", "AAAA", 3, b"\xff", "A" * 720])
def test_what_is_no_header_stays_as_it_is(value: object) -> None:
    assert slope_and_intercept(value) is None
    assert turned_header(value, (1, 0), placed=False) is value
