"""Files on real HTTP servers: read in ranges, refused where that is not possible or leads elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock
from http_server import HttpServer
from reblock.errors import ChangedError, DiskError, ExternalError, StorageError, UsageError
from reblock.storage.media.registry import medium_of

DATA = np.random.default_rng(0).integers(0, 60000, (24, 40, 36), "u2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("obstore")
    below = tmp_path / "with space"
    below.mkdir()
    np.save(below / "x.npy", DATA)
    with h5py.File(below / "x.h5", "w") as file:
        file.create_dataset("data", data=DATA, chunks=(8, 16, 12), compression="gzip", shuffle=True)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[HttpServer]:
    with HttpServer(folder) as running:
        yield running


@pytest.mark.parametrize("name", ["x.npy", "x.h5"])
@pytest.mark.parametrize("tags", [True, False])
def test_a_file_is_read_in_ranges(folder: Path, tmp_path: Path, name: str, *, tags: bool) -> None:
    with HttpServer(folder, tags=tags) as server:
        url = f"{server.url}/with space/{name}"
        report = reblock.repartition(url, tmp_path / "y.zarr", chunks=(6, 10, 9))
        assert reblock.verify(url, tmp_path / "y.zarr").equal
        assert report.digest
        assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], DATA)


def test_a_server_that_sends_only_whole_files(folder: Path) -> None:
    big = np.zeros((600, 600), "f4")
    np.save(folder / "big.npy", big)
    with HttpServer(folder, ranges=False) as server, pytest.raises(StorageError, match="does not serve parts"):
        reblock.open(f"{server.url}/big.npy")


def test_redirects_to_other_servers_are_refused(folder: Path, server: HttpServer) -> None:
    with (
        HttpServer(folder, to=server.url) as other,
        pytest.raises(ExternalError, match="other servers are not followed"),
    ):
        reblock.open(f"{other.url}/with space/x.npy")
    assert server.requests == [], "nothing was sent to the other server"


def test_a_loop_of_redirects_ends(folder: Path) -> None:
    with HttpServer(folder, to="/again") as server, pytest.raises(StorageError, match="more than 5 redirects"):
        reblock.open(f"{server.url}/x.npy")


@pytest.mark.parametrize("tags", [True, False])
def test_a_file_that_changes_while_it_is_read(folder: Path, *, tags: bool) -> None:
    path = folder / "with space/x.npy"
    with HttpServer(folder, tags=tags) as server:
        key = f"{server.url}/with space/x.npy"
        with medium_of(key).reader(key) as handle:
            half = bytearray(1000)
            handle.read(memoryview(half), 0)
            path.write_bytes(path.read_bytes())
            os.utime(path, (1, 1))
            with pytest.raises(ChangedError):
                handle.read(memoryview(half), 1000)


def test_what_cannot_be(server: HttpServer) -> None:
    with pytest.raises(DiskError, match="No such file"):
        reblock.open(f"{server.url}/none.npy")
    with pytest.raises(UsageError, match="can only be read"):
        reblock.plan(f"{server.url}/with space/x.npy", f"{server.url}/y.npy")
