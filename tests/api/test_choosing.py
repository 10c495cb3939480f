"""Chunks that are `auto` with accesses: chosen for them, by plan and run, and the same again."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import UsageError

SHAPE = (60, 50, 40)


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "x.npy")
    np.save(path, np.arange(prod(SHAPE), dtype="<f4").reshape(SHAPE))
    return path


def chunks(source: str, target: str, **options: Any) -> tuple[Any, ...]:
    return reblock.plan(source, target, **options).schema.chunks


def test_accesses_choose_chunks(source: str, tmp_path: Path) -> None:
    target = str(tmp_path / "y.zarr")
    series = chunks(source, target, chunks="auto", access="time-series")
    maps = chunks(source, target, chunks="auto", access="maps")
    assert series[0] == 60
    assert maps[1:] == (50, 40)
    assert maps[0] < 60
    # Without chunks, all of them are chosen.
    assert chunks(source, target, access="maps") == maps
    # Those that are given stay.
    fixed = chunks(source, target, chunks={0: "auto", 1: 7, 2: "auto"}, access="maps")
    assert fixed[1] == 7
    job = reblock.plan(source, target, access="maps")
    assert any("are chosen for the accesses" in note for note in job.notes)


def test_without_accesses_auto_is_proportional(source: str, tmp_path: Path) -> None:
    assert chunks(source, str(tmp_path / "y.zarr"), chunks="auto") == SHAPE


def test_a_plan_from_shapes_alone() -> None:
    described: dict[str, Any] = {"shape": (1000, 1000, 1000), "dtype": "f4", "source_chunks": (1, 1000, 1000)}
    job = reblock.plan(**described, access="slices:2")
    assert job.schema.chunks[2] < 10
    assert prod(job.schema.chunks) * 4 <= 8 << 20  # type: ignore[arg-type]


def test_chunks_inside_shards(source: str, tmp_path: Path) -> None:
    job = reblock.plan(source, str(tmp_path / "y.zarr"), chunks="auto", shards=(30, 50, 40), access="maps")
    assert job.schema.shards == (30, 50, 40)
    assert all(s % c == 0 for s, c in zip((30, 50, 40), job.schema.chunks, strict=True))  # type: ignore[operator]
    job = reblock.plan(source, str(tmp_path / "y.zarr"), chunks=(1, 10, 10), shards="auto")
    assert job.schema.shards is not None
    assert all(s % c == 0 for s, c in zip(job.schema.shards, (1, 10, 10), strict=True))
    job = reblock.plan(source, str(tmp_path / "y.zarr"), shards="auto", access="time-series", chunk_order="auto")
    assert job.schema.shards is not None
    with pytest.raises(UsageError, match="has no shards"):
        reblock.plan(source, str(tmp_path / "y.h5"), chunks=(1, 10, 10), shards="auto")


def test_a_run_resumes_without_the_pattern(source: str, tmp_path: Path) -> None:
    target, pattern = str(tmp_path / "y.zarr"), tmp_path / "pattern.txt"
    pattern.write_text("1\n1 50 40 1\n")

    def stop(done: int, whole: int) -> None:
        if 2 * done > whole:
            raise KeyboardInterrupt

    job = reblock.plan(source, target, access=pattern, chunks={0: 1, 1: "auto", 2: "auto"})
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=stop)
    # The same command again goes on.
    again = reblock.plan(source, target, access=pattern, chunks={0: 1, 1: "auto", 2: "auto"})
    assert again.schema == job.schema
    pattern.unlink()
    reblock.resume(target)
    assert reblock.open(target).chunks == job.schema.chunks
    assert reblock.verify(source, target).equal


def test_a_saved_plan_needs_no_pattern(source: str, tmp_path: Path) -> None:
    job = reblock.plan(source, str(tmp_path / "y.zarr"), access="maps")
    reblock.save_plan(job, tmp_path / "plan.json")
    assert (
        reblock.load_plan(tmp_path / "plan.json", source, str(tmp_path / "z.zarr")).schema.chunks == job.schema.chunks
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"access": "maps", "chunks": (5, 5, 5)}, "leave nothing to choose"),
        ({"access": "map"}, "neither a file nor a preset"),
        ({"access": {"classes": [{"shape": [61, 1, 1]}]}}, "must be from 1 to 60"),
    ],
)
def test_mistakes(source: str, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reblock.plan(source, str(tmp_path / "y.zarr"), **options)
    assert not (tmp_path / "y.zarr").exists()


@pytest.mark.parametrize("shape", [(), (0, 5), (3, 0)], ids=str)
def test_nothing_to_choose(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """An array without axes or elements needs no accesses, and is not refused because of them."""
    np.save(tmp_path / "e.npy", np.zeros(shape, "f4"))
    asked = {"chunks": "auto", "access": "cubes", "shards": "auto", "chunk_order": "auto"}
    reblock.repartition(tmp_path / "e.npy", tmp_path / "e.zarr", **asked)
    assert reblock.verify(tmp_path / "e.npy", tmp_path / "e.zarr")
