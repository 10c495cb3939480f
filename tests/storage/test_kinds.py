"""Text, opaque bytes, dates and durations in formats that have no plain type for them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import UsageError
from reblock.model.schema import Schema
from reblock.storage.hdf5.format import FORMAT as HDF5
from reblock.storage.zarr.format import FORMAT as ZARR
from reblock.testing.arrays import noise

UNSTABLE = "ignore:.*does not have a Zarr V3 spec"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sample(dtype: str) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind != "U":
        return noise((4, 6), dtype)
    letters = np.random.default_rng(0).integers(1, 0xD7FF, 24 * kind.itemsize // 4).astype(f"{kind.byteorder}u4")
    return letters.view(dtype).reshape(4, 6)


# ---------------------------------------------------------------- zarr v3
@pytest.mark.filterwarnings(UNSTABLE)
@pytest.mark.parametrize("dtype", ["|S1", "|S5", "|S300", "<U3", ">U3", "<U100", "|V4", "|V300"])
@pytest.mark.parametrize("options", [{}, {"codec": "blosc:zstd:1:shuffle"}, {"shards": (4, 6)}], ids=str)
def test_zarr_python_reads_text_and_bytes_in_v3(dtype: str, options: dict[str, Any]) -> None:
    data = sample(dtype)
    np.save("x.npy", data)
    if dtype[1] == "V" and "shards" in options:
        with pytest.raises(UsageError, match="cannot be read by zarr-python"):
            reblock.plan("x.npy", "y.zarr", chunks=(2, 3), **options)
        return
    report = reblock.repartition("x.npy", "y.zarr", chunks=(2, 3), **options)
    assert any("no stable specification" in note for note in report.notes)
    found = zarr.open_array("y.zarr", mode="r")[...]
    assert found.dtype.newbyteorder(data.dtype.byteorder) == data.dtype
    # By value where bytes are swapped on the way.
    assert found.astype(data.dtype).tobytes() == data.tobytes()
    assert reblock.verify("x.npy", "y.zarr").equal


@pytest.mark.filterwarnings(UNSTABLE)
@pytest.mark.parametrize(("dtype", "fill"), [("S5", b"ab"), ("S5", b""), ("<U3", "é"), (">U3", "x"), ("V3", b"\0\1\2")])
def test_their_fill_values_are_zarr_pythons(dtype: str, fill: Any) -> None:
    scalar = np.array(fill, dtype)[()]
    schema = ZARR.adapt(Schema((4,), np.dtype(dtype), (2,), fill_value=scalar), {"fill_value"})
    ZARR.create("ours.zarr", "", schema).commit()
    zarr.create_array("theirs.zarr", shape=(4,), chunks=(2,), dtype=np.dtype(dtype), fill_value=scalar)
    ours, theirs = (json.loads(Path(f"{who}.zarr/zarr.json").read_text()) for who in ("ours", "theirs"))
    for key in ("data_type", "fill_value"):
        assert ours[key] == theirs[key]
    assert zarr.open_array("ours.zarr", mode="r")[0] == scalar
    assert ZARR.open("theirs.zarr", "").schema.fill_value == scalar


# ---------------------------------------------------------------- dates in HDF5
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", "Mm")
def test_dates_become_integers_with_cf_attributes(kind: str, unit: str, order: str) -> None:
    data = np.array([[0, -1, 2**62], [np.iinfo("i8").min, 7, -(2**62)]], f"{order}i8").view(f"{order}{kind}8[{unit}]")
    np.save("x.npy", data)
    report = reblock.repartition("x.npy", "y.h5", chunks=(1, 2))
    assert any("CF attributes" in note for note in report.notes)
    with h5py.File("y.h5") as file:
        assert file["data"][...].tobytes() == data.tobytes()
        units = file["data"].attrs["units"]
        assert (units.endswith(" since 1970-01-01"), "calendar" in file["data"].attrs) == (kind == "M", kind == "M")
        assert file["data"].attrs["_FillValue"].tolist() == [np.iinfo("i8").min]
    for reader in ("reblock", "library"):
        verdict = reblock.verify("x.npy", "y.h5", reader=reader)
        assert verdict.equal
        assert verdict.source_digest == verdict.target_digest == report.digest
    assert reblock.verify("y.h5", "x.npy").equal


def test_dates_of_another_unit_are_not_the_same() -> None:
    np.save("x.npy", np.arange(6).view("M8[s]"))
    np.save("other.npy", np.arange(6).view("M8[ms]"))
    reblock.repartition("x.npy", "y.h5")
    assert reblock.verify("x.npy", "y.h5").equal
    verdict = reblock.verify("other.npy", "y.h5")
    assert not verdict.equal
    assert "dtype" in verdict.differences[0]
    with h5py.File("y.h5", "r+") as file:
        file["data"][3] = 9
    verdict = reblock.verify("x.npy", "y.h5")
    assert verdict.differing_elements == 1


def test_dates_keep_fill_and_other_attributes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.create_array(
            "x.zarr",
            shape=(4,),
            chunks=(2,),
            dtype="M8[s]",
            fill_value=np.datetime64("NaT"),
            attributes={"units": "mine", "title": "t"},
        )
        array[:2] = np.array(["2020-01-02", "NaT"], "M8[s]")
    report = reblock.repartition("x.zarr", "y.h5", codec="gzip:1")
    with h5py.File("y.h5") as file:
        assert file["data"].fillvalue == np.iinfo("i8").min
        assert file["data"].attrs["title"] == "t"
        assert file["data"].attrs["units"] == "seconds since 1970-01-01"
        assert file["data"][:2].tolist() == [1577923200, np.iinfo("i8").min]
    assert any("'units'" in note for note in report.notes)


@pytest.mark.parametrize("dtype", ["M8", "M8[Y]", "M8[M]", "M8[W]", "M8[10s]", "M8[ps]", "m8[as]"])
def test_units_that_cf_has_not_are_refused(dtype: str) -> None:
    with pytest.raises(UsageError, match="CF has no unit"):
        HDF5.adapt(Schema((4,), np.dtype(dtype), (2,)), ())


def test_a_conversion_of_units_is_not_lost_on_the_way() -> None:
    """Elements would become integers of the old unit, under the name of the new one."""
    np.save("x.npy", np.arange(6).view("M8[Y]"))
    with pytest.raises(UsageError, match="convert to zarr first"):
        reblock.plan("x.npy", "y.h5", dtype="M8[D]")
    reblock.repartition("x.npy", "x.zarr", dtype="M8[D]")
    reblock.repartition("x.zarr", "y.h5")
    with h5py.File("y.h5") as file:
        assert file["data"][...].tolist() == [0, 365, 730, 1096, 1461, 1826]
