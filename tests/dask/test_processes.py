"""Buffers in other processes: dask's own pool of processes, and workers of distributed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import xarray
import zarr

import reblock.dask

pytest.importorskip("distributed")

Volume = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread each, in processes of their own."""
    from distributed import Client, LocalCluster

    with (
        warnings.catch_warnings(action="ignore"),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@pytest.mark.slow
def test_processes_read_by_path_and_report(dataset: Any, volume: Volume) -> None:
    made = (da.from_array(dataset, chunks=20) + 1).sum(dtype="i8")
    with reblock.dask.io(memory="200KiB") as report, dask.config.set(scheduler="processes", num_workers=2):
        assert made.compute() == (volume + 1).sum(dtype="i8")
    assert report.counted["buffers"] == report.arrays[0]["buffers"]
    assert report.counted["seeks"] == report.arrays[0]["buffered"]["seeks"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_read_each_buffer_once(client: Any, dataset: Any, volume: Volume) -> None:
    made = da.from_array(dataset, chunks=20) + 1
    with client.as_current(), reblock.dask.io(memory="200KiB") as report:
        np.testing.assert_array_equal(made.compute(), volume + 1)
        assert int(made.persist().sum(dtype="i8").compute()) == (volume + 1).sum(dtype="i8")
    rows = report.arrays
    assert len(rows) >= 2
    assert all(row["buffers"] > 1 for row in rows[:2])
    planned = sum(row["buffers"] for row in rows)
    # Where memory is short for a moment, pieces are read without their buffer.
    assert report.counted["buffers"] == planned or (
        0 < report.counted["buffers"] < planned and report.counted["direct"] > 0
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_write_buffers(client: Any, tmp_path: Path, dataset: Any, volume: Volume) -> None:
    out = zarr.create_array(tmp_path / "out.zarr", shape=volume.shape, dtype="u2", chunks=(60, 60, 30))
    with client.as_current(), reblock.dask.io(memory="1MiB") as report:
        da.store(da.from_array(dataset, chunks=(20, 60, 30)) + 1, out, lock=False)
    np.testing.assert_array_equal(out[:], volume + 1)
    assert report.counted["gathered"] == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_form_for_clients_optimises_here(client: Any, dataset: Any, volume: Volume) -> None:
    with client.as_current():
        (made,) = reblock.dask.optimize(da.from_array(dataset, chunks=20) + 1, memory="200KiB")
        np.testing.assert_array_equal(made.compute(), volume + 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_workers_without_reblock_are_named(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def probe() -> str:
        return "No module named 'reblock'"

    monkeypatch.setattr("reblock.dask.cluster._make_probe", lambda: probe)
    with (
        client.as_current(),
        pytest.warns(UserWarning, match="cannot be imported on the scheduler and 2 others"),
        reblock.dask.io() as report,
    ):
        assert dask.config.get("array_optimize", None) is None
    assert "do not have reblock" in report.notes[0]


def test_xarray_on_files_is_found_behind_its_wrappers(tmp_path: Path, volume: Volume) -> None:
    data = xarray.Dataset({"t": (("a", "b", "c"), volume.astype("f8"))})
    data.t.encoding.update(dtype="i2", scale_factor=0.5, add_offset=10.0, _FillValue=-1)
    data.to_netcdf(tmp_path / "t.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf", chunks={"a": 20, "b": 12, "c": 12}) as opened:
        expected = opened.t.load().values.copy()
    with xarray.open_dataset(tmp_path / "t.nc", engine="h5netcdf", chunks={"a": 20, "b": 12, "c": 12}) as opened:
        part = opened.t[3:, :, ::-1] + 1
        with reblock.dask.io(memory="2MiB") as report:
            found = part.compute()
        np.testing.assert_array_equal(found, expected[3:, :, ::-1] + 1)
    assert report.arrays[0]["buffers"] >= 1
    assert report.counted["buffers"] == report.arrays[0]["buffers"]
    assert report.counted["direct"] == 0


@pytest.mark.filterwarnings("ignore:The specified chunks separate")
def test_xarray_on_zarr(tmp_path: Path, volume: Volume) -> None:
    xarray.Dataset({"t": (("a", "b", "c"), volume)}).to_zarr(
        tmp_path / "t.zarr", encoding={"t": {"chunks": (60, 60, 20)}}, consolidated=False
    )
    with xarray.open_zarr(tmp_path / "t.zarr", chunks={"a": 10, "b": 60, "c": 60}, consolidated=False) as opened:
        with reblock.dask.io(memory="8MiB") as report:
            found = (opened.t + 1).compute()
        np.testing.assert_array_equal(found, volume + 1)
        with reblock.dask.io(memory="8MiB") as writing:
            (opened.t + 1).to_dataset().chunk(a=60, b=60, c=20).drop_encoding().to_zarr(
                tmp_path / "out.zarr", consolidated=False
            )
    assert report.arrays[0]["buffers"] == 1
    assert report.arrays[0]["plain"]["opens"] == 18
    assert writing.graphs >= 1


def test_wrappers_that_are_not_understood_are_left_alone(tmp_path: Path, volume: Volume) -> None:
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["t"] = volume
    with xarray.open_dataset(tmp_path / "t.h5", engine="h5netcdf", phony_dims="sort") as opened:
        odd = opened.t.isel(phony_dim_0=slice(None, None, 2)).chunk(10)
        with reblock.dask.io(memory="1MiB") as report:
            np.testing.assert_array_equal(odd.compute(), volume[::2])
    assert report.arrays == []
