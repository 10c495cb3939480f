"""Many files as one array: concatenated or stacked, in order, and refused if they do not fit together."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import ChangedError, FormatError, ReblockError, UsageError
from reblock.geometry import Grid
from reblock.storage.joined.pattern import JoinedLocation, expand, natural
from reblock.testing.arrays import noise

tifffile = pytest.importorskip("tifffile")
nibabel = pytest.importorskip("nibabel")
DATA = noise((37, 20, 30), "<i4")
CUTS = (0, 12, 20, 37)
COUNTS = ("opens", "seeks", "runs", "bytes_read", "bytes_written")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _zarr(path: str, data: Any, **options: Any) -> None:
    zarr.create_array(path, shape=data.shape, dtype=data.dtype, **options)[...] = data


def _hdf5(path: str, data: Any, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("d", data=data, **options)


def _netcdf(path: str, data: Any, kind: str, *, record: bool = False) -> None:
    with netCDF4.Dataset(path, "w", format=kind) as file:
        for number, length in enumerate(data.shape):
            file.createDimension(f"a{number}", None if record and not number else length)
        file.createVariable("d", data.dtype, [f"a{number}" for number in range(data.ndim)])[...] = data


def _nifti(path: str, data: Any) -> None:
    nibabel.save(nibabel.Nifti1Image(data, np.eye(4)), path)


#: How one member of each kind is written: pattern, and a function of its path and elements.
KINDS: dict[str, tuple[str, Callable[[str, Any], None]]] = {
    "npy": (".npy", np.save),
    "fortran": (".npy", lambda path, data: np.save(path, np.asfortranarray(data))),
    "zarr": (".zarr", lambda path, data: _zarr(path, data, chunks=(5, 7, 30))),
    "zarr-raw": (".zarr", lambda path, data: _zarr(path, data, chunks=(5, 7, 30), compressors=None)),
    "zarr-shards": (".zarr", lambda path, data: _zarr(path, data, chunks=(2, 10, 30), shards=(8, 20, 30))),
    "zarr-order": (
        ".zarr",
        lambda path, data: _zarr(path, data, chunks=(5, 7, 30), filters=[zarr.codecs.TransposeCodec(order=(2, 0, 1))]),
    ),
    "hdf5": (".h5", lambda path, data: _hdf5(path, data, chunks=(5, 20, 30), compression="gzip", shuffle=True)),
    "hdf5-raw": (".h5", lambda path, data: _hdf5(path, data, chunks=(5, 20, 30))),
    "hdf5-lzf": (".h5", lambda path, data: _hdf5(path, data, chunks=(5, 20, 30), compression="lzf")),
    "hdf5-contiguous": (".h5", _hdf5),
    "netcdf": (".nc", lambda path, data: _netcdf(path, data, "NETCDF4")),
    "netcdf3": (".nc", lambda path, data: _netcdf(path, data, "NETCDF3_CLASSIC")),
    "netcdf3-records": (".nc", lambda path, data: _netcdf(path, data, "NETCDF3_64BIT_OFFSET", record=True)),
    "nifti": (".nii", _nifti),
    "nifti-gz": (".nii.gz", _nifti),
    "tiff": (".tif", lambda path, data: tifffile.imwrite(path, data, photometric="minisblack")),
    "tiff-zlib": (
        ".tif",
        lambda path, data: tifffile.imwrite(path, data, photometric="minisblack", compression="zlib", tile=(16, 16)),
    ),
}


def judge(source: Any, expected: Any, **how: Any) -> Any:
    """Read, plan, run and verify an array of many files."""
    array = reblock.open(source, **how)
    assert np.array_equal(array[...], expected)
    assert np.array_equal(array[3:9, ::2, 5], expected[3:9, ::2, 5])
    report = reblock.repartition(source, "out.zarr", chunks=(10, 10, 10), memory="2MiB", **how)
    assert np.array_equal(zarr.open_array("out.zarr")[...], expected)
    assert [getattr(report.measured, one) for one in COUNTS] == [getattr(report.predicted, one) for one in COUNTS]
    assert reblock.verify(source, "out.zarr", **how).equal
    copy = pickle.loads(pickle.dumps(array.store))
    assert copy.layout == array.store.layout
    return array


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_concatenated(here: Path, kind: str) -> None:
    suffix, write = KINDS[kind]
    for number, (start, stop) in enumerate(itertools.pairwise(CUTS)):
        write(f"x{number + 9}{suffix}", DATA[start:stop])
    array = judge(f"{here}/x*{suffix}", DATA, concat=0)
    assert array.shape == DATA.shape
    cut = array.chunks[0]
    assert sum(cut) == 37 if isinstance(cut, tuple) else cut in (1, 2)


def test_along_the_last_axis(here: Path) -> None:
    for number, (start, stop) in enumerate(((0, 5), (5, 17), (17, 30))):
        np.save(f"x{number}.npy", DATA[:, :, start:stop])
    array = judge(f"{here}/x*.npy", DATA, concat=2)
    assert array.layout.objects == Grid.of(DATA.shape, (37, 20, (5, 12, 13)))


@pytest.mark.parametrize("kind", ["npy", "zarr", "tiff", "tiff-zlib"])
def test_slices_are_stacked(here: Path, kind: str) -> None:
    suffix, write = KINDS[kind]
    if kind == "zarr":
        write = lambda path, data: _zarr(path, data, chunks=(7, 30))  # noqa: E731 - two axes
    for number in range(12):
        write(f"slice {number}{suffix}", DATA[number])
    array = judge("slice *" + suffix, DATA[:12], stack="z")
    assert array.axes == (("z", "Y", "X") if "tif" in kind else ("z", "dim_1", "dim_2"))
    assert array.chunks[0] == 1


def test_a_list_keeps_its_order(here: Path) -> None:
    for number in range(4):
        np.save(f"{number}.npy", DATA[number])
    assert np.array_equal(reblock.open(["3.npy", "1.npy"], stack="z")[...], DATA[[3, 1]])
    with pytest.raises(UsageError, match="named twice"):
        reblock.open(["3.npy", "3.npy"], stack="z")
    with pytest.raises(UsageError, match="needs concat"):
        reblock.open(["3.npy", "1.npy"])
    with pytest.raises(UsageError, match="not both"):
        reblock.open("*.npy", concat="x", stack="z")


# ---------------------------------------------------------------- names
def test_names_are_in_natural_order(here: Path) -> None:
    for name in ("x10.npy", "x9.npy", "x1.npy", ".x2.npy", "y1.npy"):
        np.save(name, DATA)
    (here / "sub").mkdir()
    np.save("sub/x3.npy", DATA)
    assert expand(f"{here}/x*.npy") == [f"{here}/{name}" for name in ("x1.npy", "x9.npy", "x10.npy")]
    assert expand(f"{here}/*/x[1-5].npy") == [f"{here}/sub/x3.npy"]
    assert sorted(["b2", "b10", "b1a", "10", "9"], key=natural) == ["9", "10", "b1a", "b2", "b10"]
    with pytest.raises(UsageError, match="no file matches"):
        expand(f"{here}/z*.npy")


def test_locations_are_text(here: Path) -> None:
    where = JoinedLocation.of("a/*.nc::g/t2m", concat="time of day", stack=None)
    assert str(where) == f"concat://time%20of%20day/{here}/a/*.nc::g/t2m"
    assert JoinedLocation.parse(str(where)) == where
    assert JoinedLocation.parse("x.nc::t") is None


# ---------------------------------------------------------------- order
def _timed(
    path: str, times: Any, *, units: str | None = "hours since 2000-01-01", dtype: str = "<f4", grid: int = 4
) -> None:
    """A file with a coordinate; elements are ten times the time."""
    with h5py.File(path, "w") as file:
        time = file.create_dataset("time", data=np.asarray(times, "f8"))
        time.make_scale("time")
        if units is not None:
            time.attrs["units"] = units
        values = np.repeat(np.asarray(times, dtype)[:, None] * 10, grid, 1)
        made = file.create_dataset("t2m", data=values, chunks=(1, grid), compression="gzip")
        made.attrs["units"] = "K"
        made.dims[0].attach_scale(time)
        made.dims[0].label, made.dims[1].label = "time", "x"
        file.create_dataset("lat", data=np.arange(grid))


def test_the_coordinate_gives_the_order(here: Path) -> None:
    _timed("a.h5", [6, 7, 8])
    _timed("b.h5", [0, 1, 2])
    _timed("c.h5", [3, 4, 5])
    assert reblock.open("*.h5::t2m", concat="time")[:, 0].tolist() == [10 * n for n in range(9)]
    assert reblock.open("*.h5::time", concat="time")[:].tolist() == list(range(9))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": [2, 3]}, r"[ab]\.h5: its time begins at .* overlap"),
        ({"times": [8, 9]}, r"b\.h5: its time begins at 8\.0, a step of 6 behind .*a\.h5.* missing between"),
        ({"times": [3, 4], "units": "days since 1970-01-01"}, r"b\.h5: units of time are days"),
        ({"times": [3, 4], "dtype": "<f8"}, r"b\.h5: the type <f8, but <f4 in .*a\.h5"),
        ({"times": [3, 4], "grid": 5}, r"b\.h5: the shape \*,5, but \*,4 in .*a\.h5"),
        ({"times": [4, 3]}, r"the other way|overlap"),
        ({"times": [5, 3, 4]}, r"b\.h5: its coordinate time neither increases nor decreases"),
    ],
    ids=["overlap", "gap", "units", "type", "grid", "direction", "zigzag"],
)
def test_files_that_do_not_fit_are_named(here: Path, changes: dict[str, Any], message: str) -> None:
    _timed("a.h5", [0, 1, 2])
    _timed("b.h5", changes.pop("times"), **changes)
    with pytest.raises(FormatError, match=message):
        reblock.plan("*.h5::t2m", "out.zarr", concat="time")
    assert sorted(os.listdir(here)) == ["a.h5", "b.h5"]


def test_attributes_that_change_the_meaning_are_refused(here: Path) -> None:
    _timed("a.h5", [0, 1])
    _timed("b.h5", [2, 3])
    with h5py.File("b.h5", "a") as file:
        file["t2m"].attrs["scale_factor"] = 2.0
    with pytest.raises(FormatError, match=r"b\.h5: attribute 'scale_factor' is 2\.0, but None"):
        reblock.open("*.h5::t2m", concat="time")
    with h5py.File("b.h5", "a") as file:
        del file["t2m"].attrs["scale_factor"]
        file["t2m"].attrs["history"] = "made later"
    assert any("history" in note for note in reblock.open("*.h5::t2m", concat="time").store.schema.notes)


def test_an_empty_coordinate_says_nothing(here: Path) -> None:
    _timed("b2.h5", [0], units=None)
    _timed("b10.h5", [0], units=None)
    found = reblock.open("*.h5::time", concat="time").store
    assert [os.path.basename(path) for path in found.member_paths] == ["b2.h5", "b10.h5"]


def test_other_formats_and_ranks_are_refused(here: Path) -> None:
    np.save("a.npy", DATA)
    np.save("b.npy", DATA[0])
    np.save("c.npy", np.asfortranarray(DATA))
    _hdf5("d.npy", DATA)
    for name, message in (("b", "axes 2, but 3"), ("c", "axis order"), ("d", "the format hdf5, but npy")):
        with pytest.raises(FormatError, match=rf"{name}\.npy: {message}|{message}"):
            reblock.open(["a.npy", f"{name}.npy"], concat=0)
    with pytest.raises(UsageError, match="axis"):
        reblock.open("a*.npy", concat="time")
    with pytest.raises(ReblockError, match=r"nowhere\.npy"):
        reblock.open(["a.npy", "nowhere.npy"], concat=0)


# ---------------------------------------------------------------- runs
def test_a_changed_member_is_noticed(here: Path) -> None:
    for number in range(3):
        np.save(f"x{number}.npy", DATA[number])
    job = reblock.plan("x*.npy", "out.zarr", stack="z")
    np.save("x2.npy", DATA[5])
    with pytest.raises(ChangedError, match=r"x2\.npy changed"):
        reblock.run(job)
    with pytest.raises(UsageError, match="overlap"):
        reblock.repartition("x*.npy", "x1.npy", stack="z", overwrite=True)


@pytest.mark.faults
def test_a_killed_run_is_continued(here: Path) -> None:
    for number in range(24):
        np.save(f"x{number}.npy", noise((512, 512), "<u4", number) >> 16)
    words = [
        "run",
        "x*.npy",
        "out.zarr",
        "--stack",
        "z",
        "--chunks",
        "8,64,64",
        "--codec",
        "zstd:9",
        "--memory",
        "4MiB",
    ]
    command = [sys.executable, "-m", "reblock", *words, "--memory", "4MiB", "--quiet"]
    for number in range(6):
        process = subprocess.Popen(command)
        # Killed when chunks are there that it has not found, a little later each time.
        before = len(list(here.glob(".out.zarr.reblock/array/c/*/*/*")))
        while process.poll() is None and len(list(here.glob(".out.zarr.reblock/array/c/*/*/*"))) <= before + number:
            time.sleep(0.01)
        process.kill()
        process.wait()
        if (here / "out.zarr").exists():
            break
    assert (here / "out.zarr").exists() or reblock.resume("out.zarr") is not None
    expected = np.stack([np.load(f"x{number}.npy") for number in range(24)])
    found = zarr.open_array("out.zarr")
    assert np.array_equal(found[...], expected)
    assert found.metadata.dimension_names == ("z", "dim_1", "dim_2")
    assert not [name for name in os.listdir(here) if name.startswith(".")]


# ---------------------------------------------------------------- datasets
def test_whole_datasets_are_concatenated(here: Path) -> None:
    _timed("a.h5", [3, 4, 5])
    _timed("b.h5", [0, 1, 2])
    reblock.repartition("*.h5", "out.zarr", concat="time")
    group = zarr.open_group("out.zarr", mode="r")
    assert group["t2m"][:, 1].tolist() == [10.0 * n for n in range(6)]
    assert group["time"][:].tolist() == list(range(6))
    assert group["lat"][:].tolist() == [0, 1, 2, 3]
    dataset = reblock.open_dataset(str(JoinedLocation.of("*.h5", concat="time", stack=None)))
    assert dataset["t2m"].shape == (6, 4)


def test_arrays_without_the_axis_must_be_equal(here: Path) -> None:
    _timed("a.h5", [0, 1])
    _timed("b.h5", [2, 3])
    with h5py.File("b.h5", "a") as file:
        file["lat"][2] = 7
    with pytest.raises(UsageError, match=r"b\.h5: 'lat' has no axis 'time' and differs .* different grids"):
        reblock.repartition("*.h5", "out.zarr", concat="time")
    with h5py.File("b.h5", "a") as file:
        del file["lat"]
    with pytest.raises(UsageError, match=r"b\.h5: there is no array 'lat', which .*a\.h5 has.*exclude"):
        reblock.repartition("*.h5", "out.zarr", concat="time")
    assert not (here / "out.zarr").exists()


@pytest.mark.parametrize("change", ["lacks", "differs", "more"])
def test_arrays_that_do_not_fit_may_be_left_out(here: Path, change: str) -> None:
    _timed("a.h5", [0, 1])
    _timed("b.h5", [2, 3])
    with h5py.File("b.h5", "a") as file:
        if change == "more":
            file["odd"] = np.arange(3)
        else:
            _timed("c.h5", [4])
            values = file["t2m"][...].astype("i8")
            del file["t2m"]
            if change == "differs":
                odd = file.create_dataset("t2m", data=values)
                odd.dims[0].attach_scale(file["time"])
                odd.dims[0].label = "time"
    name = "odd" if change == "more" else "t2m"
    with pytest.raises(UsageError, match=f"cannot copy {name} "):
        reblock.repartition("*.h5", "out.zarr", concat="time")
    reblock.repartition("*.h5", "out.zarr", concat="time", exclude=name)
    report = reblock.repartition("*.h5", "again.zarr", concat="time", skip_unsupported=True)
    assert [note for note in report.notes if note.startswith(f"{name} is left out: ")]
    for made in ("out.zarr", "again.zarr"):
        group = zarr.open_group(made, mode="r")
        assert name not in group
        assert group["time"][:].tolist() == list(range(4 if change == "more" else 5))
    assert reblock.verify("*.h5", "out.zarr", concat="time", exclude=name).equal


def test_info_names_what_keeps_datasets_apart(here: Path) -> None:
    _timed("a.h5", [0, 1, 2])
    _timed("b.h5", [2, 3])
    with pytest.raises(FormatError, match="overlap"):
        reblock.info("*.h5", concat="time")


def test_files_with_an_unlimited_axis_are_stacked(here: Path) -> None:
    for number in range(2):
        _netcdf(f"x{number}.nc", DATA[number : number + 3], "NETCDF3_CLASSIC", record=True)
    reblock.repartition("x*.nc::d", "out.zarr", stack="z")
    assert np.array_equal(zarr.open_array("out.zarr")[...], np.stack([DATA[:3], DATA[1:4]]))
    reblock.repartition("x*.nc::d", "out.nc3::d", stack="z")
    with netCDF4.Dataset("out.nc3") as file:
        assert file["d"].shape == (2, 3, 20, 30)
