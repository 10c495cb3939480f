"""zstd in HDF5: filter 32015, read and written without its plugin; judged by hdf5plugin, netCDF4 and ncdump."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import CorruptError, FormatError, UsageError
from reblock.model.store import TransferMode
from reblock.storage.hdf5 import plugins
from reblock.storage.hdf5.format import FORMAT

installed = pytest.mark.skipif(find_spec("hdf5plugin") is None, reason="hdf5plugin is not installed")
DATA = np.cumsum(np.random.default_rng(1).standard_normal((50, 40)), 0).astype("f4")
#: Reads a dataset with h5py and hdf5plugin, in a process of its own, since the import registers all filters.
READ = "import sys, h5py, hdf5plugin, numpy as np; np.save(sys.argv[3], h5py.File(sys.argv[1])[sys.argv[2]][...])"
MAKE = """
import sys, h5py, hdf5plugin, numpy as np
data = np.load(sys.argv[2])
with h5py.File(sys.argv[1], "w") as file:
    settings = dict(chunks=(16, 16), maxshape=(None, 40))
    file.create_dataset("plain", data=data, **settings, **hdf5plugin.Zstd(clevel=7))
    file.create_dataset("shuffled", data=data, **settings, shuffle=True, fletcher32=True, **hdf5plugin.Zstd())
    some = file.create_dataset("some", shape=data.shape, dtype="f4", fillvalue=3, chunks=(16, 16), **hdf5plugin.Zstd())
    some[20:30] = data[20:30]
    file.create_dataset("pairs", data=np.array([(1, 2.5)] * 9, "i4,f8"), chunks=(4,), **hdf5plugin.Zstd())
"""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA)
    subprocess.run([sys.executable, "-c", MAKE, tmp_path / "a.h5", tmp_path / "x.npy"], check=True)
    return tmp_path / "a.h5"


def read(path: Path, name: str) -> np.ndarray:
    out = path.parent / "read.npy"
    subprocess.run([sys.executable, "-c", READ, path, name, out], check=True)
    return np.load(out)


@installed
@pytest.mark.parametrize("plugin", [True, False])
def test_read(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: bool) -> None:
    if not plugin:
        monkeypatch.setattr(plugins, "_folder", lambda: None)
    store = FORMAT.open(str(made), "plain")
    assert (store.reads, str(store.schema.codec)) == (TransferMode.EXTENT, "zstd:7")
    assert str(FORMAT.open(str(made), "shuffled").schema.codec) == "shuffle+zstd:3+fletcher32"
    for name, want in (("plain", DATA), ("shuffled", DATA), ("some", read(made, "some"))):
        np.testing.assert_array_equal(reblock.open(f"{made}::{name}")[...], want)
    reblock.repartition(f"{made}::plain", tmp_path / "y.zarr", chunks="50,10")
    assert reblock.info(tmp_path / "y.zarr")["codec"] == "zstd:7"


@installed
def test_kept_in_hdf5_with_its_unlimited_axis(made: Path, tmp_path: Path) -> None:
    reblock.repartition(f"{made}::shuffled", tmp_path / "y.h5::shuffled", chunks="25,40")
    with h5py.File(tmp_path / "y.h5") as file:
        dcpl = file["shuffled"].id.get_create_plist()
        assert [dcpl.get_filter(n)[0] for n in range(dcpl.get_nfilters())] == [2, 32015, 3]
        assert file["shuffled"].maxshape == (None, 40)
    np.testing.assert_array_equal(read(tmp_path / "y.h5", "shuffled"), DATA)
    assert reblock.verify(made.as_posix() + "::shuffled", tmp_path / "y.h5", reader="library")


@installed
def test_a_whole_file_with_tables(made: Path, tmp_path: Path) -> None:
    reblock.repartition(made, tmp_path / "y.h5", chunks=10)
    assert reblock.verify(made, tmp_path / "y.h5")
    np.testing.assert_array_equal(read(tmp_path / "y.h5", "plain"), DATA)


@pytest.mark.parametrize("codec", ["zstd", "zstd:-3", "zstd:22", "shuffle+zstd:5", "shuffle+zstd:1+fletcher32"])
@pytest.mark.parametrize("suffix", ["h5", "nc"])
def test_written_on_request(tmp_path: Path, codec: str, suffix: str) -> None:
    np.save(tmp_path / "x.npy", DATA)
    target = tmp_path / f"y.{suffix}"
    report = reblock.repartition(tmp_path / "x.npy", f"{target}::x", chunks="16,16", codec=codec)
    assert any("hdf5plugin" in note for note in report.notes)
    np.testing.assert_array_equal(reblock.open(target)[...], DATA)
    if find_spec("hdf5plugin") is not None:
        np.testing.assert_array_equal(read(target, "x"), DATA)


def test_netcdf_readers(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.nc::x", chunks="16,16", codec="shuffle+zstd:4")
    if ncdump := shutil.which("ncdump"):
        text = subprocess.run([ncdump, "-hs", tmp_path / "y.nc"], capture_output=True, text=True, check=True).stdout
        assert "32015,4" in text or "_Zstandard" in text
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "y.nc") as file:
        if not file.has_zstd_filter():
            pytest.skip("this NetCDF library has no zstd")
        assert file["x"].filters()["zstd"]
        np.testing.assert_array_equal(file["x"][...], DATA)
    with netcdf4.Dataset(tmp_path / "theirs.nc", "w") as file:
        for axis, length in zip("ab", DATA.shape, strict=True):
            file.createDimension(axis, length)
        file.createVariable("x", "f4", ("a", "b"), compression="zstd", complevel=5, chunksizes=(16, 16))[...] = DATA
    np.testing.assert_array_equal(reblock.open(tmp_path / "theirs.nc")[...], DATA)
    reblock.repartition(tmp_path / "theirs.nc", tmp_path / "again.nc", chunks="25,20")
    assert "zstd:5" in reblock.info(tmp_path / "again.nc")["codec"]


def test_zarr_does_not_bring_it_along(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "x.zarr", chunks="16,16", codec="zstd:3")
    reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.h5")
    assert reblock.info(tmp_path / "y.h5")["codec"] == "shuffle+gzip:4"
    with pytest.raises(UsageError, match="zstd:3\\+gzip"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "z.h5", codec="zstd:3+gzip:1", chunks="16,16")
    with pytest.raises(UsageError, match="libminc"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "z.mnc", codec="zstd:3", chunks="16,16")


def test_damage_is_found(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", DATA)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.h5", chunks="16,16", codec="zstd:3")
    data = bytearray((tmp_path / "y.h5").read_bytes())
    place = data.index(b"\x28\xb5\x2f\xfd") + 8
    data[place : place + 90] = bytes(90)
    (tmp_path / "y.h5").write_bytes(data)
    with pytest.raises(CorruptError, match=r"y\.h5"):
        reblock.open(tmp_path / "y.h5")[...]


@installed
def test_tables_need_the_plugin(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 itself reads records."""
    assert reblock.open_dataset(made).read_table("pairs")["f1"].tolist() == [2.5] * 9
    with pytest.raises(FormatError, match=r"32015 \(zstd\), a plugin: to read it, pip install"):
        raise plugins.missing_plugin(32015, "a.h5::pairs")
