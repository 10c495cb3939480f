"""Contenders: which workloads each can run, and the environments they run in."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from reblock.bench.peers import run as peers_run
from reblock.bench.peers.contenders import CONTENDERS, Contender, find_contenders, find_environment
from reblock.bench.peers.workloads import WORKLOADS
from reblock.errors import UsageError


def test_contenders_by_name() -> None:
    assert [c.name for c in find_contenders("zarrs, cp")] == ["reblock", "cp", "zarrs"]
    assert find_contenders(None) == CONTENDERS
    with pytest.raises(UsageError, match="no contender 'rsync'"):
        find_contenders("cp,rsync")


def test_who_can_do_what() -> None:
    able = {w.name: [c.name for c in CONTENDERS if c.unable(w) is None] for w in WORKLOADS}
    zarr_peers = ["zarr-python", "zarrs", "tensorstore", "dask", "dask-p2p", "rechunker", "cubed"]
    assert able["W1"] == ["reblock", "cp", *zarr_peers]
    assert able["W4"] == ["reblock", "cp", "h5py", "h5repack", "nccopy"]
    assert able["nifti-split"] == able["nifti-merge"] == ["reblock", "limit", "nibabel"]
    assert able["netcdf-zarr"] == ["reblock", "limit", "xarray"]
    assert able["netcdf-plain"] == ["reblock", "limit", "xarray", "nccopy"]
    assert able["netcdf-nccopy"] == ["reblock", "limit", "nccopy"]
    assert able["tiff-zarr"] == able["tiff-blosc"] == ["reblock", "limit", "tifffile"]
    assert "rechunker" not in able["W6-shards"]
    for contender in CONTENDERS:
        assert (Path(peers_run._SCRIPT).parent / f"{contender.module}.py").exists()


def test_a_program_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    contender = Contender("x", "tools", ("hdf5",), program="no-such-program", debian="no-package")
    environment = find_environment(contender, str(tmp_path), lambda _: None)
    assert environment.missing == "no-such-program is not on the path (Debian has it in no-package)"


def wheel(folder: Path) -> str:
    """A package that pip installs without asking anyone."""
    path = folder / "tiny_peer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_peer.py", "")
        archive.writestr("tiny_peer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.0\n")
        archive.writestr(
            "tiny_peer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_peer-1.0.dist-info/RECORD", "")
    return str(path)


@pytest.mark.faults
def test_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    peer = Contender("tiny", "tiny", ("zarr",), ("tiny-peer",), (wheel(tmp_path),))
    monkeypatch.setattr("reblock.bench.peers.contenders.CONTENDERS", (peer,))
    home = tmp_path / "peers"
    environment = find_environment(peer, str(home), told.append)
    assert environment.missing is None
    subprocess.run([environment.python, "-c", "import tiny_peer"], check=True)
    assert find_environment(peer, str(home), told.append) == environment
    assert len(told) == 1
    other = replace(peer, packages=(str(tmp_path / "no-such.whl"),))
    monkeypatch.setattr("reblock.bench.peers.contenders.CONTENDERS", (other,))
    missing = find_environment(other, str(home), told.append).missing
    assert missing
    assert "could not be installed: " in missing
    assert len(told) == 2
    shutil.rmtree(home / "tiny")
    (home / "tiny").mkdir()
    (home / "tiny" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not an environment"):
        find_environment(other, str(home), told.append)
    assert os.listdir(home / "tiny") == ["thesis.txt"]
