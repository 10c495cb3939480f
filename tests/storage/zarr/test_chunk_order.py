"""The order of chunks inside shards: where they lie, and that every reader finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import UnfinishedError, UsageError
from reblock.geometry.chunk_order import chunk_ranks

SHAPE, CHUNKS, SHARDS = (19, 12, 10), (2, 3, 2), (8, 12, 6)
ORDERS = ["", "0,2,1", "2,1,0", "hilbert", "morton"]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "x.npy")
    np.save(path, np.arange(int(np.prod(SHAPE)), dtype="<i4").reshape(SHAPE))
    return path


def offsets(path: str, within: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Offsets of the stored chunks of a shard, from its index, by position in the shard."""
    counts = tuple(s // c for s, c in zip(SHARDS, CHUNKS, strict=True))
    data = Path(path, "c", *map(str, within)).read_bytes()
    table = np.frombuffer(data[-int(np.prod(counts)) * 16 - 4 : -4], "<u8").reshape(*counts, 2)
    return {place: int(table[(*place, 0)]) for place in np.ndindex(*counts) if table[(*place, 0)] != 2**64 - 1}


@pytest.mark.parametrize("codec", ["none", "zstd:1", "gzip:1+crc32c"])
@pytest.mark.parametrize("order", ORDERS)
def test_chunks_lie_in_order(tmp_path: Path, source: str, order: str, codec: str) -> None:
    target = str(tmp_path / "y.zarr")
    options: dict[str, Any] = {"chunk_order": order} if order else {}
    reblock.repartition(source, target, chunks=CHUNKS, shards=SHARDS, codec=codec, **options)
    elements = np.load(source)
    assert np.array_equal(zarr.open_array(target, mode="r")[...], elements)
    assert np.array_equal(reblock.open(target)[...], elements)
    for within in ((0, 0, 0), (2, 0, 1)):
        found = offsets(target, within)
        counts = tuple(max(place[axis] for place in found) + 1 for axis in range(3))
        # Raw shards leave out chunks outside the array; encoded ones store them.
        whole = tuple(s // c for s, c in zip(SHARDS, CHUNKS, strict=True))
        ranks = chunk_ranks(counts if codec == "none" else whole, order)
        assert sorted(found, key=found.__getitem__) == sorted(found, key=lambda place: int(ranks[place]))


def test_axes_by_name_and_fortran_arrays(tmp_path: Path, source: str) -> None:
    named = str(tmp_path / "named.zarr")
    zarr.create_array(named, data=np.load(source), dimension_names=("z", "y", "x"), chunks=CHUNKS)
    target = str(tmp_path / "y.zarr")
    reblock.repartition(named, target, chunks=CHUNKS, shards=SHARDS, chunk_order="z,x,y", codec="none")
    found = offsets(target, (0, 0, 0))
    assert sorted(found, key=found.__getitem__) == sorted(found, key=lambda place: (place[0], place[2], place[1]))


def test_a_run_resumes_only_with_its_order(tmp_path: Path, source: str) -> None:
    target = str(tmp_path / "y.zarr")
    options: dict[str, Any] = {"chunks": CHUNKS, "shards": SHARDS, "codec": "zstd:1"}

    def stop(done: int, whole: int) -> None:
        if 2 * done > whole:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(reblock.plan(source, target, **options, chunk_order="hilbert"), progress=stop)
    with pytest.raises(UnfinishedError, match="chunk order"):
        reblock.repartition(source, target, **options)
    assert reblock.status(target).options["chunk_order"] == "hilbert"  # type: ignore[union-attr]
    reblock.resume(target)
    assert reblock.verify(source, target).equal
    found = offsets(target, (0, 0, 0))
    ranks = chunk_ranks((4, 4, 3), "hilbert")
    assert sorted(found, key=found.__getitem__) == sorted(found, key=lambda place: int(ranks[place]))


def test_only_shards_have_an_order(tmp_path: Path, source: str) -> None:
    for name, options in (("y.zarr", {}), ("y.h5", {}), ("y.zarr", {"to_format": "zarr2"})):
        with pytest.raises(UsageError, match="orders the chunks inside shards, and the target has none"):
            reblock.plan(source, str(tmp_path / name), chunks=CHUNKS, chunk_order="hilbert", **options)
    with pytest.raises(UsageError, match="with shards"):
        reblock.plan(shape=(4, 4), dtype="f4", source_chunks=(2, 2), chunks=(4, 1), chunk_order="1,0")
    with pytest.raises(UsageError, match="the order of chunks is hilbert or morton"):
        reblock.plan(source, str(tmp_path / "y.zarr"), chunks=CHUNKS, shards=SHARDS, chunk_order="0,1")
    with pytest.raises(UsageError, match="is chosen for accesses: give access"):
        reblock.plan(source, str(tmp_path / "y.zarr"), chunks=CHUNKS, shards=SHARDS, chunk_order="auto")


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """Large encoded shards are otherwise built in the memory of their elements."""
    source, target = str(tmp_path / "x.npy"), str(tmp_path / "y.zarr")
    np.save(source, np.arange(64 * 256 * 512, dtype="<i4").reshape(64, 256, 512))
    options: dict[str, Any] = {"chunks": (16, 64, 64), "shards": (64, 256, 512), "codec": "zstd:1"}
    usual = reblock.plan(source, target, **options, memory="256MiB")
    job = reblock.plan(source, target, **options, memory="256MiB", chunk_order="morton")
    assert job.decision.problem.target.in_place != usual.decision.problem.target.in_place
    report = reblock.run(job)
    assert report.measured.peak_bytes <= 256 << 20
    assert reblock.verify(source, target).equal
