"""Folders of other programs: what a few names and headers may claim, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import FormatError

nibabel = pytest.importorskip("nibabel")


@pytest.mark.parametrize("length", [1, 2, 3])
def test_positions_of_short_blocks(tmp_path: Path, length: int) -> None:
    data = np.arange(11, dtype="i4")
    (tmp_path / "b").mkdir()
    for start in range(0, 11, length):
        np.save(tmp_path / "b" / f"b_{start}.npy", data[start : start + length])
    reblock.merge(tmp_path / "b", tmp_path / "y.npy")
    assert np.array_equal(np.load(tmp_path / "y.npy"), data)


def test_a_few_names_may_promise_any_number_of_blocks(tmp_path: Path) -> None:
    for number in range(200):
        np.save(tmp_path / f"b_{number}_{number}_{number}_{number}.npy", np.zeros((1, 1, 1, 1), "u1"))
    with pytest.raises(FormatError, match=r"1,599,999,800 blocks are missing: b_0_0_0_1\.npy"):
        reblock.merge(tmp_path, tmp_path / "y.npy")
    np.save(tmp_path / f"b_{10**17}_0_0_0.npy", np.zeros((1, 1, 1, 1), "u1"))
    with pytest.raises(FormatError, match="none with number 200, 201, 202, 203, 204 …"):
        reblock.merge(tmp_path, tmp_path / "y.npy")


def test_a_missing_first_plane_is_noticed(tmp_path: Path) -> None:
    for row in (1, 2):
        for column in (0, 1):
            np.save(tmp_path / f"b_{row}_{column}.npy", np.zeros((2, 2), "u1"))
    with pytest.raises(FormatError, match=r"counted from 0 along axis 1.*axis 0.*b_0_0\.npy"):
        reblock.merge(tmp_path, tmp_path / "y.npy")


def test_blocks_with_other_scalings_are_not_merged(tmp_path: Path) -> None:
    for number in range(2):
        image = nibabel.Nifti1Image(np.ones((2, 2, 2), "i2"), np.eye(4))
        image.header.set_slope_inter(1 + number, 0)
        nibabel.save(image, tmp_path / f"b_0_0_{number}.nii")
    with pytest.raises(FormatError, match=r"slope and intercept of b_0_0_1\.nii: \[2\.0, 0\.0\], but \[1\.0"):
        reblock.merge(tmp_path, tmp_path / "y.nii")
