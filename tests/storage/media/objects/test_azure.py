"""Azure blobs: the contract of media, and runs, on a real server (Azurite); skipped where it is not installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reblock
from azurite_server import CONTAINER, KEY, AzuriteServer, program
from reblock.errors import DiskError, LockedError
from reblock.model.medium import Medium
from reblock.storage.media.registry import connect, medium_of
from reblock.testing.workspace import TargetMediumContract

NUMBERS = itertools.count()
DATA = np.random.default_rng(0).integers(0, 60000, (24, 40, 36), "u2")


def serve(*, install: bool) -> Iterator[AzuriteServer]:
    pytest.importorskip("obstore")
    if program(install=install) is None:
        pytest.skip("Azurite is not installed: npm install --prefix ~/.cache/reblock-azurite azurite")
    server = AzuriteServer()
    try:
        server.start()
        connect(f"az://{CONTAINER}", server.options)
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module")
def azure() -> Iterator[AzuriteServer]:
    yield from serve(install=False)


class TestAzure(TargetMediumContract):
    stamps_bytes = True

    @pytest.fixture(autouse=True)
    def _server(self, azure: AzuriteServer) -> None:
        self.server = azure

    def make_medium(self) -> Medium:
        return medium_of(f"az://{CONTAINER}")

    def root(self, tmp_path: Path) -> str:
        folder = f"az://{CONTAINER}/contract/{next(NUMBERS)}"
        self.make_medium().make_folder(folder)
        return folder


def there_and_back(server: AzuriteServer, folder: Path) -> None:
    here = f"az://{CONTAINER}/run-{next(NUMBERS)}"
    np.save(folder / "x.npy", DATA)
    there = reblock.repartition(folder / "x.npy", f"{here}/a.zarr", chunks=(8, 16, 12), codec="none")
    job = reblock.plan(f"{here}/a.zarr", f"{here}/b.zarr", chunks=(24, 10, 6), codec="zstd:1")
    with medium_of(here).workspace(f"{here}/b.zarr"), pytest.raises(LockedError, match="process"):
        reblock.run(job)
    between = reblock.run(job)
    back = reblock.repartition(f"{here}/b.zarr", folder / "y.npy")
    assert there.digest == between.digest == back.digest
    assert np.array_equal(np.load(folder / "y.npy"), DATA)
    assert {name for name, _ in medium_of(here).entries(f"{here}/b.zarr")} == {"zarr.json", "c"}
    connect(f"az://{CONTAINER}", {**server.options, "azure_storage_account_key": "d3Jvbmcgd3Jvbmc="})
    with pytest.raises(DiskError, match="403") as caught:
        reblock.open(f"{here}/a.zarr")
    assert KEY not in str(caught.value)
    assert "d3Jvbmcgd3Jvbmc" not in str(caught.value)
    connect(f"az://{CONTAINER}", server.options)


def test_there_and_back(azure: AzuriteServer, tmp_path: Path) -> None:
    there_and_back(azure, tmp_path)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_there_and_back_on_a_server_that_is_installed_for_it(tmp_path: Path) -> None:
    for server in serve(install=True):
        there_and_back(server, tmp_path)


@pytest.mark.faults
def test_files_are_built_and_uploaded(azure: AzuriteServer, tmp_path: Path) -> None:
    here = f"az://{CONTAINER}/files-{next(NUMBERS)}"
    large = np.random.default_rng(2).integers(0, 1 << 32, (12, 512, 512), "u4")
    for name, data in (("small", large[0]), ("large", large)):
        np.save(tmp_path / f"{name}.npy", data)
        url = f"{here}/{name}.h5"
        reblock.repartition(tmp_path / f"{name}.npy", url, chunks=(4, 256, 256)[-data.ndim :], scratch=tmp_path)
        assert reblock.verify(tmp_path / f"{name}.npy", url).equal
    with pytest.raises(reblock.TargetExistsError):
        reblock.repartition(tmp_path / "small.npy", f"{here}/large.h5", chunks=(256, 256))
    reblock.repartition(tmp_path / "small.npy", f"{here}/large.h5", chunks=(256, 256), overwrite=True)
    assert reblock.verify(tmp_path / "small.npy", f"{here}/large.h5").equal
    assert {name for name, _ in medium_of(here).entries(here)} == {"small.h5", "large.h5"}
