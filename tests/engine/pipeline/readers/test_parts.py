"""Sources whose chunks are read in parts: the same elements, counted as the plan says, in less memory."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from zarr.codecs import BloscCodec

import reblock
from reblock.api.array import Array
from reblock.engine import View, execute_plan, native
from reblock.errors import ChangedError, CorruptError, ExternalError, Refused, UnevenError, UsageError
from reblock.model import Plan
from reblock.planner import choose
from reblock.storage import registry
from reblock.testing.arrays import noise, same_bits
from zarr_python import by_zarr, zarr_reads

SHAPE, CHUNKS = (20, 100, 128), (1, 64, 128)


def field(shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return np.cumsum(np.random.default_rng(7).integers(0, 3, shape), -1).astype("<f4")


def stored(path: Path, data: np.ndarray, chunks: tuple[int, ...] = CHUNKS, block: int = 1 << 13) -> Path:
    by_zarr(path, data, chunks=chunks, compressors=[BloscCodec(cname="zstd", clevel=1, blocksize=block)])
    return path


def divided(path: Path) -> Array:
    """The array, to be read in parts whatever a plan would choose."""
    parts = registry.open(str(path)).divided()  # type: ignore[attr-defined]
    assert parts is not None
    return Array(parts)


@pytest.fixture(params=["compiled", "found by Python", "python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(native, "library", lambda: None)
    if request.param == "found by Python":
        monkeypatch.setattr(native, "decoder", lambda _: None)
    return str(request.param)


@pytest.mark.parametrize("seed", range(6))
def test_a_run_costs_what_was_predicted(seed: int, compiled: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = field()
    source = divided(stored(tmp_path / "x.zarr", data))
    axes = tuple(rng.sample(range(3), 3))
    starts = [rng.randint(0, n // 2) for n in SHAPE]
    region = tuple(slice(a, rng.randint(a + 1, n)) for a, n in zip(starts, SHAPE, strict=True))
    wanted = data[region].transpose(axes)
    chunks = tuple(rng.randint(1, n) for n in wanted.shape)
    report = reblock.repartition(
        source, tmp_path / "y.zarr", chunks=chunks, transpose=axes, region=region, memory="2MiB", codec="none"
    )
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), wanted)
    predicted, measured = report.predicted, report.measured
    assert (measured.opens, measured.runs, measured.seeks, measured.bytes_read) == (
        *(predicted.opens, predicted.runs, predicted.seeks, predicted.bytes_read),
    )


def test_frames_out_of_the_ordinary(compiled: str, tmp_path: Path) -> None:
    data = field()
    data[3:5] = noise(data[3:5].shape, data.dtype.str)
    path = stored(tmp_path / "x.zarr", data)
    assert (path / "c/3/0/0").read_bytes()[2] & 2
    (path / "c/7/1/0").unlink()
    data[7, 64:] = 0
    os.rename(path / "c/9/0/0", path / "c/9/0/other")
    os.symlink("other", path / "c/9/0/0")
    report = reblock.repartition(divided(path), tmp_path / "y.zarr", chunks=(20, 10, 128))
    assert same_bits(zarr_reads(tmp_path / "y.zarr"), data)
    # Parts of 16 rows: those of the last 36 are three.
    assert report.missing_chunks == 3
    shutil.move(path / "c/9/0/other", tmp_path / "elsewhere")
    (path / "c/9/0/0").unlink()
    os.symlink(tmp_path / "elsewhere", path / "c/9/0/0")
    with pytest.raises(ExternalError):
        reblock.repartition(divided(path), tmp_path / "z.zarr", chunks=(20, 10, 128))


@pytest.mark.parametrize("damage", ["table", "block", "short"])
def test_damage_is_named(damage: str, compiled: str, tmp_path: Path) -> None:
    path = stored(tmp_path / "x.zarr", field())
    source, file = divided(path), path / "c/4/0/0"
    bytes_ = bytearray(file.read_bytes())
    if damage == "table":
        bytes_[16:20] = b"\xff\xff\xff\x7f"
    elif damage == "block":
        bytes_[40:80] = bytes(40)
    else:
        del bytes_[-40:]
    file.write_bytes(bytes_)
    with pytest.raises(CorruptError, match=r"chunk \(4,0,0\) in .*/c/4/0/0, bytes \d+ to \d+: "):
        reblock.repartition(source, tmp_path / "y.zarr", chunks=(20, 10, 128))


def big(path: Path) -> tuple[Path, np.ndarray]:
    """An array of which memory holds no chunk's worth of target chunks, but a part's."""
    data = field((128, 256, 128))
    return stored(path, data, chunks=(1, 256, 128), block=1 << 15), data


PENCILS = {"chunks": (128, 16, 16), "memory": "9MiB", "codec": "none"}


def test_a_plan_takes_parts_where_chunks_would_be_read_again(tmp_path: Path) -> None:
    path, data = big(tmp_path / "x.zarr")
    job = reblock.plan(path, tmp_path / "y.zarr", **PENCILS)
    whole = choose(replace(job.decision.problem, source=job.source.layout))
    assert (job.plan.divided, whole.plan.divided) == (True, False)
    assert whole.problem.source.units.count == 128
    assert job.cost.seconds < whole.cost.seconds
    assert job.cost.read_amplification == 1
    assert len(job.plan.passes) == 1
    assert "128 chunks of 1,256,128, read in 512 parts of 1,64,128" in job.explain()
    assert job.to_json()["problem"]["source"]["parts"] == [1, 64, 128]
    report = reblock.run(job)
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)
    assert report.measured.peak_bytes <= 9 << 20


def test_a_plan_alone_says_that_it_takes_parts(tmp_path: Path) -> None:
    path, data = big(tmp_path / "x.zarr")
    job = reblock.plan(path, tmp_path / "y.zarr", **PENCILS)
    plan = Plan.from_json(json.loads(json.dumps(job.plan.to_json())))
    assert plan == job.plan
    store = job.format.create(str(tmp_path / "y.zarr"), "", job.schema)
    (measured,) = execute_plan(plan, View.whole(registry.open(str(path))), store, None)
    (predicted,) = job.decision.sweeps
    assert (measured.source, measured.target) == (predicted.source, predicted.target)
    store.commit()
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)


def test_a_plan_that_takes_parts_needs_a_source_that_has_some(tmp_path: Path) -> None:
    path, data = big(tmp_path / "x.zarr")
    plan = reblock.plan(path, tmp_path / "y.zarr", **PENCILS).plan
    np.save(tmp_path / "x.npy", data)
    with pytest.raises(UsageError, match=r"reads chunks in parts, but those of .*x.npy cannot be read that way"):
        View.whole(registry.open(str(tmp_path / "x.npy"))).as_planned(plan)
    with pytest.raises(UsageError, match=r"the plan reads chunks whole, but those of .*x.zarr cannot"):
        View.whole(divided(path).store).as_planned(replace(plan, divided=False))


def test_a_plan_takes_chunks_whole_where_that_is_as_good(tmp_path: Path) -> None:
    path, _ = big(tmp_path / "x.zarr")
    assert not reblock.plan(path, tmp_path / "y.zarr", chunks=(128, 16, 16), memory="1GiB").plan.divided
    job = reblock.plan(path, tmp_path / "y.zarr", strategy="naive", **PENCILS)
    assert not job.decision.problem.source.divided


def test_chunks_that_are_divided_otherwise_are_read_whole(tmp_path: Path) -> None:
    path, data = big(tmp_path / "x.zarr")
    stored(tmp_path / "other.zarr", data, chunks=(1, 256, 128), block=1 << 16)
    shutil.copy(tmp_path / "other.zarr/c/100/0/0", path / "c/100/0/0")
    job = reblock.plan(path, tmp_path / "y.zarr", **PENCILS)
    assert job.plan.divided
    report = reblock.run(job)
    (note,) = (note for note in report.notes if "chunks were read whole" in note)
    assert "c/100/0/0" in note
    assert "resume" not in note
    assert report.plan == choose(replace(job.decision.problem, source=job.source.layout)).plan
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)
    assert reblock.status(tmp_path / "y.zarr") is None


def test_chunks_that_are_divided_otherwise_since_they_were_planned(tmp_path: Path) -> None:
    path, data = big(tmp_path / "x.zarr")
    stored(tmp_path / "other.zarr", data, chunks=(1, 256, 128), block=1 << 16)
    job = reblock.plan(path, tmp_path / "y.zarr", **PENCILS)
    shutil.copytree(tmp_path / "other.zarr/c", path / "c", dirs_exist_ok=True)
    with pytest.raises(ChangedError, match=r"the parts of the chunks of .*x.zarr changed since it was opened"):
        reblock.run(job)
    assert not (tmp_path / "y.zarr").exists()
    reblock.repartition(path, tmp_path / "y.zarr", **PENCILS)
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)


def test_parts_fit_where_chunks_do_not(tmp_path: Path) -> None:
    data = field((64, 64, 128))
    path = stored(tmp_path / "x.zarr", data, chunks=(64, 64, 128), block=1 << 15)
    with pytest.raises(Refused):
        reblock.plan(path, tmp_path / "y.zarr", chunks=(8, 64, 128), memory="1MiB", strategy="search", codec="none")
    reblock.repartition(path, tmp_path / "y.zarr", chunks=(8, 64, 128), memory="1MiB", codec="none")
    assert np.array_equal(zarr_reads(tmp_path / "y.zarr"), data)
    stored(tmp_path / "other.zarr", data, chunks=(64, 64, 128), block=1 << 16)
    source = divided(path)
    shutil.copy(tmp_path / "other.zarr/c/0/0/0", path / "c/0/0/0")
    with pytest.raises(UnevenError, match=r"blocks of 65,536 bytes.*; with more memory, chunks are read whole$"):
        reblock.repartition(source, tmp_path / "z.zarr", chunks=(8, 64, 128), memory="1MiB", codec="none")
