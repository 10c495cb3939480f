"""NetCDF files that nobody here wrote, copied whole through NetCDF and Zarr; the NetCDF library compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from netcdf_files import copy, differences
from reblock.storage import registry
from reblock.storage.netcdf.format import FORMAT, FORMAT3
from reblock.storage.zarr.format import FORMAT as ZARR
from sweeps.sdists import unpacked

#: Distributions with NetCDF files, and how many there must be for the sweep to mean something.
DISTRIBUTIONS = {"netCDF4": 8, "iris-sample-data": 15}
WAYS = {
    "netcdf": (FORMAT,),
    "netcdf3": (FORMAT3,),
    "zarr": (ZARR, FORMAT),
    "netcdf3 and zarr": (FORMAT3, ZARR, FORMAT),
}


@pytest.mark.faults
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_files_of_other_projects_come_back(tmp_path: Path, distribution: str) -> None:
    try:
        folder = unpacked(distribution)
    except OSError as error:
        pytest.skip(str(error))
    files = sorted(folder.rglob("*.nc"))
    assert len(files) >= DISTRIBUTIONS[distribution]
    bad = []
    for number, file in enumerate(files):
        for way, formats in WAYS.items():
            source, here, left_out = registry.detect(str(file)), file, set()
            for step, target in enumerate(formats):
                there = tmp_path / f"{number} {way} {step}{target.suffixes[0]}"
                tree = copy(source, here, target, there)
                left_out |= {name for name, table in tree.tables.items() if table.why}
                source, here = target, there
            # Only text of any length has no place in NetCDF-3 and in some Zarr.
            assert left_out <= {"expver"}, left_out
            bad += [f"{file.name} by {way}: {one}" for one in differences(file, here, left_out)]
    assert not bad, "\n".join(bad)
