"""Elements of another type: converted exactly, counted exactly, or refused by index and value."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner

import reblock
from reblock.cli.application import application
from reblock.errors import MisfitError, UsageError

DATA = np.random.default_rng(7).integers(0, 200, (24, 30, 20)).astype("<i4")


def _zarr(path: Path, data: np.ndarray[Any, Any], **more: Any) -> Path:
    zarr.create_array(str(path), data=data, chunks=(5, 7, 20), **more)
    return path


@pytest.mark.parametrize(
    ("dtype", "name", "more"),
    [
        ("u1", "b.zarr", {"chunks": (8, 8, 8), "strategy": "keep"}),
        (">f8", "b.zarr", {"chunks": (8, 8, 8), "strategy": "naive"}),
        ("c16", "b.npy", {"strategy": "keep"}),
        ("i8", "b.h5", {"chunks": (8, 8, 8), "codec": "gzip:1", "strategy": "keep"}),
        ("f4", "b.zarr", {"chunks": (1, 24, 20), "strategy": "multipass"}),
    ],
)
def test_counts_stay_exact(tmp_path: Path, dtype: str, name: str, more: dict[str, Any]) -> None:
    source, made = _zarr(tmp_path / "a.zarr", DATA), tmp_path / name
    report = reblock.repartition(source, made, dtype=dtype, memory="64KiB", transpose=(1, 0, 2), **more)
    for name in ("opens", "seeks", "bytes_read", "bytes_written"):
        assert getattr(report.measured, name) == getattr(report.predicted, name), name
    assert report.predicted.bytes_read >= DATA.nbytes
    assert report.measured.peak_bytes <= report.predicted.peak_bytes <= 64 << 10
    np.testing.assert_array_equal(reblock.open(made)[...], DATA.transpose(1, 0, 2).astype(dtype))
    assert reblock.open(made).dtype.newbyteorder("=") == np.dtype(dtype).newbyteorder("=")
    assert reblock.verify(source, made, transpose=(1, 0, 2), dtype=dtype).target_digest == report.digest


@pytest.mark.parametrize("strategy", ["naive", "keep", "multipass"])
def test_the_first_misfit_is_named_by_every_strategy(tmp_path: Path, strategy: str) -> None:
    data = DATA.copy()
    data[13, 4, 17] = 300
    source = _zarr(tmp_path / "a.zarr", data)
    job = reblock.plan(
        source,
        tmp_path / "b.zarr",
        chunks=(1, 14, 24),
        transpose=(2, 1, 0),
        region="3:24,:,:",
        memory="64KiB",
        strategy=strategy,
        dtype="u1",
    )
    with pytest.raises(MisfitError, match=r"a.zarr: element \[13, 4, 17\] is 300, which uint8 \(0 to") as one:
        reblock.run(job)
    assert (one.value.index, one.value.value) == ((13, 4, 17), 300)
    assert "unsafe_cast=True" in str(one.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


def test_workers_name_it_too(tmp_path: Path) -> None:
    data = DATA.copy()
    data[13, 4, 17] = -1
    np.save(tmp_path / "a.npy", data)
    job = reblock.plan(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=(8, 8, 8), dtype="u1", strategy="naive")
    with ThreadPoolExecutor(2) as pool, pytest.raises(MisfitError, match=r"element \[13, 4, 17\] is -1"):
        reblock.run(job, executor=pool)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npy"]


def test_an_old_target_survives_a_misfit(tmp_path: Path) -> None:
    np.save(tmp_path / "old.npy", DATA[:2])
    np.save(tmp_path / "a.npy", np.array([1.0, 2.0, 2.5]))
    reblock.repartition(tmp_path / "old.npy", tmp_path / "b.zarr", chunks=(1, 10, 10))
    with pytest.raises(MisfitError, match=r"element \[2\] is 2.5, which int16 .* cannot hold"):
        reblock.repartition(tmp_path / "a.npy", tmp_path / "b.zarr", chunks=2, dtype="i2", overwrite=True)
    np.testing.assert_array_equal(reblock.open(tmp_path / "b.zarr")[...], DATA[:2])


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,)])
def test_small_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "a.npy", np.full(shape, 7, ">i8"))
    reblock.repartition(tmp_path / "a.npy", tmp_path / "b.zarr", dtype="u1")
    found = reblock.open(tmp_path / "b.zarr")[...]
    assert found.shape == shape
    assert (np.asarray(found) == 7).all()
    np.save(tmp_path / "c.npy", np.full(shape, 700, ">i8"))
    if np.prod(shape, dtype=int):
        with pytest.raises(MisfitError, match="700"):
            reblock.repartition(tmp_path / "c.npy", tmp_path / "d.zarr", dtype="u1")


def test_chunks_that_are_not_stored_hold_the_fill_value_of_the_source(tmp_path: Path) -> None:
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(20,), chunks=(5,), dtype="i2", fill_value=-9)
    array[:5] = 1
    with pytest.raises(UsageError, match="uint8 cannot hold the fill value -9"):
        reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.zarr", dtype="u1")
    with pytest.raises(MisfitError, match=r"element \[\d+\] is -9"):
        reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.zarr", dtype="u1", fill_value=3)
    reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.zarr", dtype="u1", unsafe_cast=True)
    assert zarr.open_array(str(tmp_path / "b.zarr")).fill_value == 247
    reblock.repartition(tmp_path / "a.zarr", tmp_path / "c.zarr", dtype="f4", fill_value="nan")
    found = zarr.open_array(str(tmp_path / "c.zarr"))
    assert np.isnan(found.fill_value)
    np.testing.assert_array_equal(found[...], [1] * 5 + [-9] * 15)


def test_numpy_decides_with_unsafe_cast(tmp_path: Path) -> None:
    data = np.array([1.5, 300, -1, np.nan, np.inf, 1e20])
    np.save(tmp_path / "a.npy", data)
    reblock.repartition(tmp_path / "a.npy", tmp_path / "b.zarr", dtype="i2", unsafe_cast=True)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(reblock.open(tmp_path / "b.zarr")[...], data.astype("i2"))
    assert reblock.verify(tmp_path / "a.npy", tmp_path / "b.zarr", dtype="i2", unsafe_cast=True).equal
    checked = reblock.verify(tmp_path / "a.npy", tmp_path / "b.zarr", dtype="i2")
    assert not checked.equal
    assert "element [0] of the source is 1.5" in str(checked.differences)


def test_complex_numbers_and_text(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.array([1 + 0j, 2 + 1j]))
    with pytest.raises(MisfitError, match=r"element \[1\] is \(2\+1j\)"):
        reblock.repartition(tmp_path / "c.npy", tmp_path / "b.zarr", dtype="f4")
    np.save(tmp_path / "u.npy", np.array(["ab", "äb"]))
    with pytest.raises(MisfitError, match="äb") as caught:
        reblock.repartition(tmp_path / "u.npy", tmp_path / "b.zarr", dtype="S2", unsafe_cast=True)
    assert "unsafe" not in str(caught.value)
    with pytest.raises(UsageError, match="elements of type <U2 cannot be converted to float64"):
        reblock.plan(tmp_path / "u.npy", tmp_path / "b.zarr", dtype="f8")


def test_fill_value_of_netcdf_follows(tmp_path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("x", 6)
        made = file.createVariable("v", "i4", ("x",), fill_value=-1)
        made[:] = [1, 2, 3, 4, 5, 6]
    reblock.repartition(tmp_path / "a.nc::v", tmp_path / "b.nc::v", dtype="f4")
    reblock.repartition(tmp_path / "a.nc::v", tmp_path / "c.nc::v", dtype="u1", fill_value=250)
    reblock.repartition(tmp_path / "a.nc::v", tmp_path / "d.nc::v", dtype="i2", fill_value=-5, to_format="netcdf3")
    np.save(tmp_path / "a.npy", np.arange(1, 7, dtype="i2"))
    reblock.repartition(tmp_path / "a.npy", tmp_path / "e.nc::v", fill_value=-5)
    reblock.repartition(tmp_path / "a.npy", tmp_path / "f.nc::v", fill_value=-5, to_format="netcdf3")
    made = [(name, "i2", -5) for name in ("d.nc", "e.nc", "f.nc")]
    for name, dtype, fill in (("b.nc", "f4", -1), ("c.nc", "u1", 250), *made):
        with netCDF4.Dataset(tmp_path / name) as file:
            found = file["v"]
            assert (found.dtype, found._FillValue) == (np.dtype(dtype), fill)
            assert found[:].tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("dtype", "text", "fill"),
    [
        ("i2", "-5", -5),
        ("i2", "-999.0", -999),
        ("u1", "0xff", 255),
        ("f4", "0.1", np.float32(0.1)),
        ("?", "true", True),
        ("c8", "1+2j", 1 + 2j),
    ],
)
def test_fill_values_as_text(tmp_path: Path, dtype: str, text: str, fill: Any) -> None:
    np.save(tmp_path / "a.npy", np.ones(3, dtype))
    words = ["run", f"{tmp_path}/a.npy", f"{tmp_path}/b.zarr", "--fill-value", text, "--quiet"]
    assert CliRunner().invoke(application, words).exit_code == 0
    assert zarr.open_array(f"{tmp_path}/b.zarr").fill_value == fill
    reblock.repartition(tmp_path / "a.npy", tmp_path / "c.h5", fill_value=text)
    with h5py.File(tmp_path / "c.h5") as file:
        assert file["data"].fillvalue == fill


@pytest.mark.parametrize(
    ("dtype", "text"),
    [("u1", "256"), ("u1", "x"), ("i4", "1.5"), ("?", "2"), ("f2", "1e9"), ("f8", "1e400"), ("S2", "ä")],
)
def test_fill_values_that_are_none_of_the_type(tmp_path: Path, dtype: str, text: str) -> None:
    np.save(tmp_path / "a.npy", np.ones(3, dtype))
    with pytest.raises(UsageError, match=r"fill_value.*: .* cannot hold"):
        reblock.plan(tmp_path / "a.npy", tmp_path / "b.zarr", fill_value=text)


def test_where_they_make_no_sense(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    with pytest.raises(UsageError, match="npy has no fill value"):
        reblock.plan(tmp_path / "a.npy", tmp_path / "b.npy", fill_value=3)
    with pytest.raises(UsageError, match="unsafe_cast is for elements of another type"):
        reblock.plan(tmp_path / "a.npy", tmp_path / "b.npy", unsafe_cast=True)
    with pytest.raises(UsageError, match="unsafe_cast is for elements of another type"):
        reblock.verify(tmp_path / "a.npy", tmp_path / "a.npy", unsafe_cast=True)


def test_saved_plans_and_resumed_runs_keep_them(tmp_path: Path) -> None:
    data = DATA.copy()
    data[20] = 300
    source, target = _zarr(tmp_path / "a.zarr", data), tmp_path / "b.zarr"
    wanted: dict[str, Any] = {"chunks": (6, 6, 6), "dtype": "u1", "unsafe_cast": True, "fill_value": 9}
    job = reblock.plan(source, target, memory="32KiB", **wanted)
    reblock.save_plan(job, tmp_path / "p.json")
    assert json.loads((tmp_path / "p.json").read_text())["request"]["fill_value"] == "9"
    moved = [0, 1]
    with pytest.raises(KeyboardInterrupt):
        reblock.run(
            job, progress=lambda *now: moved.__setitem__(slice(None), now), cancelled=lambda: moved[0] > moved[1] / 2
        )
    with pytest.raises(UsageError, match="misfits was"):
        reblock.repartition(source, target, **{**wanted, "unsafe_cast": False})
    reblock.resume(target)
    again = reblock.load_plan(tmp_path / "p.json", source, tmp_path / "c.zarr")
    reblock.run(again)
    for made in (target, tmp_path / "c.zarr"):
        found = zarr.open_array(str(made))
        np.testing.assert_array_equal(found[...], data.astype("u1"))
        assert found.fill_value == 9
