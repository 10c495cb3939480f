"""NetCDF files, whole and one variable, judged by the NetCDF library, ncdump and xarray."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray
import zarr

import reblock
from netcdf_files import copy, differences
from reblock.errors import FormatError, ReblockError, StorageError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, Tree
from reblock.model.schema import Schema
from reblock.storage import registry
from reblock.storage.netcdf.classic import read_classic
from reblock.storage.netcdf.format import FORMAT, FORMAT3
from reblock.storage.zarr.format import FORMAT as ZARR
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array, write_array


def make(path: Path, kind: str = "NETCDF4") -> None:
    """A file with all kinds of dimensions, variables and attributes."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.createDimension("time", None)
        file.createDimension("x", 4)
        file.createDimension("nv", 2)
        file.createDimension("unused", 9)
        file.title = "a file"
        file.empty = ""
        file.numbers = np.array([1, 2], "i2")
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        pairs = file.createVariable("x", "f4", ("x", "nv"))
        packed = file.createVariable("packed", "i2", ("time", "x"), fill_value=-9, zlib=kind == "NETCDF4")
        packed.scale_factor = np.float32(0.5)
        packed.valid_range = np.array([0, 100], "i2")
        shadow = file.createVariable("nv", "i4", ("x",))
        letters = file.createVariable("letters", "S1", ("x", "nv"))
        scalar = file.createVariable("scalar", "f8", ())
        for one in (packed, letters):
            one.set_auto_maskandscale(False)
        time[:], packed[:], pairs[:], shadow[:] = [1, 2, 3], np.arange(12).reshape(3, 4), 1.5, [1, 2, 3, 4]
        letters[:], scalar[...] = np.array(list("abcdefgh"), "S1").reshape(4, 2), 7
        if kind == "NETCDF4":
            file.setncattr_string("strings", ["a", "bc"])
            group = file.createGroup("deep")
            group.createDimension("y", 3)
            group.note = np.uint8(200)
            inner = group.createVariable("w", ">f4", ("time", "y"), fletcher32=True, chunksizes=(1, 3), endian="big")
            inner[:] = 1.5
            words = file.createVariable("words", str, ("x",))
            words[:] = np.array(["a", "", "日本", "d"], object)


@pytest.mark.parametrize("ways", [[FORMAT], [ZARR, FORMAT], [FORMAT, FORMAT]], ids=["copy", "zarr", "twice"])
def test_everything_comes_back(tmp_path: Path, ways: list[object]) -> None:
    path = tmp_path / "a.nc"
    make(path)
    source, here, left_out = FORMAT, path, set()
    for number, target in enumerate(ways):
        there = tmp_path / f"{number}{'.zarr' if target is ZARR else '.nc'}"
        tree = copy(source, here, target, there)
        left_out |= {name for name, table in tree.tables.items() if table.why}
        source, here = target, there
    assert differences(path, here, left_out) == []
    assert left_out <= {"words"}


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
def test_netcdf3_comes_back(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.nc"
    make(path, kind)
    assert registry.detect(str(path)).name == "netcdf3"
    copy(FORMAT3, path, FORMAT3, tmp_path / "b.nc")
    copy(FORMAT3, path, ZARR, tmp_path / "b.zarr")
    copy(ZARR, tmp_path / "b.zarr", FORMAT3, tmp_path / "c.nc")
    copy(FORMAT, path, FORMAT, tmp_path / "d.nc")
    for name in ("b.nc", "c.nc", "d.nc"):
        assert differences(path, tmp_path / name) == [], name
    assert read_classic(str(tmp_path / "b.nc")).record_axis == "time"
    # The records of several variables are interleaved, each padded to four bytes.
    store = FORMAT3.open(str(path), "packed")
    assert store.layout.objects.counts == (3, 1)
    offsets = [store.place((record, 0)).offset for record in range(3)]
    assert offsets[1] - offsets[0] == offsets[2] - offsets[1] == 8 + 8


def test_text_that_ends_in_nul_is_exact(tmp_path: Path) -> None:
    tree = Tree({"": GroupSchema({"a": b"text\0", "b": b"", "c": b"\0", "d": b"x\0y"})})
    for number, (target, name) in enumerate([(FORMAT3, "a.nc"), (ZARR, "a.zarr"), (FORMAT, "b.nc")]):
        target.create_tree(str(tmp_path / name), "", target.adapt_tree(tree, ()))
        target.commit_tree(str(tmp_path / name), "", tree, {})
        tree = target.open_tree(str(tmp_path / name), "").tree
        found = {key: bytes(value) for key, value in tree.groups[""].attributes.items()}
        assert found == {"a": b"text\0", "b": b"", "c": b"\0", "d": b"x\0y"}, number


def test_judges_read_what_was_written(tmp_path: Path) -> None:
    path, other = tmp_path / "a.nc", tmp_path / "b.nc"
    make(path)
    copy(FORMAT, path, FORMAT, other)
    with xarray.open_dataset(path, engine="netcdf4") as one, xarray.open_dataset(other, engine="netcdf4") as two:
        assert one.identical(two)
        assert {name: two[name].dtype for name in two} == {name: one[name].dtype for name in one}
    with xarray.open_dataset(path, engine="netcdf4") as one, xarray.open_dataset(other, engine="h5netcdf") as two:
        assert list(two.variables)
        assert one["packed"].identical(two["packed"])
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump (Debian netcdf-bin) is not installed")
    # The library lists variables in the order of their creation: text comes last here.
    names = "time,x,packed,nv,letters,scalar"
    command = ["ncdump", "-v", names]
    runs = [subprocess.run([*command, one], capture_output=True, text=True, check=True) for one in (path, other)]
    texts = [run.stdout.split("data:")[1] for run in runs]
    assert texts[0] == texts[1]
    header = subprocess.run(["ncdump", "-hs", other], capture_output=True, text=True, check=True).stdout
    assert "time = UNLIMITED ; // (3 currently)" in header
    assert "packed:_DeflateLevel = 4" in header
    assert "_Netcdf4" not in header


def test_one_variable_to_and_fro(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    make(path)
    reblock.repartition(f"{path}::packed", tmp_path / "p.nc", chunks=(2, 2))
    reblock.repartition(tmp_path / "p.nc", tmp_path / "p.nc3", to_format="netcdf3")
    reblock.repartition(tmp_path / "p.nc3", tmp_path / "q.h5")
    for name in ("p.nc", "p.nc3", "q.h5"):
        assert reblock.verify(f"{path}::packed", tmp_path / name).equal, name
        assert reblock.open(tmp_path / name).axes == ("time", "x")
    with netCDF4.Dataset(tmp_path / "p.nc3") as file:
        assert file.data_model == "NETCDF3_CLASSIC"
        assert file["data"].scale_factor == np.float32(0.5)
        assert file["data"].scale_factor.dtype == np.float32


def test_a_netcdf_file_is_also_hdf5(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    make(path)
    found = reblock.open(f"{path}::packed", format="hdf5")
    assert found.axes == ("time", "x")
    shutil.copy(path, tmp_path / "a.h5")
    assert registry.detect(str(tmp_path / "a.h5")).name == "netcdf"
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["x"] = np.arange(3)
    assert registry.detect(str(tmp_path / "plain.h5")).name == "hdf5"


def test_only_variables_count(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    make(path)
    with pytest.raises(FormatError, match=r"more than one variable: add ::NAME, one of time, x, packed, nv"):
        FORMAT.open(str(path), "")
    with pytest.raises(FormatError, match="is a group: add ::NAME, one of deep/w"):
        FORMAT.open(str(path), "deep")
    with pytest.raises(FormatError, match="has no unused"):
        FORMAT.open(str(path), "unused")
    assert set(FORMAT.open_tree(str(path), "deep").tree.arrays) == {"w"}


def test_a_variable_that_is_shorter_than_its_dimension_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("t", None)
        file.createVariable("short", "i4", ("t",))[:] = [1, 2]
        file.createVariable("long", "i4", ("t",))[:] = [1, 2, 3]
    tree = FORMAT.open_tree(str(path), "").tree
    assert tree.groups[""].dimensions == {"t": Dimension(3, unlimited=True)}
    assert "its axis 't' has 2 of 3 elements" in tree.tables["short"].why
    with pytest.raises(FormatError, match="has 2 of 3 elements"):
        FORMAT.open(str(path), "short")


@pytest.mark.parametrize("name", ["none", "filled", "text", "nothing"])
def test_a_variable_that_was_never_written_is_fill(tmp_path: Path, name: str) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("u", None)
        file.createDimension("x", 3)
        file.createVariable("t", "f8", ("t",))[:] = range(5)
        file.createVariable("none", "f4", ("t", "x"), zlib=True, chunksizes=(2, 3)).units = "m"
        file.createVariable("filled", "i2", ("x", "t"), fill_value=-5)
        file.createVariable("text", "S1", ("t",))
        file.createVariable("nothing", "u8", ("t", "u"))
    for other in ("b.nc", "b.zarr", "b.h5"):
        reblock.repartition(tmp_path / "a.nc", tmp_path / other)
        assert reblock.verify(tmp_path / "a.nc", tmp_path / other).equal
    with netCDF4.Dataset(tmp_path / "a.nc") as file, netCDF4.Dataset(tmp_path / "b.nc") as made:
        for one in (file, made):
            one[name].set_auto_mask(False)
            one[name].set_auto_chartostring(False)
        assert made[name].shape == file[name].shape
        assert made[name][:].tobytes() == file[name][:].tobytes()
        assert zarr.open_array(tmp_path / "b.zarr" / name)[...].tobytes() == file[name][:].tobytes()
    array = reblock.open(f"{tmp_path / 'a.nc'}::{name}")
    assert pickle.loads(pickle.dumps(array.store)).schema.shape == array.shape
    if array.size:
        with pytest.raises(ReblockError, match="missing"):
            reblock.repartition(array, tmp_path / "c.zarr", on_missing="error")


def test_months_that_were_never_written_are_joined(tmp_path: Path) -> None:
    for number in range(2):
        with netCDF4.Dataset(tmp_path / f"a{number}.nc", "w") as file:
            file.createDimension("t", None)
            file.createVariable("t", "f8", ("t",))[:] = [2 * number, 2 * number + 1]
            made = file.createVariable("v", "i4", ("t",), zlib=True, fill_value=-1)
            if number:
                made[:] = [7, 8]
    reblock.repartition(str(tmp_path / "a*.nc"), tmp_path / "b.zarr", concat="t")
    assert zarr.open_array(tmp_path / "b.zarr" / "v")[...].tolist() == [-1, -1, 7, 8]


def test_the_only_variable_may_be_an_enumeration(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as file:
        file.createDimension("n", 3)
        kind = file.createEnumType(np.uint8, "colour", {"RED": 1, "BLUE": 2})
        file.createVariable("v", kind, ("n",), fill_value=1)[:] = [2, 1, 2]
    with pytest.raises(FormatError, match=r"x\.nc::v: its elements are enum"):
        reblock.open(tmp_path / "x.nc")
    reblock.repartition(tmp_path / "x.nc", tmp_path / "x.zarr")
    assert reblock.open_dataset(tmp_path / "x.zarr").read_table("v").tolist() == [2, 1, 2]


def test_fill_values_follow_the_rules(tmp_path: Path) -> None:
    plain = Schema((4,), np.dtype("<f4"), (2,))
    assert FORMAT.adapt(plain, ()).fill_value == np.float32(netCDF4.default_fillvals["f4"])
    named = FORMAT.adapt(Schema((4,), np.dtype("<f4"), (2,), attributes={"_FillValue": -1.0}), ())
    assert named.fill_value == -1
    assert named.attributes["_FillValue"].dtype == np.float32
    store = FORMAT.create(str(tmp_path / "a.nc"), "v", named)
    write_array(store, np.arange(4, dtype="<f4"))
    store.commit()
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["v"]._FillValue == np.float32(-1)


# ---------------------------------------------------------------- NetCDF-3 as a target
def records(**more: Schema) -> Tree:
    i2, f8 = np.dtype(">i2"), np.dtype(">f8")
    return Tree(
        {"": GroupSchema({"title": "all"}, {"t": Dimension(5, unlimited=True), "x": Dimension(3)})},
        {
            "t": Schema((5,), f8, (5,), axes=("t",)),
            "v": Schema((5, 3), i2, (5, 3), axes=("t", "x"), attributes={"units": "K"}),
            "fixed": Schema((3,), i2, (3,), axes=("x",)),
            **more,
        },
    )


def test_records_can_be_continued(tmp_path: Path) -> None:
    """A copy of the file at any moment is what a kill leaves."""
    tree, path = FORMAT3.adapt_tree(records(), ()), tmp_path / "a.nc"
    FORMAT3.create_tree(str(path), "", tree)
    elements = {name: noise(one.shape, one.dtype) for name, one in tree.arrays.items()}
    for name, schema in tree.arrays.items():
        store = FORMAT3.reopen(str(path), name, schema)
        objects = list(store.layout.objects.indices())
        write_array(store, elements[name], skip=objects[len(objects) // 2 :])
        store.checkpoint()
        shutil.copy(path, tmp_path / "killed.nc")
        shutil.move(tmp_path / "killed.nc", path)
        again = FORMAT3.reopen(str(path), name, schema)
        write_array(again, elements[name], skip=objects[: len(objects) // 2])
        again.commit()
    for _ in range(2):
        FORMAT3.commit_tree(str(path), "", tree, {})
    opened = FORMAT3.open_tree(str(path), "")
    for name, wanted in elements.items():
        assert same_bits(read_array(opened.array(name)), wanted)
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert file["v"][...].tolist() == elements["v"].tolist()
        assert file.dimensions["t"].isunlimited()


@pytest.mark.parametrize(
    ("dtype", "length", "version"), [(">i4", 10, 1), (">i8", 10, 5), (">i4", 600_000_000, 1), (">i4", 1 << 31, 5)]
)
def test_the_oldest_version_that_holds_it(tmp_path: Path, dtype: str, length: int, version: int) -> None:
    schema = FORMAT3.adapt(Schema((length,), np.dtype(dtype), (length,)), ())
    FORMAT3.create(str(tmp_path / "a.nc"), "v", schema).commit()
    assert read_classic(str(tmp_path / "a.nc")).version == version
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["v"].shape == (length,)
        assert file["v"][length - 1] == 0


def test_two_large_variables_need_64_bit_offsets(tmp_path: Path) -> None:
    large = Schema((300_000_000,), np.dtype(">f8"), (300_000_000,), axes=("y",))
    tree = FORMAT3.adapt_tree(Tree(arrays={"a": large, "b": large, "c": large}), ())
    FORMAT3.create_tree(str(tmp_path / "a.nc"), "", tree)
    assert read_classic(str(tmp_path / "a.nc")).version == 2
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["c"].shape == (300_000_000,)


def test_what_netcdf3_cannot_hold_is_named() -> None:
    with pytest.raises(UsageError, match="NetCDF-3 has no groups"):
        FORMAT3.adapt_tree(Tree(arrays={"a/b": Schema((2,), np.dtype("<i4"), (2,))}), ())
    with pytest.raises(UsageError, match="only the first axis may have length 0"):
        FORMAT3.adapt(Schema((2, 0), np.dtype("<i4"), (2, 1)), ())
    with pytest.raises(UsageError, match="complex64 is not one of"):
        FORMAT3.adapt(Schema((2,), np.dtype("<c8"), (2,)), ())
    two = {"a": Dimension(3, unlimited=True), "b": Dimension(4, unlimited=True)}
    adapted = FORMAT3.adapt_tree(Tree({"": GroupSchema({}, two)}), ())
    assert [one.unlimited for one in adapted.groups[""].dimensions.values()] == [True, False]
    assert "'b' is not unlimited any more" in " ".join(adapted.notes)


# ---------------------------------------------------------------- broken files
@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_truncated_files_are_refused(tmp_path: Path, kind: str) -> None:
    make(tmp_path / "a.nc", kind)
    data = (tmp_path / "a.nc").read_bytes()
    for keep in (3, 10, 100, len(data) // 2, len(data) - 20):
        (tmp_path / "cut.nc").write_bytes(data[:keep])
        with pytest.raises(StorageError, match=r"cut\.nc"):
            reblock.repartition(f"{tmp_path}/cut.nc::packed", tmp_path / "out.zarr", from_format="netcdf")
        assert not (tmp_path / "out.zarr").exists()


def test_an_unlimited_axis_of_length_0(tmp_path: Path) -> None:
    for kind in ("NETCDF4", "NETCDF3_CLASSIC"):
        path = tmp_path / f"{kind}.nc"
        with netCDF4.Dataset(path, "w", format=kind) as file:
            file.createDimension("t", None)
            file.createDimension("x", 3)
            file.createVariable("v", "i4", ("t", "x"))
            file.createVariable("t", "f8", ("t",))
        for target in (FORMAT, FORMAT3):
            copy(FORMAT, path, target, tmp_path / f"{kind}{target.name}.nc")
            assert differences(path, tmp_path / f"{kind}{target.name}.nc") == []
        report = reblock.repartition(f"{path}::v", tmp_path / f"{kind}.zarr")
        assert report.measured.bytes_read == 0


# ---------------------------------------------------------------- whole files in one run
@pytest.mark.slow
def test_forty_variables_in_one_command(tmp_path: Path) -> None:
    path, rng = tmp_path / "a b.nc", np.random.default_rng(0)
    with netCDF4.Dataset(path, "w") as file:
        for name, length in {"time": None, "lat": 9, "lon": 8, "level": 2}.items():
            file.createDimension(name, length)
        for name, length in {"time": 12, "lat": 9, "lon": 8}.items():
            coordinate = file.createVariable(name, "f8", (name,))
            coordinate.units = "hours since 2000-01-01" if name == "time" else "degrees"
            coordinate[:] = np.arange(length)
        for number in range(37):
            kind = ("f4", "i2", "f8", "i4")[number % 4]
            axes = ("time", "lat", "lon") if number % 3 else ("time", "level", "lat", "lon")
            fill = -999 if number % 5 else None
            one = file.createVariable(f"v{number}", kind, axes, zlib=number % 2 == 0, fill_value=fill)
            one.set_auto_maskandscale(False)
            one.long_name = f"variable {number}"
            one.weight = float(number)
            if kind == "i2":
                one.scale_factor, one.add_offset = 0.1, 3.0
            shape = (12, *(len(file.dimensions[axis]) for axis in axes[1:]))
            one[:] = (rng.standard_normal(shape) * 100).astype(kind)
    chunks = ["--chunks", "time=-1,lat=4,lon=4", "--memory", "256MiB"]
    for source, target, options in (
        (path, tmp_path / "a.zarr", chunks),
        (path, tmp_path / "b.nc", chunks),
        (tmp_path / "a.zarr", tmp_path / "c.nc", []),
        (path, tmp_path / "d.nc", ["--to", "netcdf3"]),
    ):
        words = [sys.executable, "-m", "reblock", "run", "--quiet", str(source), str(target), *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with xarray.open_dataset(path) as wanted:
        for name in ("a.zarr", "b.nc", "c.nc", "d.nc"):
            engine = "zarr" if name.endswith(".zarr") else "netcdf4"
            with xarray.open_dataset(tmp_path / name, engine=engine) as found:
                assert wanted.identical(found), name
                assert {key: one.dtype for key, one in found.items()} == {key: wanted[key].dtype for key in wanted}
    for name in ("b.nc", "c.nc", "d.nc"):
        assert differences(path, tmp_path / name) == [], name


@pytest.mark.parametrize(
    "broken", ["a dimension that is not there", "a lie about the size", "cut", "a slash", "many attributes"]
)
def test_a_broken_file_is_one_line_and_leaves_nothing(tmp_path: Path, broken: str) -> None:
    make(tmp_path / "a.nc", "NETCDF3_CLASSIC")
    data = (tmp_path / "a.nc").read_bytes()
    # The variable `time`: its name, one axis, dimension 0; its attributes; its type, size and place.
    at = data.index(b"\0\0\0\x04time", data.index(b"\0\0\0\x0b"))
    if broken == "a dimension that is not there":
        data = data[: at + 12] + b"\0\0\0\x63" + data[at + 16 :]
    elif broken == "a lie about the size":
        where = data.index(b"\0\0\0\x06\0\0\0\x08", at)
        data = data[:where] + b"\0\0\0\x06\0\0\0\x0c" + data[where + 8 :]
    elif broken == "a slash":
        data = data.replace(b"packed", b"pac/ed")
    elif broken == "many attributes":
        where = data.index(b"\0\0\0\x0c")
        data = data[: where + 4] + b"\x7f\xff\xff\xff" + data[where + 8 :]
    else:
        data = data[:-30]
    (tmp_path / "b.nc").write_bytes(data)
    before = sorted(tmp_path.iterdir())
    words = [sys.executable, "-m", "reblock", "run", "b.nc", "out.zarr"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1
    assert "b.nc" in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_unlimited_axes_stay_unlimited_in_hdf5(tmp_path: Path) -> None:
    make(tmp_path / "a.nc")
    reblock.repartition(tmp_path / "a.nc", tmp_path / "b.h5")
    reblock.repartition(tmp_path / "b.h5", tmp_path / "c.h5")
    reblock.repartition(tmp_path / "c.h5", tmp_path / "d.nc")
    for name in ("b.h5", "c.h5"):
        with h5py.File(tmp_path / name, "r+") as file:
            assert file["time"].maxshape == (None,)
            assert file["packed"].maxshape == (None, 4)
            assert file["deep/w"].maxshape == (None, 3)
            assert file["x"].maxshape == (4, 2)
    with netCDF4.Dataset(tmp_path / "d.nc") as file:
        assert [one.isunlimited() for one in file.dimensions.values()] == [True, False, False, False]
    with h5py.File(tmp_path / "c.h5", "r+") as file:
        file["packed"].resize((5, 4))
        assert (file["packed"][3:] == file["packed"].fillvalue).all()


@pytest.mark.parametrize("name", [" lead", "trail ", "new\nline", "a\x7fb"])
def test_names_that_the_library_refuses(tmp_path: Path, name: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file[name] = file["b"] = np.arange(3)
    with pytest.raises(UsageError, match="NetCDF cannot hold the name"):
        reblock.plan(tmp_path / "x.h5", tmp_path / "y.nc")


@pytest.mark.parametrize("name", [" lead", "trail ", "new\nline"])
def test_arrays_alone_have_names_that_the_library_takes(tmp_path: Path, name: str) -> None:
    data = np.arange(6).reshape(2, 3)
    zarr.create_array(tmp_path / "a.zarr", shape=(2, 3), dtype="i4", dimension_names=[name, "y"])[...] = data
    for target in ("a.nc", "a.nc3"):
        with pytest.raises(UsageError, match="NetCDF cannot hold the name"):
            reblock.repartition(tmp_path / "a.zarr", f"{tmp_path / target}::{name}")
        report = reblock.repartition(tmp_path / "a.zarr", f"{tmp_path / target}::v")
        assert [note for note in report.notes if "axes are named dim_0, y" in note]
        with netCDF4.Dataset(tmp_path / target) as file:
            assert list(file.dimensions) == ["dim_0", "y"]
    # Into an existing file, too.
    with pytest.raises(UsageError, match="NetCDF cannot hold the name"):
        reblock.repartition(tmp_path / "a.zarr", f"{tmp_path / 'a.nc'}::deep/{name}")


def test_what_a_copy_keeps(tmp_path: Path) -> None:
    """The byte order of a file of NetCDF-4, raw or not; and empty text, on the way through HDF5."""
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "x.nc", "w") as file:
        file.createDimension("a", 3)
        file.createVariable("big", ">i4", ("a",), endian="big")[:] = np.arange(3)
        file.createVariable("b", "f4", ("a",))[:] = np.arange(3)
        file.empty = ""
    for target in ("y.nc", "y.h5", "z.nc"):
        reblock.repartition(tmp_path / ("y.h5" if target == "z.nc" else "x.nc"), tmp_path / target)
    with h5py.File(tmp_path / "y.h5") as file:
        assert file.attrs["empty"] in ("", b"")
    for target in ("y.nc", "z.nc"):
        with netcdf4.Dataset(tmp_path / target) as file:
            assert (file["big"].endian(), file.empty) == ("big", "")


def test_dimensions_of_a_group_above_the_one_that_is_opened(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "x.nc", "w") as file:
        file.createDimension("lat", 2)
        inside = file.createGroup("a").createGroup("b")
        inside.createDimension("time", 3)
        inside.createVariable("t", "f4", ("time", "lat"))
        inside.createVariable("m", "f4", ("lat",))
    for group in ("a", "a/b"):
        arrays = reblock.open_dataset(f"{tmp_path}/x.nc::{group}").arrays
        assert [one.axes for one in arrays.values()] == [("time", "lat"), ("lat",)]
