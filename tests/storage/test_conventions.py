"""Attributes of NetCDF, CF and xarray, from file to file; the judges are h5py, zarr-python and, where there, ncdump."""

from __future__ import annotations

import json
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
from reblock.errors import UsageError
from reblock.model.schema import Schema
from reblock.storage.conventions import fill_attribute, fill_attribute_to_json
from reblock.storage.hdf5.format import FORMAT as HDF5
from reblock.storage.zarr.format import FORMAT as ZARR
from reblock.storage.zarr.format import FORMAT2 as ZARR2

TIES = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates")
#: Base64 of the little-endian double -999, as xarray has it.
CODED = "AAAAAAA4j8A="


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def netcdf(path: str = "s.nc", group: str = "/") -> None:
    """What the NetCDF library makes of a variable t(time, x), a coordinate time, and a dimension x without one."""
    with h5py.File(path, "w") as file:
        file.attrs["_NCProperties"] = np.bytes_(b"version=2,netcdf=4.9.2,hdf5=1.14.2")
        scales = file.require_group(group)
        for number, (name, length) in enumerate((("time", 4), ("x", 6))):
            scale = scales.create_dataset(name, data=np.arange(length, dtype="f8"))
            none = f"This is a netCDF dimension but not a netCDF variable. {length:9d}"
            scale.make_scale(name if name == "time" else none)
            scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        inner = scales.require_group("inner")
        data = inner.create_dataset("t", data=np.arange(24, dtype="f4").reshape(4, 6), chunks=(2, 3), fillvalue=-999)
        data.attrs["_Netcdf4Coordinates"] = np.array([0, 1], "i4")
        data.attrs["_FillValue"] = np.array([-999], "f4")
        data.attrs["scale_factor"] = np.array([0.5])
        data.attrs["count"] = np.array([7], "i2")
        data.attrs["range"] = np.array([0, 30], "f4")
        data.attrs["units"] = np.bytes_(b"K")
        data.attrs.create("name", ["air"], dtype=h5py.string_dtype())
        data.attrs["comment"] = h5py.Empty("S1")
        for axis, name in enumerate(("time", "x")):
            data.dims[axis].attach_scale(scales[name])


# ---------------------------------------------------------------- from NetCDF
@pytest.mark.parametrize("version", [2, 3])
def test_netcdf_to_zarr_is_what_xarray_would_write(version: int) -> None:
    netcdf()
    report = reblock.repartition("s.nc::inner/t", "t.zarr", to_format="zarr" if version == 3 else "zarr2")
    array = zarr.open_array("t.zarr", mode="r")
    attributes = dict(array.attrs)
    names = attributes.pop("_ARRAY_DIMENSIONS") if version == 2 else list(array.metadata.dimension_names)
    assert names == ["time", "x"]
    fill = attributes.pop("_FillValue")
    assert fill == (CODED if version == 3 else -999.0)
    assert attributes == {
        "scale_factor": 0.5,
        "count": 7,
        "range": [0.0, 30.0],
        "units": "K",
        "name": "air",
        "comment": "",
    }
    notes = " ".join(report.notes)
    assert "DIMENSION_LIST" not in notes
    assert "_Netcdf4Coordinates" not in notes


@pytest.mark.parametrize("version", ["zarr", "zarr2"])
def test_types_of_attributes_survive_zarr(version: str) -> None:
    """Through zarr, and through a copy of it, back to HDF5."""
    netcdf()
    reblock.repartition("s.nc::inner/t", "t.zarr", to_format=version)
    reblock.repartition("t.zarr", "u.zarr", chunks=(1, 6), to_format=version)
    reblock.repartition("u.zarr", "u.h5")
    assert dict(zarr.open_array("t.zarr", mode="r").attrs) == dict(zarr.open_array("u.zarr", mode="r").attrs)
    with h5py.File("u.h5") as file, h5py.File("s.nc") as before:
        found, given = file["data"].attrs, before["inner/t"].attrs
        for name in ("_FillValue", "scale_factor", "count", "range", "units"):
            assert np.asarray(found[name]).dtype == np.asarray(given[name]).dtype
            assert np.array_equal(found[name], given[name])
            assert np.shape(found[name]) == np.shape(given[name])
        assert list(found["name"]) == ["air"]


def test_a_type_that_does_not_fit_its_attribute_is_ignored() -> None:
    netcdf()
    reblock.repartition("s.nc::inner/t", "t.zarr")
    with open("t.zarr/zarr.json") as file:
        document = json.load(file)
    document["attributes"] |= {"count": 70_000, "units": 3, "range": [0.1, 30.0], "scale_factor": [1, 2]}
    document["reblock"]["attribute_types"]["name"] = {"dtype": "O", "shape": [2**62]}
    with open("t.zarr/zarr.json", "w") as file:
        json.dump(document, file)
    found = reblock.open("t.zarr").attributes
    assert {name: found[name] for name in ("count", "units", "range", "scale_factor", "name")} == {
        "count": 70_000,
        "units": 3,
        "range": [0.1, 30.0],
        "scale_factor": [1, 2],
        "name": "air",
    }


def test_netcdf_to_hdf5_keeps_attributes_as_they_are() -> None:
    netcdf()
    report = reblock.repartition("s.nc::inner/t", "t.h5", chunks=(4, 2), from_format="hdf5")
    with h5py.File("t.h5") as file, h5py.File("s.nc") as before:
        found, given = file["data"].attrs, before["inner/t"].attrs
        assert sorted(found) == sorted({*given, "DIMENSION_LABELS"} - set(TIES))
        for name in ("_FillValue", "scale_factor", "count", "range", "units"):
            assert np.asarray(found[name]).dtype == np.asarray(given[name]).dtype
            assert np.array_equal(found[name], given[name])
            assert np.shape(found[name]) == np.shape(given[name])
        assert [dim.label for dim in file["data"].dims] == ["time", "x"]
    assert "_Netcdf4Coordinates" in " ".join(report.notes)


def test_a_coordinate_names_its_own_axis() -> None:
    netcdf()
    assert reblock.info("s.nc::time")["axes"] == ["time"]
    report = reblock.repartition("s.nc::time", "time.h5", from_format="hdf5")
    with h5py.File("time.h5") as file:
        assert not set(file["data"].attrs) & set(TIES)
        assert not file["data"].is_scale
    assert all(name in " ".join(report.notes) for name in ("CLASS", "NAME", "_Netcdf4Dimid"))


@pytest.mark.parametrize("target", ["t.h5", "time.h5"])
def test_ncdump_reads_what_was_made(target: str) -> None:
    if shutil.which("ncdump") is None:
        pytest.skip("ncdump (Debian netcdf-bin) is not installed")
    netcdf()
    reblock.repartition("s.nc::inner/t" if target == "t.h5" else "s.nc::time", target)
    found = subprocess.run(["ncdump", target], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "_FillValue = -999.f" in found.stdout or target == "time.h5"
    assert "reblock" not in found.stdout


# ---------------------------------------------------------------- names of axes
def test_scales_name_axes_from_groups_around(tmp_path: Path) -> None:
    netcdf(group="/outer")
    assert reblock.info("s.nc::outer/inner/t")["axes"] == ["time", "x"]
    with h5py.File(tmp_path / "h.h5", "w") as file:
        data = file.create_dataset("d", data=np.zeros((3, 3, 2)))
        file["y"] = np.arange(3)
        file["y"].make_scale()
        for axis in (0, 1):
            data.dims[axis].attach_scale(file["y"])
        data.dims[2].label = "channel"
    assert reblock.info("h.h5::d")["axes"] == ["y", "y", "channel"]


def test_labels_come_before_scales_and_every_axis_needs_a_name(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "h.h5", "w") as file:
        data = file.create_dataset("d", data=np.zeros((3, 2)))
        file["y"] = np.arange(3)
        file["y"].make_scale()
        data.dims[0].attach_scale(file["y"])
    assert reblock.info("h.h5::d")["axes"] is None
    with h5py.File(tmp_path / "h.h5", "r+") as file:
        file["d"].dims[0].label, file["d"].dims[1].label = "row", "column"
    assert reblock.info("h.h5::d")["axes"] == ["row", "column"]


def test_a_scale_that_is_gone_costs_only_the_names(tmp_path: Path) -> None:
    netcdf()
    with h5py.File("s.nc", "r+") as file:
        file.move("time", "elsewhere/time")
    assert reblock.info("s.nc::inner/t")["axes"] is None
    assert reblock.open("s.nc::inner/t")[...].shape == (4, 6)


# ---------------------------------------------------------------- _FillValue
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("<f4", value) for value in (-999.0, np.nan, np.inf, -0.0)),
        *((">f8", value) for value in (1e300, np.nan)),
        ("<f2", 1.5),
        ("<c8", 1 + 2j),
        ("<i2", -7),
        ("<u8", 2**64 - 1),
        ("|b1", True),
    ],
    ids=str,
)
def test_fill_values_come_back_from_every_form(dtype: str, value: Any) -> None:
    kind = np.dtype(dtype)
    scalar = np.array(value, kind.newbyteorder("="))[()]
    forms = [scalar, np.array([scalar]), np.array([scalar], kind)[()]]
    forms += [json.loads(json.dumps(fill_attribute_to_json(scalar, version=version))) for version in (2, 3)]
    for form in forms:
        found = fill_attribute(form, kind)
        assert found.dtype == scalar.dtype
        assert found.tobytes() == scalar.tobytes()


@pytest.mark.parametrize("value", ["K", "AAAA", [1, 2], {"a": 1}, None, 1e300, 1 + 2j, "AAAAAAA4j8A= "])
def test_what_is_no_fill_value_is_left_alone(value: Any) -> None:
    assert fill_attribute(value, np.dtype("f4")) is None


def test_a_fill_value_goes_through_all_formats() -> None:
    """As xarray writes it in zarr v3, as it reads it in HDF5, and as the same text again."""
    array = zarr.create_array("a.zarr", shape=(4,), chunks=(2,), dtype="f4", attributes={"_FillValue": CODED})
    array[:] = 1
    report = reblock.repartition("a.zarr", "b.h5")
    assert "_FillValue" in " ".join(report.notes)
    with h5py.File("b.h5") as file:
        found = file["data"].attrs["_FillValue"]
        assert found.dtype == np.dtype("f4")
        assert found.tolist() == [-999]
    reblock.repartition("b.h5", "c.zarr", to_format="zarr2")
    assert zarr.open_array("c.zarr", mode="r").attrs["_FillValue"] == -999.0
    reblock.repartition("c.zarr", "d.zarr", to_format="zarr")
    assert zarr.open_array("d.zarr", mode="r").attrs["_FillValue"] == CODED
    again = reblock.repartition("d.zarr", "e.zarr")
    assert zarr.open_array("e.zarr", mode="r").attrs["_FillValue"] == CODED
    assert "_FillValue" not in " ".join(again.notes)


# ---------------------------------------------------------------- empty values
def test_empty_attributes_are_kept() -> None:
    with h5py.File("s.h5", "w") as file:
        attributes = file.create_dataset("d", data=np.arange(6)).attrs
        attributes["bytes"] = np.bytes_(b"")
        attributes["text"] = ""
        attributes["null text"] = h5py.Empty("S1")
        attributes["null number"] = h5py.Empty("f4")
        attributes["nothing"] = np.zeros(0, "f4")
        attributes["texts"] = np.array([b"", b"a"])
        attributes["no texts"] = np.array([], h5py.string_dtype())
        attributes["opaque"] = np.void(b"abc")
        attributes["enum"] = np.array(1, h5py.enum_dtype({"A": 0, "B": 1}, "i1"))
    report = reblock.repartition("s.h5", "t.h5")
    with h5py.File("t.h5") as file:
        found = file["data"].attrs
        assert found["bytes"] == b"" == found["null text"]
        assert found["text"] == ""
        for name in ("nothing", "null number"):
            assert (found[name].shape, found[name].dtype) == ((0,), np.dtype("f4"))
        assert found["texts"].tolist() == [b"", b"a"]
        assert h5py.check_string_dtype(found.get_id("no texts").dtype) is not None
        assert found["no texts"].shape == (0,)
        assert found["opaque"].tobytes() == b"abc"
        assert found["enum"] == 1
    notes = " ".join(report.notes)
    assert "null text" in notes
    assert "null number" in notes
    assert "'enum'" in notes
    assert "'nothing'" not in notes
    reblock.repartition("t.h5", "t.zarr")
    assert dict(zarr.open_array("t.zarr", mode="r").attrs) == {
        "bytes": "",
        "text": "",
        "null text": "",
        "null number": [],
        "nothing": [],
        "texts": ["", "a"],
        "no texts": [],
        "enum": 1,
    }


# ---------------------------------------------------------------- what cannot be encoded
LONE = "\ud800"


@pytest.mark.parametrize("kind", [HDF5, ZARR, ZARR2], ids=lambda kind: kind.name)
@pytest.mark.parametrize("where", ["name", "value", "nested", "list", "key", "axis"])
def test_half_a_surrogate_pair_is_named_when_planning(kind: Any, where: str, tmp_path: Path) -> None:
    attributes: dict[str, Any] = {
        "name": {f"a{LONE}": 1},
        "value": {"a": f"b{LONE}"},
        "nested": {"a": {"b": [LONE]}},
        "list": {"a": [LONE]},
        "key": {"a": {LONE: 1}},
    }.get(where, {})
    axes = ("x", LONE) if where == "axis" else None
    wanted = Schema((4, 3), np.dtype("f4"), (2, 3), attributes={**attributes, "kept": 1}, axes=axes)
    schema = kind.adapt(wanted, ())
    assert (schema.attributes, schema.axes) == ({"kept": 1}, None)
    assert len(schema.notes) == 1
    kind.create(str(tmp_path / "y"), "y", schema).commit()


@pytest.mark.parametrize("asked", [(), ("fill_value",)])
def test_half_a_surrogate_pair_is_no_fill_value(asked: tuple[str, ...], tmp_path: Path) -> None:
    wanted = Schema((4,), np.dtype("U2"), (2,), fill_value=np.str_(LONE))
    if asked:
        with pytest.raises(UsageError, match="not Unicode"):
            ZARR2.adapt(wanted, asked)
        return
    schema = ZARR2.adapt(wanted, asked)
    assert "not Unicode" in " ".join(schema.notes)
    ZARR2.create(str(tmp_path / "y"), "y", schema).commit()
    assert ZARR2.open(str(tmp_path / "y"), "y").schema.fill_value == ""


def test_metadata_that_nobody_could_read_back_is_refused_when_planning() -> None:
    """Longer than the limit for reading; found before anything is written, not when the array is opened."""
    for kind in (ZARR, ZARR2):
        with pytest.raises(UsageError, match="limit"):
            kind.adapt(Schema((4,), np.dtype("f4"), (2,), attributes={"a": "x" * (9 << 20)}), ())


@pytest.mark.parametrize("before", ["zarr", "zarr2", "netcdf"])
@pytest.mark.parametrize("after", ["zarr", "zarr2", "netcdf", "netcdf3"])
def test_what_xarray_takes_for_missing_stays_missing(tmp_path: Path, before: str, after: str) -> None:
    """In zarr v2 the fill value is `_FillValue`, and zeros are missing where it is zero."""
    made = xarray.Dataset({name: (("x",), [0.0, np.nan, 3.0]) for name in "pf"} | {"i": (("x",), [0, 5, 9])})
    encoding: dict[str, Any] = {"p": {"dtype": "i2", "_FillValue": -99, "scale_factor": 0.5}, "f": {"_FillValue": 7.0}}
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    if before == "netcdf":
        made.to_netcdf(source, encoding=encoding, engine="h5netcdf")
    else:
        made.to_zarr(source, encoding=encoding, consolidated=False, zarr_format=2 if before == "zarr2" else 3)
    reblock.repartition(source, target, to_format=after)
    options: dict[str, Any] = {"engine": "zarr", "consolidated": False} if "zarr" in after else {"engine": "netcdf4"}
    for one in (xarray.open_dataset(target, **options), xarray.open_dataset(target, engine="reblock")):
        assert one.identical(made)
        assert one.i.dtype == made.i.dtype
        one.close()
    if before == after == "zarr2":
        both = [json.loads(Path(where, "p", ".zattrs").read_text()) for where in (source, target)]
        assert both[0] == both[1]
