"""Files of other formats in a real S3 store, as sources: values, attributes, counts of requests, faults, references."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import ChangedError, ExternalError
from reblock.storage.media.registry import connect, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

DATA = np.random.default_rng(0).integers(0, 60000, (24, 40, 36), "u2")
CHUNKS = (8, 16, 12)


def more(*values: Any) -> Any:
    """A case for `make test-faults`."""
    return pytest.param(*values, marks=pytest.mark.faults)


def upload(path: Path, bucket: str) -> str:
    key = f"{bucket}/{path.name}"
    medium_of(key).write(key, [path.read_bytes()])
    return key


def make(path: Path, **options: Any) -> Path:
    np.save(path.with_name("start.npy"), DATA)
    reblock.repartition(path.with_name("start.npy"), path, **options)
    return path


def make_hdf5(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("scan/data", data=DATA, **options)
        dataset.attrs["unit"], dataset.attrs["gain"] = "K", np.float32(2.5)
    return path


@pytest.mark.parametrize(
    "name", ["x.tif", "x.nc", *(more(name) for name in ("x.npy", "x.nii", "x.nii.gz", "x.nc3", "x.mnc"))]
)
def test_every_format_is_read(tmp_path: Path, bucket: str, name: str) -> None:
    chunked = {} if name.endswith(".tif") else {"chunks": CHUNKS}
    made = make(tmp_path / name, **chunked)
    url = upload(made, bucket)
    here, there = reblock.open(made), reblock.open(url)
    assert repr(there.store.schema) == repr(here.store.schema)
    assert np.array_equal(there[3:9, ::3, 5], here[3:9, ::3, 5])
    reblock.repartition(url, tmp_path / "y.zarr", chunks=tuple(min(n, 9) for n in here.shape))
    assert reblock.verify(made, tmp_path / "y.zarr").equal


@pytest.mark.parametrize(
    "options",
    [
        more({}),
        {"chunks": CHUNKS},
        more({"chunks": CHUNKS, "compression": "gzip", "shuffle": True, "fletcher32": True}),
        {"chunks": CHUNKS, "compression": "lzf"},
    ],
    ids=["contiguous", "raw", "gzip", "lzf"],
)
def test_hdf5_to_zarr_and_its_attributes(tmp_path: Path, bucket: str, options: dict[str, Any]) -> None:
    url = upload(make_hdf5(tmp_path / "x.h5", **options), bucket)
    reblock.repartition(f"{url}::/scan/data", f"{bucket}/y.zarr", chunks=(24, 10, 6), codec="zstd:1")
    found = reblock.open(f"{bucket}/y.zarr")
    assert np.array_equal(found[...], DATA)
    assert dict(found.attributes) == {"unit": "K", "gain": 2.5}
    assert reblock.verify(f"{url}::/scan/data", f"{bucket}/y.zarr").equal


def test_a_whole_file_to_zarr(tmp_path: Path, bucket: str) -> None:
    netcdf = pytest.importorskip("netCDF4")
    path = tmp_path / "x.nc"
    with netcdf.Dataset(path, "w") as file:
        for name, length in zip("tyx", DATA.shape, strict=True):
            file.createDimension(name, length)
        for name in ("a", "b"):
            variable = file.createVariable(name, "u2", ("t", "y", "x"), zlib=name == "b", chunksizes=CHUNKS)
            variable[...] = DATA + (name == "b")
            variable.units = "m"
        file.title = "two"
    url = upload(path, bucket)
    reblock.repartition(url, f"{bucket}/y.zarr", chunks="t=-1,y=20,x=18")
    assert reblock.verify(url, f"{bucket}/y.zarr").equal
    reblock.repartition(f"{bucket}/y.zarr", tmp_path / "back.nc", chunks="t=8,y=16,x=12")
    with netcdf.Dataset(tmp_path / "back.nc") as file:
        assert (file.title, file["a"].units, file["a"].dimensions) == ("two", "m", ("t", "y", "x"))
        assert np.array_equal(file["b"][...], DATA + 1)


@pytest.mark.parametrize("options", [{}, {"chunks": CHUNKS}], ids=["contiguous", "chunked"])
def test_requests_are_those_of_the_plan(tmp_path: Path, bucket: str, s3: S3Server, options: dict[str, Any]) -> None:
    data = np.random.default_rng(1).integers(0, 9, (32, 64, 512), "u2")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=data, **({"chunks": (8, 32, 256)} if options else {}))
    url = upload(path, bucket)
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        job = reblock.plan(url, tmp_path / "y.npy")
        proxy.counts.clear()
        report = reblock.run(job)
    assert np.array_equal(np.load(tmp_path / "y.npy"), data)
    written = report.passes[0].target.runs
    assert proxy.counts["GET other"] == report.predicted.runs - written == report.measured.runs - written


@pytest.mark.parametrize("options", [{"chunks": CHUNKS}, {"chunks": CHUNKS, "compression": "lzf"}], ids=["raw", "lzf"])
def test_trouble_on_the_way(tmp_path: Path, bucket: str, s3: S3Server, options: dict[str, Any]) -> None:
    url = upload(make_hdf5(tmp_path / "x.h5", **options), bucket)
    with Proxy(s3.port, busy=0.2, cut=0.05, lost=0.02, seed=5) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        reblock.repartition(url, tmp_path / "y.npy")
        assert sum(proxy.faults.values()) > 5
    assert np.array_equal(np.load(tmp_path / "y.npy"), DATA)


def test_references_to_other_files_are_refused(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_hdf5(tmp_path / "other.h5")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink("other.h5", "/scan/data")
        file["away"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/scan/data")
        file["bucket"] = h5py.ExternalLink("s3://elsewhere/other.h5", "/scan/data")
        file.create_dataset("outside", (4, 4), "u1", external=[(str(tmp_path / "raw.bin"), 0, 16)])
        layout = h5py.VirtualLayout(DATA.shape, "u2")
        layout[...] = h5py.VirtualSource(str(tmp_path / "other.h5"), "scan/data", DATA.shape)
        file.create_virtual_dataset("virtual", layout)
        inside = h5py.VirtualLayout((2, 4), "u1")
        inside[...] = h5py.VirtualSource(".", "plain", (2, 4))
        file["plain"] = np.arange(8, dtype="u1").reshape(2, 4)
        file.create_virtual_dataset("inside", inside)
    url = upload(tmp_path / "x.h5", bucket)
    upload(tmp_path / "other.h5", bucket)
    (tmp_path / "raw.bin").write_bytes(bytes(16))
    for name in ("link", "away", "bucket", "outside", "virtual"):
        for allowed in ((), (tmp_path,)):
            with pytest.raises(ExternalError, match="must not lead to others"):
                reblock.open(f"{url}::/{name}", allow_external=allowed)[...]
    assert np.array_equal(reblock.open(f"{url}::/inside")[...], np.arange(8).reshape(2, 4))


def test_a_file_that_changes_aborts_the_run(tmp_path: Path, bucket: str) -> None:
    path = make_hdf5(tmp_path / "x.h5", chunks=CHUNKS)
    url = upload(path, bucket)
    job = reblock.plan(url, tmp_path / "y.npy")
    with h5py.File(path, "r+") as file:
        file["scan/data"][0, 0, 0] = 7
    upload(path, bucket)
    with pytest.raises(ChangedError):
        reblock.run(job)
    assert not os.path.lexists(tmp_path / "y.npy")


def test_a_hostile_file_in_a_store(tmp_path: Path, bucket: str) -> None:
    data = bytearray(make_hdf5(tmp_path / "x.h5", chunks=CHUNKS).read_bytes())
    rng = np.random.default_rng(3)
    for number in range(6):
        bad = bytearray(data[: len(data) if number else 700])
        for at in rng.integers(8, 3000 if number else 600, 40):
            bad[at] = rng.integers(256)
        (tmp_path / f"bad{number}.h5").write_bytes(bad)
        url = upload(tmp_path / f"bad{number}.h5", bucket)
        try:
            reblock.open(f"{url}::/scan/data")[...]
        except reblock.ReblockError:
            continue
