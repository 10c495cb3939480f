"""What the engine does not do: decode what it need not encode again, jump over gaps that are quicker read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import zarr

import reblock
from reblock.cost.seeks import traffic
from reblock.engine import execute_in_order
from reblock.engine.pipeline.writers.target import is_verbatim
from reblock.engine.view import View
from reblock.storage import registry
from reblock.testing.recording import RecordingMedium


def field() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(40, 30, 20)).astype("<f4").round(1)


@pytest.mark.parametrize("codec", ["zstd:3", "gzip:6", "blosc:lz4:3:shuffle", "zstd:1+crc32c"])
def test_objects_that_stay_the_same_are_copied_as_they_are_stored(codec: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", field())
    reblock.repartition(tmp_path / "x.npy", tmp_path / "a.zarr", chunks=(10, 30, 7), codec=codec)
    job = reblock.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(10, 30, 7))
    made = job.format.create(str(tmp_path / "probe.zarr"), "", job.schema)
    assert is_verbatim(job.plan.passes[0], job.source, made)
    report = reblock.run(job)
    assert report.times.encode < 0.01
    for path in (tmp_path / "a.zarr" / "c").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "b.zarr" / path.relative_to(tmp_path / "a.zarr")).read_bytes()
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr")[:], field())


@pytest.mark.parametrize(
    "change", [{"chunks": (20, 30, 7)}, {"codec": "gzip:1"}, {"dtype": "<f8"}, {"region": "0:33,:,:"}]
)
def test_anything_else_is_encoded_anew(change: dict, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=field(), chunks=(10, 30, 7), compression="gzip", compression_opts=4)
    job = reblock.plan(f"{tmp_path}/a.h5::x", f"{tmp_path}/b.h5::x", **{"chunks": (10, 30, 7), **change})
    assert not is_verbatim(
        job.plan.passes[0], job.source, job.format.create(str(tmp_path / "probe.h5"), "x", job.schema)
    )


def test_a_chunk_that_skipped_filters_is_encoded_anew(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", (4, 4), "<u2", chunks=(2, 4), compression="gzip")
        made[:] = np.arange(16).reshape(4, 4)
        made.id.write_direct_chunk((2, 0), np.arange(8, dtype="<u2").tobytes(), 1)
    reblock.repartition(f"{tmp_path}/a.h5::x", f"{tmp_path}/b.h5::x", chunks=(2, 4))
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"][:].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("coalesced", [0, 1, 2])
def test_gaps_that_are_read_over_are_counted(coalesced: int, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", field())
    reblock.repartition(tmp_path / "x.npy", tmp_path / "a.zarr", chunks=(20, 16, 20))
    job = reblock.plan(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks=(7, 9, 5), strategy="naive")
    sweep = replace(job.plan.passes[0], coalesced=coalesced)
    kind = registry.get("zarr")
    store = kind.create(str(tmp_path / "b.zarr"), "", kind.adapt(job.schema, ()))
    recorder = RecordingMedium()
    measured = execute_in_order(sweep, replace(job.source, store=recorder.of(job.source.store)), recorder.of(store))
    store.commit()
    predicted = traffic(sweep.reads, job.source.layout, sweep.read_access, coalesced=coalesced)
    assert measured.source == predicted
    assert recorder.counts(writing=False) == (predicted.opens, predicted.runs, predicted.bytes)
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr")[:], field())


def test_auto_reads_over_small_gaps_and_counts_stay_exact(tmp_path: Path) -> None:
    array = np.arange(6000 * 700, dtype="<u4").astype("<u2").reshape(6000, 700)
    np.save(tmp_path / "x.npy", array)
    options = {"chunks": (500, 350), "memory": "600KiB", "scratch_limit": 0, "device": "nvme"}
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "b.zarr", **options)
    report = reblock.run(job)
    assert job.plan.passes[0].coalesced == 1
    assert report.measured.runs == report.predicted.runs
    assert report.measured.bytes_read == report.predicted.bytes_read
    assert np.array_equal(zarr.open_array(tmp_path / "b.zarr")[:], array)
    assert View.whole(registry.open(str(tmp_path / "b.zarr"))).layout.shape == (6000, 700)


def test_an_encoded_array_without_axes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(7.5))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "a.zarr", codec="zstd:1")
    report = reblock.repartition(tmp_path / "a.zarr", tmp_path / "y.npy")
    assert report.measured.bytes_read == 8
    assert np.load(tmp_path / "y.npy") == 7.5
