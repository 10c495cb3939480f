"""The judge notices wrong elements and wrong layouts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import pytest
import zarr

from peer_jobs import small
from reblock.bench.peers.scripts import h5py as h5py_peer
from reblock.bench.peers.scripts import make, verify, zarr_python
from reblock.bench.peers.scripts.job import DATASET, PeerJob


@pytest.fixture
def copied(tmp_path: Path) -> PeerJob:
    """A zarr source, and a right copy of it in other chunks."""
    source, target = str(tmp_path / "source.zarr"), str(tmp_path / "target.zarr")
    make.run(small(target=source))
    job = small(source=source, target=target)
    zarr_python.copy(job, 2)
    return job


def test_a_right_copy_is_right(copied: PeerJob) -> None:
    found = verify.run(copied)
    files = [path for path in Path(copied.target).rglob("*") if path.is_file()]
    assert found == {"correct": True, "why": "", "size_bytes": sum(path.stat().st_size for path in files)}


def test_a_wrong_element_is_found(copied: PeerJob) -> None:
    array = zarr.open_array(copied.target, mode="r+")
    array[5, 9, 7] = array[5, 9, 7] + 1
    assert verify.run(copied)["why"] == "the element at 5,9,7 differs"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"chunks": (6, 10, 8)}, "chunks is (6, 3, 4), not (6, 10, 8)"),
        ({"shards": (6, 6, 8)}, "shards is None, not (6, 6, 8)"),
        ({"codec": "blosc:zstd:3"}, "codec is none, not blosc:zstd:3"),
        ({"dtype": ">f4"}, "dtype is float32, not >f4"),
    ],
)
def test_another_layout_than_asked_for_is_wrong(copied: PeerJob, asked: dict[str, Any], why: str) -> None:
    assert verify.run(replace(copied, **asked))["why"] == why


@pytest.mark.parametrize("format", ["zarr", "zarr2"])
def test_codecs_are_told_apart(tmp_path: Path, format: str) -> None:
    path = str(tmp_path / "x.zarr")
    job = small(source=path, source_format=format, target=path, target_format=format, codec="blosc:zstd:3")
    make.run(job)
    assert verify.run(replace(job, chunks=job.source_chunks))["correct"]
    assert "codec is blosc:zstd:3, not none" in verify.run(replace(job, codec="none"))["why"]


def test_hdf5_is_judged_too(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source.h5"), str(tmp_path / "target.h5")
    job = small(source=source, target=target, source_format="hdf5", target_format="hdf5", codec="shuffle+gzip:4")
    make.run(replace(job, target=source))
    h5py_peer.copy(job)
    assert verify.run(job)["correct"]
    with h5py.File(target, "r+") as file:
        file[DATASET][0, 0, 0] += 1
    assert verify.run(job)["why"] == "the element at 0,0,0 differs"
    with h5py.File(target, "w") as file:
        file.create_dataset(DATASET, shape=job.shape, dtype=job.dtype, chunks=job.chunks)
    assert "codec is None:None, not shuffle+gzip:4" in verify.run(job)["why"]
