"""Every ordered pair of formats: elements come through, and metadata comes through or is named in the report."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import nibabel
import numpy as np
import pytest
import tifffile
import zarr

import reblock
from reblock.storage import registry

#: A target in each format, with the name of its array where it has one, and the options that make it.
TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "npy": ("x.npy", {}),
    "blocks": ("x/", {}),
    "rawblocks": ("x/", {"to_format": "rawblocks"}),
    "fileblocks": ("x/", {"to_format": "fileblocks"}),
    "zarr": ("x.zarr", {}),
    "zarr2": ("x.zarr", {"to_format": "zarr2"}),
    "minc": ("x.mnc", {}),
    "netcdf": ("x.nc::v", {}),
    "hdf5": ("x.h5::v", {}),
    "netcdf3": ("x.nc::v", {"to_format": "netcdf3"}),
    "nifti": ("x.nii", {}),
    "nifti_gz": ("x.nii.gz", {}),
    "tiff": ("x.tif", {}),
    "ometiff": ("x.ome.tif", {}),
}
ARRAY = np.arange(6 * 5 * 4, dtype="<i2").reshape(6, 5, 4) * 7 - 300
FILL = 5
AXES = ("zspace", "yspace", "xspace")
ATTRIBUTES = {"units": "K", "valid_range": [-300, 600], "scale": 0.5}
PAIRS = list(product(TARGETS, TARGETS))
#: Every so many pairs are tried by default; all of them with the marker faults.
STEP = 5


def test_every_format_that_is_written_is_here() -> None:
    """PostgreSQL has tests of its own, which start a server."""
    written = {one.name for one in reblock.formats() if one.writes}
    assert {*TARGETS, "postgres"} == written


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same array in each format, with all metadata that the format holds."""
    base = tmp_path_factory.mktemp("pairs")
    array = zarr.create_array(
        base / "seed.zarr",
        shape=ARRAY.shape,
        dtype=ARRAY.dtype,
        chunks=(2, 5, 3),
        fill_value=FILL,
        attributes=ATTRIBUTES,
        dimension_names=AXES,
    )
    array[...] = ARRAY
    return {name: run(base / "seed.zarr", name, base / name)[0] for name in TARGETS}


def run(source: Path | str, name: str, folder: Path) -> tuple[str, str]:
    """Repartition into a format; the target, and all notes of the report."""
    folder.mkdir()
    where, options = TARGETS[name]
    chunks = {} if "chunks" not in keeps(name) else {"chunks": (3, 2, 4)}
    if name in ("tiff", "ometiff"):
        chunks = {}
    report = reblock.repartition(source, f"{folder}/{where}", memory="4MiB", **chunks, **options)
    assert [path.name for path in folder.iterdir()] == [where.partition("::")[0].rstrip("/")]
    return f"{folder}/{where}", " ".join(report.notes)


def keeps(name: str) -> tuple[str, ...]:
    return next(one.keeps for one in reblock.formats() if one.name == name)


def elements(where: str) -> np.ndarray:
    """The elements as the format's own library reads them; blocks have none."""
    path, _, inner = where.partition("::")
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".zarr"):
        return np.asarray(zarr.open_array(path, mode="r")[...])
    if path.endswith((".h5", ".mnc")):
        with h5py.File(path) as file:
            return np.asarray(file[inner or "minc-2.0/image/0/image"][()])
    if path.endswith(".nc"):
        with netCDF4.Dataset(path) as file:
            file.set_auto_maskandscale(False)
            return np.asarray(file[inner][...])
    if path.endswith((".nii", ".nii.gz")):
        return np.asarray(nibabel.load(path).dataobj.get_unscaled())
    if path.endswith(".tif"):
        return np.asarray(tifffile.imread(path))
    return np.asarray(reblock.open(path)[...])


def plain(value: Any) -> Any:
    """An attribute without the forms of NetCDF, which has numbers in arrays and text in bytes."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value.decode() if isinstance(value, bytes) else value


def check(first: str, second: str, sources: dict[str, str], folder: Path) -> None:
    source = sources[first]
    target, notes = run(source, second, folder)
    found = elements(target)
    assert (found.shape, found.dtype.newbyteorder("=")) == (ARRAY.shape, ARRAY.dtype)
    assert np.array_equal(found, ARRAY)
    assert reblock.verify(source, target).equal
    one, two = (registry.open(where).schema for where in (source, target))
    assert two.axes == one.axes or (one.axes is None and two.axes is not None) or "axes" in notes or "axis" in notes
    assert same_fill(one.fill_value, two.fill_value) or "fill" in notes
    lost = [key for key in one.attributes if key not in two.attributes]
    changed = [key for key in two.attributes if key in one.attributes]
    changed = [key for key in changed if plain(one.attributes[key]) != plain(two.attributes[key])]
    assert not lost + changed or "attribute" in notes, (lost, changed, notes)
    both = set(keeps(first)) & set(keeps(second))
    assert "fill value" not in both or two.fill_value == FILL
    assert "axis names" not in both or two.axes == AXES
    if "attributes" in both:
        assert {key: plain(two.attributes[key]) for key in ATTRIBUTES} == ATTRIBUTES


def same_fill(one: Any, two: Any) -> bool:
    """An array without a fill value may get any."""
    return one is None or one == two


@pytest.mark.parametrize(("first", "second"), PAIRS[::STEP])
def test_some_pairs(first: str, second: str, sources: dict[str, str], tmp_path: Path) -> None:
    check(first, second, sources, tmp_path / "target")


@pytest.mark.faults
@pytest.mark.parametrize(("first", "second"), [pair for n, pair in enumerate(PAIRS) if n % STEP])
def test_the_other_pairs(first: str, second: str, sources: dict[str, str], tmp_path: Path) -> None:
    check(first, second, sources, tmp_path / "target")
