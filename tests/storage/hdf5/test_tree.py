"""HDF5 files of other programs as datasets, and ours as other programs read them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
import zarr

import reblock
from reblock.errors import FormatError, InfeasibleError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.schema import Record, Schema
from reblock.storage import registry
from reblock.storage.hdf5.format import FORMAT
from reblock.testing.arrays import noise
from reblock.testing.reference_io import read_array, write_array
from reblock.testing.sample_trees import small_tree


def make(path: str, tree: Tree) -> tuple[Tree, dict[str, Any]]:
    """A file of random elements."""
    adapted = FORMAT.adapt_tree(tree, ())
    elements = {name: noise(one.shape, one.dtype) for name, one in adapted.arrays.items()}
    FORMAT.create_tree(path, "", adapted)
    for name, schema in adapted.arrays.items():
        store = FORMAT.reopen(path, name, schema)
        write_array(store, elements[name])
        store.commit(Record(digest="rb1-0123456789"))
    FORMAT.commit_tree(path, "", adapted, {}, Record(digest="rb1-abcdef0123", job="7"))
    return adapted, elements


# ---------------------------------------------------------------- ours, read by others
def test_h5py_reads_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "all.h5")
    adapted, elements = make(path, small_tree())
    with h5py.File(path) as file:
        for name, expected in elements.items():
            assert np.array_equal(file[name][...], expected)
        assert file.attrs["version"] == 3
        assert file.attrs["version"].dtype == np.int16
        assert file["time"].is_scale
        assert file["t2m"].dims[0][0] == file["time"]
        assert file["deep/er/t2m"].dims[1][0] == file["deep/er/y"]
        assert file["deep/er/t2m"].dims[0][0] == file["time"]
        assert file["x"].is_scale, "an axis without coordinates is a scale that NetCDF does not count as a variable"
    assert set(registry.open_tree(path).tree.arrays) == set(adapted.arrays)
    assert registry.open_tree(path).record == Record(digest="rb1-abcdef0123", job="7")


def test_xarray_reads_the_file(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    path = str(tmp_path / "all.h5")
    _, elements = make(path, small_tree())
    options = {"engine": "h5netcdf", "mask_and_scale": False, "decode_times": False}
    with xarray.open_dataset(path, **options) as found:
        assert dict(found.sizes) == {"time": 6, "x": 4}
        assert list(found.coords) == ["time"]
        assert list(found.data_vars) == ["t2m"]
        assert np.array_equal(found["t2m"], elements["t2m"])
    with xarray.open_dataset(path, group="deep/er", **options) as found:
        assert found["t2m"].dims == ("time", "y")
        assert np.array_equal(found["t2m"], elements["deep/er/t2m"])


def test_ncdump_reads_the_file(tmp_path: Path) -> None:
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump (Debian netcdf-bin) is not installed")
    path = str(tmp_path / "all.h5")
    make(path, small_tree())
    found = subprocess.run(["ncdump", "-h", path], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "time = 6 ;" in found.stdout
    assert "float t2m(time, x) ;" in found.stdout
    assert "float t2m(time, y) ;" in found.stdout
    assert "phony" not in found.stdout
    assert "reblock" not in found.stdout


def test_a_name_that_is_not_a_coordinate(tmp_path: Path) -> None:
    """A two-dimensional array with the name of an axis: the axis has a label, not a scale."""
    path = str(tmp_path / "all.h5")
    tree = Tree(
        {"": GroupSchema({}, {"x": Dimension(4)})},
        {
            "x": Schema((4, 2), np.dtype("f4"), (4, 2), axes=("x", "y")),
            "v": Schema((4,), np.dtype("f4"), (4,), axes=("x",)),
        },
    )
    adapted, _ = make(path, tree)
    found = registry.open_tree(path)
    assert found.tree.arrays["v"].axes == ("x",)
    assert found.tree.arrays["x"].axes == ("x", "y")
    assert found.tree.arrays.keys() == adapted.arrays.keys()


# ---------------------------------------------------------------- files of others
def netcdf(path: Path) -> None:
    """What the NetCDF library makes of variables, a coordinate, and an unlimited axis without one."""
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["_NCProperties"] = np.bytes_(b"version=2,netcdf=4.9.2,hdf5=1.14.2")
        file.attrs["history"] = np.bytes_(b"made")
        file.attrs["level"] = np.array([3], "i2")
        v = file.create_dataset("v", data=np.arange(24, dtype="f4").reshape(4, 6), chunks=(2, 6), maxshape=(None, 6))
        time = file.create_dataset("time", data=np.arange(4.0), chunks=(4,), maxshape=(None,))
        time.make_scale("time")
        time.attrs["_Netcdf4Dimid"] = np.int32(0)
        x = file.create_dataset("x", shape=(6,), dtype=">f4")
        x.make_scale(f"This is a netCDF dimension but not a netCDF variable. {6:9d}")
        for axis, scale in enumerate((time, x)):
            v.dims[axis].attach_scale(scale)


def test_a_netcdf_file(tmp_path: Path) -> None:
    netcdf(tmp_path / "s.h5")
    found = registry.open_tree(tmp_path / "s.h5", "hdf5").tree
    assert list(found.arrays) == ["v", "time"], "in the order in which they were made"
    assert found.arrays["v"].axes == ("time", "x")
    assert not found.arrays["time"].attributes
    assert found.groups[""].dimensions == {"time": Dimension(4, unlimited=True), "x": Dimension(6)}
    assert dict(found.groups[""].attributes) == {"history": b"made", "level": 3}
    assert isinstance(found.groups[""].attributes["level"], np.int16)
    adapted, _ = make(str(tmp_path / "t.h5"), found)
    assert not any("unlimited" in note for note in adapted.notes)
    again = registry.open_tree(tmp_path / "t.h5").tree
    assert list(again.arrays) == ["v", "time"]
    assert again.arrays["v"].axes == ("time", "x")


def test_scales_of_some_axes_are_noted(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["time"] = np.arange(3)
        file["time"].make_scale()
        file["v"] = np.zeros((3, 2))
        file["v"].dims[0].attach_scale(file["time"])
    found = registry.open_tree(tmp_path / "s.h5").tree.arrays["v"]
    assert found.axes is None
    assert any("scales are not kept" in note for note in found.notes)


def test_links(tmp_path: Path) -> None:
    """Loops end, other names and soft links are named, other files are not opened."""
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.arange(3)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["g/a"] = np.arange(4)
        file["g/loop"] = file["g"]
        file["g/top"] = file["/"]
        file["again"] = file["g/a"]
        file["soft"] = h5py.SoftLink("/g/a")
        file["dangling"] = h5py.SoftLink("/nowhere")
        file["far"] = h5py.ExternalLink("other.h5", "/secret")
        file["type"] = np.dtype("f4")
    found = registry.open_tree(tmp_path / "s.h5")
    assert len(found.tree.arrays) == 1
    assert set(found.tree.groups) == {"", "g"}
    others = FORMAT.tree_strangers(str(tmp_path / "s.h5"), found.tree)
    for name in ("g/loop", "g/top", "soft", "dangling", "far", "type"):
        assert any(one.startswith(f"{name} is ") for one in others), name
        assert any(note.startswith(f"{name} is ") for note in found.tree.notes), name
    with pytest.raises(FormatError, match="name that file itself"):
        registry.open_tree(f"{tmp_path}/s.h5::far")


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["a"] = np.arange(4)
        file.create_dataset("ref", (2,), dtype=h5py.ref_dtype)
        file.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype("i4"))
        file.create_dataset("null", data=h5py.Empty("f4"))
        mixed = np.dtype([("n", "i4"), ("t", h5py.string_dtype())])
        file.create_dataset("mixed", (2,), dtype=mixed)
    found = registry.open_tree(tmp_path / "s.h5")
    assert list(found.tree.arrays) == ["a"]
    assert set(found.tree.tables) == {"ref", "ragged", "null", "mixed"}
    assert all(table.why for table in found.tree.tables.values())
    with pytest.raises(UsageError, match="references"):
        found.rows("ref", 0, 1, 1 << 20)
    assert FORMAT.adapt_tree(found.tree, ()).tables["ref"].why


def test_an_external_file_is_refused_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "raw.bin").write_bytes(bytes(32))
    with h5py.File(tmp_path / "s.h5", "w") as file:
        outside = [(str(tmp_path / "elsewhere" / "raw.bin"), 0, 32)]
        file.create_dataset("e", shape=(8,), dtype="f4", external=outside)
        file["a"] = np.arange(4)
    found = registry.open_tree(tmp_path / "s.h5")
    with pytest.raises(reblock.ExternalError):
        found.array("e")
    allowed = registry.open_tree(tmp_path / "s.h5", allow=[str(tmp_path / "elsewhere")])
    assert read_array(allowed.array("e")).tolist() == [0] * 8


# ---------------------------------------------------------------- tables
RECORD = np.dtype(
    {"names": ["a", "b", "c"], "formats": ["<i4", ">f8", ("u1", (2,))], "offsets": [0, 8, 20], "itemsize": 24}
)


def tables(path: Path) -> dict[str, Any]:
    """A file with one table of each kind; returns what h5py reads from it."""
    records = np.zeros(100, RECORD)
    records["a"], records["b"], records["c"] = np.arange(100), np.arange(100) / 3, 7
    with h5py.File(path, "w") as file:
        texts = [f"{n} ünïcode" * (n % 7) for n in range(1000)]
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype(), chunks=(64,))
        file.create_dataset("ascii", data=[b"x", b""], dtype=h5py.string_dtype("ascii"))
        file.create_dataset("grid", data=np.array([["a", "b"], ["c", ""]], object), dtype=h5py.string_dtype())
        file.create_dataset("one", data="alone", dtype=h5py.string_dtype())
        file.create_dataset("none", shape=(0, 3), dtype=h5py.string_dtype())
        file.create_dataset("record", data=records, chunks=(30,), compression="gzip")
        colours = h5py.enum_dtype({"RED": 1, "GREEN": 2}, basetype="i2")
        file.create_dataset("enum", data=np.array([[1, 2], [2, 1]], "i2"), dtype=colours)
        file["text"].attrs["units"] = "words"
        return {name: file[name].asstr()[()] if file[name].dtype.kind == "O" else file[name][()] for name in file}


def test_tables_without_elements_keep_their_place(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", (0, 8), RECORD, chunks=(2, 8), maxshape=(None, 8))
        file.create_dataset("n", data=np.arange(3))
    reblock.repartition(tmp_path / "a.h5", tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["a"].shape == (0, 8)


def copy_tables(source: Any, kind: Any, path: str) -> Any:
    """Copy all tables of a dataset in small blocks."""
    adapted = kind.adapt_tree(source.tree, ())
    assert not [table.why for table in adapted.tables.values() if table.why]
    kind.create_tree(path, "", adapted)
    for name, table in adapted.tables.items():
        at, stop = 0, table.shape[0] if table.shape else 1
        while at < stop:
            rows = source.rows(name, at, stop, 20_000)
            kind.write_rows(path, "", name, adapted, at, rows)
            at += len(rows) if table.shape else 1
    records = {name: Record(digest=f"rb2-{number:032x}") for number, name in enumerate(adapted.tables)}
    kind.commit_tree(path, "", adapted, records)
    return registry.open_tree(path)


def check_tables(found: Any, expected: dict[str, Any]) -> None:
    assert set(found.tree.tables) == set(expected)
    for name, values in expected.items():
        table, parts, at = found.tree.tables[name], [], 0
        assert table.shape == np.shape(values)
        if not table.shape:
            assert found.rows(name, 0, 1, 1 << 20)[()] == values
            continue
        while at < table.shape[0]:
            parts.append(found.rows(name, at, table.shape[0], 9000))
            at += len(parts[-1])
        if parts:
            whole = np.concatenate(parts)
            if table.kind == "record":
                assert all(np.array_equal(whole[field], values[field]) for field in values.dtype.names)
            else:
                assert whole.tolist() == values.tolist()


def test_tables(tmp_path: Path) -> None:
    expected = tables(tmp_path / "s.h5")
    source = registry.open_tree(tmp_path / "s.h5")
    check_tables(source, expected)
    assert {name: table.kind for name, table in source.tree.tables.items()} == {
        **dict.fromkeys(("text", "ascii", "grid", "one", "none"), "text"),
        "record": "record",
        "enum": "enum",
    }
    copy = copy_tables(source, FORMAT, str(tmp_path / "t.h5"))
    check_tables(copy, expected)
    assert copy.tree.tables["enum"].details == {"names": {"RED": 1, "GREEN": 2}}
    assert copy.tree.tables["text"].attributes == {"units": "words"}
    with h5py.File(tmp_path / "t.h5") as file:
        assert h5py.check_enum_dtype(file["enum"].dtype) == {"RED": 1, "GREEN": 2}
        assert h5py.check_string_dtype(file["ascii"].dtype).encoding == "ascii"


def test_rows_stay_within_the_limit(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file.create_dataset("text", data=["x" * 10_000] * 500, dtype=h5py.string_dtype())
        file.create_dataset("record", data=np.zeros((4, 5000), [("a", "f8"), ("b", "f8")]))
    found = registry.open_tree(tmp_path / "s.h5")
    assert 1 <= len(found.rows("text", 0, 500, 1 << 20)) <= 120
    assert len(found.rows("record", 0, 4, 400_000)) == 2
    with pytest.raises(InfeasibleError, match="takes") as error:
        found.rows("record", 0, 4, 1000)
    assert error.value.needs_memory_bytes == 160_000


def test_a_table_that_hdf5_lacks(tmp_path: Path) -> None:
    tree = Tree(tables={"t": TableSchema((3,), np.dtype("O"), "ragged")})
    assert "ragged" in FORMAT.adapt_tree(tree, ()).tables["t"].why


@pytest.mark.slow
@pytest.mark.parametrize("many", [10, pytest.param(100, marks=pytest.mark.faults)])
def test_many_nodes(tmp_path: Path, many: int) -> None:
    with h5py.File(tmp_path / "many.h5", "w", libver="latest") as file:
        for outer in range(many):
            group = file.create_group(f"g{outer}")
            for inner in range(1000):
                group.create_group(f"{inner}")
    assert len(registry.open_tree(tmp_path / "many.h5").tree.groups) == many * 1001 + 1


def test_nesting_has_a_limit(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "deep.h5", "w") as file:
        file.create_group("/".join(["d"] * 100))
    with pytest.raises(FormatError, match="deeper than 64"):
        registry.open_tree(tmp_path / "deep.h5")


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    tree = FORMAT.adapt_tree(small_tree(), ())
    with pytest.raises(reblock.DiskError):
        FORMAT.create_tree(str(tmp_path / "no" / "all.h5"), "", tree)
    assert os.listdir(tmp_path) == []


def test_padding_of_records_is_noted(tmp_path: Path) -> None:
    aligned = np.dtype([("a", "u1"), ("b", "f8"), ("c", "i2")], align=True)
    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["padded"] = np.zeros(5, aligned)
        file["packed"] = np.zeros(5, np.dtype([("a", "u1"), ("b", "f8")]))
    notes = registry.open_tree(tmp_path / "s.h5").tree.notes
    assert notes == (f"padded: {aligned.itemsize - 11} bytes of padding in each record are not kept",)


def test_tables_have_the_scales_of_their_axes(tmp_path: Path) -> None:
    """Text along an axis shares its scale with arrays, and is a scale itself if it has the axis' name."""
    top = zarr.create_group(tmp_path / "x.zarr")
    top.create_array("t2m", data=np.zeros((3, 4)), dimension_names=["time", "station"])
    top.create_array("time", data=np.arange(3), dimension_names=["time"])
    for name, axis, values in (("station", "station", "abcd"), ("label", "time", "xyz")):
        made = top.create_array(name, shape=(len(values),), dtype=str, dimension_names=[axis])
        made[...] = np.array(list(values), object)
    reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        assert file["t2m"].dims[1][0].name == "/station"
        assert file["label"].dims[0][0].name == "/time"
        assert file["station"].is_scale
        assert set(file) == {"t2m", "time", "station", "label"}
    found = reblock.open_dataset(tmp_path / "y.h5")
    assert (found.tables["station"].axes, found.tables["label"].axes) == (("station",), ("time",))
    assert reblock.verify(tmp_path / "x.zarr", tmp_path / "y.h5")
    with xarray.open_dataset(tmp_path / "y.h5", engine="h5netcdf") as read:
        assert read["t2m"].dims == ("time", "station")
        assert read["station"].values.tolist() == list("abcd")
        assert read["label"].dims == ("time",)
    reblock.repartition(tmp_path / "y.h5", tmp_path / "z.zarr")
    assert zarr.open_group(tmp_path / "z.zarr", mode="r")["label"].metadata.dimension_names == ("time",)
