"""Single flipped bits: in a source with checksums, and in what a stopped run has left. None goes unnoticed."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from faults.jobs import clean, remove
from reblock.errors import CorruptError, ReblockError
from reblock.runs.staging import Staging

#: Sources whose chunks have checksums.
SOURCES: dict[str, dict[str, Any]] = {
    "crc32c.zarr": {"codec": "none", "checksum": True},
    "blosc.zarr": {"codec": "blosc:lz4:5:shuffle", "checksum": True},
    "zstd.zarr": {"codec": '{"id": "zstd", "level": 1, "checksum": true}'},
    "shards.zarr": {"codec": "none", "checksum": True, "shards": "16,16"},
    "two.zarr": {"codec": "zlib:1", "checksum": True, "to_format": "zarr2"},
    "raw.h5": {"codec": "none", "checksum": True},
    "gzip.h5": {"codec": "shuffle+gzip:1", "checksum": True},
}
#: What the unfinished runs are to make.
TARGETS: dict[str, dict[str, Any]] = {
    "y/": {"chunks": "8,8"},
    "y.npy": {"transpose": "1,0"},
    "y.zarr": {"chunks": "8,8", "codec": "zstd:1"},
    "shards.zarr": {"chunks": "4,8", "shards": "8,8"},
    "y.h5": {"chunks": "8,8"},
    "gzip.h5": {"chunks": "8,8", "codec": "gzip:1"},
}


@pytest.fixture(autouse=True)
def elements(here: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(here)
    made = np.random.default_rng(4).integers(0, 1000, (80, 60), "u4")
    np.save("x.npy", made)
    return made


def flip(path: str, offset: int, bit: int) -> None:
    """Turn one bit of a file over."""
    file = os.open(path, os.O_RDWR)
    try:
        (before,) = os.pread(file, 1, offset)
        os.pwrite(file, bytes([before ^ (1 << bit)]), offset)
    finally:
        os.close(file)


def chunk_bytes(source: str) -> list[tuple[str, int, int]]:
    """File, first byte and length of everything that a source stores of its chunks, indices of shards included."""
    store = reblock.open(source).store
    if store.format != "hdf5":
        files = [
            path for path in Path(source).rglob("*") if path.is_file() and not path.name.startswith((".z", "zarr."))
        ]
        return [(str(path), 0, path.stat().st_size) for path in files]
    found = []
    for index in store.layout.objects.indices():
        (extent,) = store.extents(index, [index], lambda _: b"")
        assert extent is not None
        assert extent.length is not None
        found.append((extent.path, extent.offset, extent.length))
    return found


def flip_source(source: str, target: str, expected: np.ndarray[Any, Any], count: int, **options: Any) -> int:
    """How many of so many flips were noticed; one that was not has changed nothing."""
    places = chunk_bytes(source)
    chance = random.Random(source)
    noticed = 0
    for _ in range(count):
        path, start, length = chance.choice(places)
        offset, bit = start + chance.randrange(length), chance.randrange(8)
        flip(path, offset, bit)
        try:
            reblock.repartition(source, target, memory="64KiB", strategy="keep", **options, overwrite=True)
        except CorruptError:
            noticed += 1
            clean(target)
        else:
            assert np.array_equal(reblock.open(target)[...], expected), (path, offset, bit)
        flip(path, offset, bit)
    return noticed


def sweep_source(source: str, elements: np.ndarray[Any, Any], count: int) -> None:
    reblock.repartition("x.npy", source, chunks="8,8", **SOURCES[source])
    noticed = flip_source(source, "out.npy", elements, count // 2)
    # Chunks that go over as they are stored.
    kept = {key: value for key, value in SOURCES[source].items() if key in ("to_format", "shards")}
    noticed += flip_source(source, f"out-{source}", elements, count - count // 2, **kept)
    assert noticed > 0.8 * count


@pytest.mark.parametrize("source", SOURCES)
def test_flips_in_a_source_with_checksums(elements: np.ndarray[Any, Any], source: str) -> None:
    sweep_source(source, elements, 6)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("source", SOURCES)
def test_many_flips_in_a_source_with_checksums(elements: np.ndarray[Any, Any], source: str) -> None:
    sweep_source(source, elements, 150)


# ---------------------------------------------------------------- what a stopped run has left
def stop_half_way(target: str, **options: Any) -> None:
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole / 2:
            enough.set()
            # What is in flight may be all the rest, and then a run that is cancelled is complete.
            raise KeyboardInterrupt

    job = reblock.plan("x.npy", target, **options)
    with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
        reblock.run(job, progress=progress, cancelled=enough.is_set)


def staged(target: str) -> Sequence[Path]:
    """All that resuming relies on."""
    staging = Staging(target)
    files = [Path(base) / name for base, _, names in os.walk(staging.folder) for name in names]
    return sorted(path for path in files if str(path) != f"{staging.folder}/lock" and path.stat().st_size)


def sweep_staging(target: str, elements: np.ndarray[Any, Any], count: int) -> None:
    options = {"memory": "10KiB", "strategy": "keep", **TARGETS[target]}
    expected = elements.T if "transpose" in options else elements
    chance = random.Random(target)
    for _ in range(count):
        stop_half_way(target, **options)
        path = chance.choice(staged(target))
        offset, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        vital = str(path) == f"{Staging(target).folder}/journal" and offset <= path.read_bytes().index(b"\n")
        flip(str(path), offset, bit)
        try:
            reblock.repartition("x.npy", target, **options)
        except ReblockError:
            # Only the first line of the journal cannot be done without.
            assert vital, (path, offset, bit)
            reblock.clean(target)
            reblock.repartition("x.npy", target, **options)
        assert np.array_equal(reblock.open(target)[...], expected), (path, offset, bit)
        remove(target.rstrip("/"))


@pytest.mark.parametrize("target", TARGETS)
def test_flips_in_what_is_unfinished(elements: np.ndarray[Any, Any], target: str) -> None:
    sweep_staging(target, elements, 4)


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", TARGETS)
def test_many_flips_in_what_is_unfinished(elements: np.ndarray[Any, Any], target: str) -> None:
    sweep_staging(target, elements, 170)
