"""Monthly files of an ocean model that nobody here wrote, concatenated into one Zarr group; xarray judges."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray

import reblock
from sweeps.sdists import unpacked


@pytest.mark.faults
def test_the_months_of_nemo_are_what_xarray_makes_of_them(tmp_path: Path) -> None:
    try:
        folder = unpacked("iris-sample-data")
    except OSError as error:
        pytest.skip(str(error))
    files = sorted(folder.rglob("NEMO/nemo_1m_*.nc"))
    assert len(files) == 3
    pattern = f"{files[0].parent}/nemo_1m_*.nc"
    reblock.repartition(pattern, tmp_path / "nemo.zarr", concat="time_counter", chunks={"time_counter": -1})
    with (
        xarray.open_mfdataset(
            [str(file) for file in files],
            combine="nested",
            concat_dim="time_counter",
            data_vars="minimal",
            coords="minimal",
            compat="override",
        ) as theirs,
        xarray.open_zarr(tmp_path / "nemo.zarr") as ours,
    ):
        assert ours.sizes["time_counter"] == 3
        xarray.testing.assert_identical(ours, theirs)
