"""Sources in shards: their units are walked shard by shard, many in a job, and counted as the plan says."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.engine import View, native
from reblock.engine.pipeline.boxes import Boxes
from reblock.engine.pipeline.readers import table
from reblock.engine.pipeline.readers.visits import visits
from reblock.engine.pipeline.scatter import Scatter
from reblock.errors import CorruptError, ExternalError
from reblock.geometry import Box, Grid
from reblock.model import Access, Layout
from reblock.storage import registry
from zarr_python import by_zarr, zarr_reads

ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}


def field(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 99, shape).astype("<u2")


def sharded(path: Path, rng: random.Random, codec: dict | None) -> tuple[str, np.ndarray]:
    """An array in shards of several chunks, of which some stick out."""
    shape = tuple(rng.randint(5, 24) for _ in range(rng.randint(1, 3)))
    chunks = tuple(rng.randint(1, 5) for _ in shape)
    shards = tuple(n * rng.randint(1, 3) for n in chunks)
    data = field(shape)
    return by_zarr(path, data, chunks=chunks, shards=shards, compressors=codec), data


def random_view(rng: random.Random, where: str, data: np.ndarray) -> tuple[View, np.ndarray]:
    starts = tuple(rng.randint(0, n // 2) for n in data.shape)
    region = Box(starts, tuple(rng.randint(a + 1, n) for a, n in zip(starts, data.shape, strict=True)))
    axes = tuple(rng.sample(range(data.ndim), data.ndim))
    return View(registry.open(where), region, axes), data[region.slices].transpose(axes)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_the_visits_one_by_one(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(table, "_BLOCK", 7)
    table._steps.cache_clear()
    view, wanted = random_view(rng, *sharded(tmp_path / "x.zarr", rng, None))
    start = tuple(rng.randint(0, n - 1) for n in wanted.shape)
    box = Box(start, tuple(rng.randint(a + 1, n) for a, n in zip(start, wanted.shape, strict=True)))
    full = range(view.layout.ndim)
    expected = [
        (view.object_index(visit.index), view.unit_index(piece.unit), piece.box, piece.wanted)
        for visit in visits(view, box, full, 1 << 20)
        for piece in visit.pieces
    ]
    walked = []
    for some in table.UnitTable(view, full)(box):
        assert some.first == len(walked)
        for at in range(len(some.table)):
            bounds = some.table[at, native.HEAD :].reshape(-1, 6)
            read = Box(tuple(bounds[:, 2].tolist()), tuple(bounds[:, 3].tolist()))
            walked.append((some.files.objects[at], some.files.units[at], read, table.wanted(some, at)))
    table._steps.cache_clear()
    assert walked == expected
    check_first_touches(rng, view.layout, box, [one for *_, one in expected])


def check_first_touches(rng: random.Random, layout: Layout, box: Box, parts: list[Box]) -> None:
    writes = Grid.of(layout.shape, tuple(rng.randint(1, n) for n in layout.shape))
    target = Layout.raw(layout.dtype, writes)
    window = Scatter(Boxes(writes, Access.UNITS, target), 0, None, digest=False).window(box, {})
    first = {}
    for number, wanted in enumerate(parts):
        for position in window.touching(wanted):
            first.setdefault(position, number)
    positions, touches = (found.tolist() for found in table.first_touches(window, layout, box))
    assert dict(zip(positions, touches, strict=True)) == first
    assert touches == sorted(touches)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("codec", [None, ZSTD])
@pytest.mark.parametrize("seed", range(6))
def test_a_run_costs_what_was_predicted(
    seed: int, codec: dict | None, compiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "library", lambda: None)
    rng = random.Random(f"{seed}{codec}")
    where, data = sharded(tmp_path / "x.zarr", rng, codec)
    axes = tuple(rng.sample(range(data.ndim), data.ndim))
    chunks = tuple(rng.randint(1, data.shape[axis]) for axis in axes)
    report = reblock.repartition(where, tmp_path / "y.zarr", chunks=chunks, transpose=axes, memory="1MiB")
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data.transpose(axes))
    predicted, measured = report.predicted, report.measured
    assert (measured.opens, measured.runs, measured.seeks, measured.bytes_read) == (
        *(predicted.opens, predicted.runs, predicted.seeks, predicted.bytes_read),
    )


@pytest.mark.parametrize("codec", [None, ZSTD])
def test_shards_and_chunks_that_are_not_stored_are_fill(codec: dict | None, tmp_path: Path) -> None:
    import zarr

    data = field((12, 16))
    data[:4, :8] = data[8:, 12:] = 7
    made = zarr.create_array(
        tmp_path / "x.zarr", shape=data.shape, dtype=data.dtype, chunks=(2, 4), shards=(4, 8), fill_value=7,
        compressors=codec,
    )  # fmt: skip
    made[...] = data
    assert not os.path.exists(tmp_path / "x.zarr/c/0/0")
    report = reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 5))
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)
    assert report.missing_chunks == 6


@pytest.mark.parametrize("codec", [None, ZSTD])
def test_an_index_that_lies_is_named(codec: dict | None, tmp_path: Path) -> None:
    by_zarr(tmp_path / "x.zarr", field((12, 16)), chunks=(2, 4), shards=(4, 8), compressors=codec)
    path = tmp_path / "x.zarr/c/1/1"
    stored = bytearray(path.read_bytes())
    stored[-40] ^= 1
    path.write_bytes(stored)
    with pytest.raises(CorruptError, match=r"chunk \(1,1\) in .*/c/1/1, the last .* bytes: shard index"):
        reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 5))
    path.write_bytes(stored[:10])
    with pytest.raises(CorruptError, match=r"/c/1/1.*the file has 10 bytes"):
        reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 5))


@pytest.mark.parametrize("codec", [None, ZSTD])
def test_a_shard_behind_a_link_is_read_where_that_is_allowed(codec: dict | None, tmp_path: Path) -> None:
    data = field((12, 16))
    by_zarr(tmp_path / "x.zarr", data, chunks=(2, 4), shards=(4, 8), compressors=codec)
    shutil.move(tmp_path / "x.zarr/c/1/1", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", tmp_path / "x.zarr/c/1/1")
    with pytest.raises(ExternalError):
        reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 5))
    reblock.repartition(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=(5, 5), allow_external=[tmp_path])
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)
