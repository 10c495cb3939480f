"""Loading a region: any box and any step, by several threads, inside a budget."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.engine import View, load, native, region, sampled
from reblock.engine.memory.arena import Arena
from reblock.engine.pipeline.readers.jobs import run_jobs
from reblock.engine.pipeline.readers.protocol import Arrived, ReadJob
from reblock.errors import CorruptError, InfeasibleError
from reblock.geometry import Box
from reblock.model import Scratch
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.storage import registry
from reblock.testing.recording import RecordingMedium

ARRAY = np.random.default_rng(2).integers(0, 60000, (30, 41, 52), "u2")
TARGETS: dict[str, dict[str, Any]] = {
    "raw.zarr": {"chunks": (7, 20, 13), "codec": "none"},
    "zstd.zarr": {"chunks": (7, 20, 13), "codec": "zstd:1"},
    "gzip.zarr": {"chunks": (7, 20, 13), "codec": "gzip:1"},
    "shards.zarr": {"chunks": (5, 10, 13), "shards": (10, 20, 26), "codec": "zstd:1"},
    "gzip.h5": {"chunks": (7, 20, 13), "codec": "gzip:1"},
    "blocks/": {"chunks": (7, 20, 13)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("region")
    np.save(folder / "x.npy", ARRAY)
    for name, options in TARGETS.items():
        reblock.repartition(folder / "x.npy", f"{folder}/{name}", **options)
    return folder


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small boxes are read as large ones are."""
    monkeypatch.setattr(region, "_MANY_BYTES", 0)
    monkeypatch.setattr(region, "_FEW_BYTES", 0)


def random_box(rng: random.Random, shape: tuple[int, ...]) -> tuple[Box, tuple[int, ...]]:
    start = tuple(rng.randint(0, n - 1) for n in shape)
    box = Box(start, tuple(rng.randint(a + 1, n) for a, n in zip(start, shape, strict=True)))
    return box, tuple(rng.choice([1, 1, 2, 5]) for _ in shape)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["x.npy", *TARGETS])
def test_any_box_and_any_step(name: str, compiled: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiled:
        monkeypatch.setattr(native, "library", lambda: None)
    rng, store = random.Random(name), registry.open(f"{folder}/{name}".rstrip("/"))
    for _ in range(12):
        axes = tuple(rng.sample(range(3), 3))
        crop = random_box(rng, ARRAY.shape)[0]
        view, wanted = View(store, crop, axes), ARRAY[crop.slices].transpose(axes)
        box, steps = random_box(rng, wanted.shape)
        for memory_bytes, threads in ((None, 3), (LEAST_READING_BYTES, 2), (1 << 20, 1)):
            assert np.array_equal(load(view, box, memory_bytes=memory_bytes, threads=threads), wanted[box.slices])
            sampled = tuple(slice(a, b, n) for a, b, n in zip(box.start, box.stop, steps, strict=True))
            assert np.array_equal(
                load(view, box, steps=steps, memory_bytes=memory_bytes, threads=threads), wanted[sampled]
            )


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["x.npy", *TARGETS])
def test_any_places(name: str, folder: Path) -> None:
    rng, store = random.Random(name), registry.open(f"{folder}/{name}".rstrip("/"))
    for _ in range(12):
        axes = tuple(rng.sample(range(3), 3))
        view, wanted = View(store, Box.whole(ARRAY.shape), axes), ARRAY.transpose(axes)
        box, steps = random_box(rng, wanted.shape)
        places = [sorted(rng.sample(range(n), rng.randint(1, n))) for n in box.shape]
        some = tuple(rng.choice([n, np.array(one)]) for n, one in zip(steps, places, strict=True))
        found = load(view, box, steps=some, memory_bytes=LEAST_READING_BYTES, threads=2)
        assert np.array_equal(found, sampled(wanted[box.slices], some))


def test_chunks_without_wanted_places_are_not_read(folder: Path) -> None:
    medium = RecordingMedium()
    view = View.whole(medium.of(registry.open(str(folder / "zstd.zarr"))))
    steps = tuple(np.array([0, n - 1]) for n in ARRAY.shape)
    found = load(view, Box.whole(ARRAY.shape), steps=steps)
    assert np.array_equal(found, ARRAY[np.ix_(*steps)])
    assert len(medium.openings) == 8


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["x.npy", "zstd.zarr", "shards.zarr"])
def test_a_medium_that_is_not_local(name: str, folder: Path) -> None:
    medium = RecordingMedium()
    view = View.whole(medium.of(registry.open(str(folder / name))))
    box = Box((3, 5, 7), (29, 41, 50))
    assert np.array_equal(load(view, box, threads=3), ARRAY[box.slices])
    assert medium.openings


@pytest.mark.usefixtures("eager")
def test_a_raw_file_is_opened_once_for_all_its_parts(folder: Path) -> None:
    medium = RecordingMedium()
    view = View.whole(medium.of(registry.open(str(folder / "x.npy"))))
    assert np.array_equal(load(view, Box.whole(ARRAY.shape), memory_bytes=LEAST_READING_BYTES, threads=2), ARRAY)
    assert len(medium.openings) == 1
    assert len(medium.openings[0].ranges) > 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_any_thread_is_raised(threads: int, folder: Path, tmp_path: Path) -> None:
    reblock.repartition(folder / "x.npy", tmp_path / "y.zarr", chunks=(7, 20, 13), codec="zstd:1")
    chunk = tmp_path / "y.zarr/c/3/1/2"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with pytest.raises(CorruptError, match=r"chunk \(3,1,2\)"):
        load(View.whole(registry.open(str(tmp_path / "y.zarr"))), Box.whole(ARRAY.shape), threads=threads)


@pytest.mark.usefixtures("eager")
def test_missing_chunks_are_fill_unless_that_is_an_error(folder: Path, tmp_path: Path) -> None:
    reblock.repartition(folder / "x.npy", tmp_path / "y.zarr", chunks=(7, 20, 13), codec="none")
    (tmp_path / "y.zarr/c/3/1/2").unlink()
    view = View.whole(registry.open(str(tmp_path / "y.zarr")))
    wanted = ARRAY.copy()
    wanted[21:28, 20:40, 26:39] = 0
    assert np.array_equal(load(view, Box.whole(ARRAY.shape), threads=2), wanted)
    with pytest.raises(CorruptError, match=r"chunk \(3,1,2\) is missing"):
        load(replace(view, strict=True), Box.whole(ARRAY.shape), threads=2)


def test_a_budget_for_one_unit_has_one_thread(folder: Path) -> None:
    view = View.whole(registry.open(str(folder / "zstd.zarr")))
    unit, box = region.unit_bytes(view.layout, view.store.reads), Box.whole(ARRAY.shape)
    big = Box((0, 0, 0), (1 << 10, 1 << 10, 1 << 10))
    assert [region._threads(view, big, 4, room) for room in (unit, 2 * unit, 9 * unit)] == [1, 2, 4]
    assert region._threads(view, box, 4, 9 * unit) == 1
    reblock.repartition(folder / "x.npy", folder / "one.zarr", chunks=(-1, -1, -1), codec="gzip:1")
    with pytest.raises(InfeasibleError):
        load(View.whole(registry.open(str(folder / "one.zarr"))), box, memory_bytes=LEAST_READING_BYTES)


def test_jobs_run_at_the_same_time() -> None:
    """Each job waits for two others, so that they end only if three threads run them."""
    barrier, names = threading.Barrier(3), set()

    def job(_: Scratch) -> Iterator[Arrived]:
        barrier.wait(20)
        names.add(threading.current_thread().name)
        return iter(())

    run_jobs(iter([job] * 9), 3, Arena(), None)
    assert len(names) == 3
    assert threading.current_thread().name in names


def test_no_job_begins_after_an_error() -> None:
    begun: list[int] = []

    def jobs() -> Iterator[ReadJob]:
        for number in range(100):

            def job(_: Scratch, number: int = number) -> Iterator[Arrived]:
                begun.append(number)
                if number == 3:
                    raise CorruptError("three")
                return iter(())

            yield job

    with pytest.raises(CorruptError, match="three"):
        run_jobs(jobs(), 1, Arena(), None)
    assert begun == [0, 1, 2, 3]
