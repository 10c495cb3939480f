"""Runs, plans and comparisons from objects of h5py, zarr and numpy."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import InfeasibleError, TargetExistsError, UnfinishedError, UsageError

ARRAY = np.random.default_rng(3).integers(0, 1000, (37, 41, 23)).astype(">i4")
CHUNKS = (10, 16, 23)
KINDS = [
    *("ndarray", "fortran", "big memmap", "memmap", "h5py by path", "h5py in memory", "h5py open for writing"),
    *("zarr by path", "zarr 2 by path", "zarr in memory", "zarr 2 in memory", "zarr shards in memory"),
]
BY_PATH = ("memmap", "h5py by path", "zarr by path", "zarr 2 by path")


def make(kind: str, folder: Path, stack: ExitStack) -> Any:
    """An object that holds ARRAY."""
    if kind in ("ndarray", "fortran"):
        return ARRAY if kind == "ndarray" else np.asfortranarray(ARRAY)
    if kind.endswith("memmap"):
        np.save(folder / "x.npy", ARRAY)
        if kind == "memmap":
            return np.load(folder / "x.npy", mmap_mode="r")
        ARRAY.tofile(folder / "x.raw")
        return np.memmap(folder / "x.raw", ARRAY.dtype, "r", shape=ARRAY.shape)
    if kind.startswith("h5py"):
        where: Any = io.BytesIO() if kind == "h5py in memory" else folder / "x.h5"
        file = stack.enter_context(h5py.File(where, "w"))
        file.create_dataset("x", data=ARRAY, chunks=(5, 20, 12), compression="gzip")
        if kind == "h5py by path":
            file.close()
            file = stack.enter_context(h5py.File(where, "r"))
        return file["x"]
    store: Any = zarr.storage.MemoryStore() if "memory" in kind else folder / "x.zarr"
    version = 2 if kind.startswith("zarr 2") else 3
    shards = (10, 20, 12) if "shards" in kind else None
    return zarr.create_array(store, data=ARRAY, chunks=(5, 20, 12), shards=shards, zarr_format=version)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_from_an_object_is_a_run_from_a_file(tmp_path: Path, stack: ExitStack, kind: str) -> None:
    np.save(tmp_path / "same.npy", ARRAY)
    options: dict[str, Any] = {"chunks": CHUNKS, "transpose": (2, 0, 1), "region": "1:36,:,2:20", "codec": "zstd:1"}
    options |= {"chunks": (9, 10, 16), "memory": "1MiB"}
    expected = reblock.repartition(tmp_path / "same.npy", tmp_path / "same.zarr", **options)
    source = make(kind, tmp_path, stack)
    report = reblock.repartition(source, tmp_path / "y.zarr", **options)
    assert report.digest == expected.digest
    assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], ARRAY[1:36, :, 2:20].transpose(2, 0, 1))
    told = [note for note in report.notes if "read through the object" in note]
    assert bool(told) == (kind not in BY_PATH), report.notes
    for reader in ("reblock", "library"):
        same = reblock.verify(source, tmp_path / "y.zarr", transpose=(2, 0, 1), region="1:36,:,2:20", reader=reader)
        assert same, (reader, same)
        assert reblock.verify(source, tmp_path / "same.npy", reader=reader)
    changed = ARRAY.copy()
    changed[1, 2, 3] += 1
    assert reblock.verify(source, changed).first_difference.index == (1, 2, 3)
    assert np.array_equal(reblock.open(source)[3:20:2, ..., 5], ARRAY[3:20:2, ..., 5])


@pytest.mark.parametrize("target", ["y.npy", "y.h5", "y.zarr"])
@pytest.mark.parametrize(
    "array", [np.array(5, ">i4"), np.empty((3, 0, 2), "f4"), np.arange(6.0)], ids=["0-d", "0", "1-d"]
)
def test_small_arrays_of_numpy(tmp_path: Path, array: Any, target: str) -> None:
    reblock.repartition(array, tmp_path / target)
    found = reblock.open(tmp_path / target)
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    assert np.array_equal(found[...], array)


def test_defaults_come_from_the_object(tmp_path: Path, stack: ExitStack) -> None:
    reblock.repartition(make("h5py in memory", tmp_path, stack), tmp_path / "y.h5")
    made = reblock.info(tmp_path / "y.h5")
    assert (made["chunks"], made["codec"]) == ([5, 20, 12], "gzip:4")
    job = reblock.plan(make("zarr 2 in memory", tmp_path, stack), chunks=CHUNKS)
    assert job.format is not None
    assert job.format.name == "zarr2"
    assert "read through the object" in job.explain()


def test_the_smallest_budget_of_an_object_is_enough(tmp_path: Path, stack: ExitStack) -> None:
    for number, kind in enumerate(("ndarray", "h5py in memory", "zarr in memory")):
        source = make(kind, tmp_path, stack)
        with pytest.raises(InfeasibleError) as caught:
            reblock.plan(source, tmp_path / f"{number}.zarr", chunks=CHUNKS, memory=1)
        least = caught.value.needs_memory_bytes
        assert least is not None
        report = reblock.repartition(source, tmp_path / f"{number}.zarr", chunks=CHUNKS, memory=least)
        assert report.measured.peak_bytes <= least
        assert reblock.verify(source, tmp_path / f"{number}.zarr")


def stop_half_way(source: Any, target: Path, **options: Any) -> None:
    """Interrupt a run once some of it is on disk."""
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole / 2:
            enough.set()
            raise KeyboardInterrupt

    job = reblock.plan(source, target, chunks=(1, 41, 23), memory="64KiB")
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress, cancelled=enough.is_set, **options)


def test_an_interrupted_run_from_an_object_leaves_nothing(tmp_path: Path) -> None:
    stop_half_way(ARRAY, tmp_path / "y.zarr")
    assert not list(tmp_path.iterdir())


def leave_a_journal(target: Path, monkeypatch: pytest.MonkeyPatch, scratch: Path | None = None) -> None:
    """What a run from an object leaves that is killed: no handler has time to remove it."""
    with monkeypatch.context() as patch:
        patch.setattr("reblock.runs.making.Making._kept", lambda *_: ExitStack())
        stop_half_way(ARRAY, target, scratch=scratch)
    assert list(target.parent.glob(".*/journal"))


def test_a_killed_run_from_an_object_cannot_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "y.zarr"
    leave_a_journal(target, monkeypatch)
    assert b'source":"<' not in next(tmp_path.glob(".*/journal")).read_bytes()
    left = reblock.status(target)
    assert left is not None
    assert (left.source, left.state) == ("an object of another program", "stopped")
    with pytest.raises(UnfinishedError, match=r"cannot be opened again.*reblock.clean"):
        reblock.resume(target)
    assert reblock.clean(target)


@pytest.mark.parametrize("source", ["the object", "a file"])
def test_the_next_run_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """Also from the very same object: nothing tells that its elements are what they were."""
    target = tmp_path / "y.zarr"
    leave_a_journal(target, monkeypatch)
    np.save(tmp_path / "x.npy", ARRAY)
    given: Any = ARRAY if source == "the object" else tmp_path / "x.npy"
    report = reblock.repartition(given, target, chunks=(1, 41, 23), memory="64KiB")
    assert report.resumed_boxes == 0
    assert any("could not be resumed" in note for note in report.notes)
    assert reblock.verify(ARRAY, target)
    assert not list(tmp_path.glob(".*"))


def test_an_object_does_not_adopt_the_run_of_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ARRAY)
    stop_half_way(tmp_path / "x.npy", tmp_path / "y.zarr")
    with pytest.raises(UnfinishedError, match=r"reads .*x.npy is in the place.*an object cannot resume it"):
        reblock.repartition(ARRAY, tmp_path / "y.zarr", chunks=(1, 41, 23), memory="64KiB")
    assert reblock.resume(tmp_path / "y.zarr") is not None
    assert reblock.verify(ARRAY, tmp_path / "y.zarr")


def test_a_run_by_path_is_resumed_by_path(tmp_path: Path, stack: ExitStack) -> None:
    source = make("h5py by path", tmp_path, stack)
    stop_half_way(source, tmp_path / "y.zarr")
    left = reblock.status(tmp_path / "y.zarr")
    assert left is not None
    assert left.source == f"{tmp_path}/x.h5::x"
    assert reblock.resume(tmp_path / "y.zarr") is not None
    assert reblock.verify(source, tmp_path / "y.zarr")


def test_exist_ok_does_not_take_another_object_for_the_same(tmp_path: Path) -> None:
    reblock.repartition(ARRAY, tmp_path / "y.zarr", chunks=CHUNKS)
    for array in (ARRAY, ARRAY + 1):
        with pytest.raises(TargetExistsError, match="is not recorded"):
            reblock.repartition(array, tmp_path / "y.zarr", chunks=CHUNKS, exist_ok=True)
    reblock.repartition(ARRAY + 1, tmp_path / "y.zarr", chunks=CHUNKS, exist_ok=True, overwrite=True)
    assert reblock.verify(ARRAY + 1, tmp_path / "y.zarr")


@pytest.mark.parametrize("kind", ["h5py open for writing", "big memmap"])
def test_a_target_in_the_place_of_the_file_behind_is_refused(tmp_path: Path, stack: ExitStack, kind: str) -> None:
    source = make(kind, tmp_path, stack)
    place = tmp_path / ("x.h5" if "h5" in kind else "x.raw")
    with pytest.raises(UsageError, match="overlap"):
        reblock.repartition(source, place, to_format="zarr", overwrite=True)


def test_options_that_an_object_cannot_meet(tmp_path: Path, stack: ExitStack) -> None:
    with pytest.raises(UsageError, match="from_format is for a path"):
        reblock.plan(ARRAY, tmp_path / "y.npy", from_format="npy")
    with pytest.raises(UsageError, match="format is for a path"):
        reblock.open(ARRAY, format="npy")
    source = make("zarr in memory", tmp_path, stack)
    with pytest.raises(UsageError, match="does not tell"):
        reblock.plan(source, tmp_path / "y.npy", on_missing="error")
    reblock.repartition(ARRAY, tmp_path / "y.npy", on_missing="error")


def test_a_saved_plan_runs_on_an_object(tmp_path: Path) -> None:
    reblock.save_plan(reblock.plan(ARRAY, tmp_path / "y.zarr", chunks=CHUNKS), tmp_path / "p.json")
    reblock.run(reblock.load_plan(tmp_path / "p.json", ARRAY, tmp_path / "y.zarr"))
    assert reblock.verify(ARRAY, tmp_path / "y.zarr")
