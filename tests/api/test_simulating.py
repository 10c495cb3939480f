"""`reblock.simulate`: plans of stored arrays and of shapes alone, from jobs and from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


PETABYTE = {
    "shape": (500_000, 32_768, 32_768),
    "dtype": "u2",
    "source_chunks": (64, 128, 64),
    "source_codec": "zstd",
    "chunks": (128, 64, 128),
    "device": "s3",
}


def test_a_petabyte() -> None:
    """Counts are exact, and as many events as for any other array: each share once."""
    job = reblock.plan(**PETABYTE)
    reblock.save_plan(job, "p.json")
    assert Path("p.json").stat().st_size < 10_000
    one = reblock.simulate("p.json", workers=1)
    assert one.requests["gets"] == 500_000 // 64 * 256 * 512 + 256 * 512
    assert one.requests["puts"] == -(-500_000 // 128) * 512 * 256
    assert one.makespan_seconds == pytest.approx(job.cost.seconds, rel=0.5)
    many = reblock.simulate("p.json", workers=1000, gets_per_second=0, puts_per_second=0)
    assert many.to_json()["shares"] <= 2000
    assert one.makespan_seconds / many.makespan_seconds > 800
    limited = reblock.simulate("p.json", workers=1000)
    assert limited.makespan_seconds >= limited.requests["gets"] / 5500
    assert {spot.array for spot in limited.hot_spots} == {"source", "target"}
    assert limited.price["total"] == pytest.approx(
        limited.requests["gets"] / 1000 * 0.0004 + limited.requests["puts"] / 1000 * 0.005
    )
    rows = reblock.simulate("p.json", workers=1000, prefix_axes=1)
    assert rows.makespan_seconds < limited.makespan_seconds / 5
    stored = reblock.simulate("p.json", compression=4.0, egress_price=0.09)
    assert stored.to_json()["egress_bytes"] == pytest.approx(job.cost.bytes_read / 4)
    assert stored.price["egress"] == pytest.approx(job.cost.bytes_read / 4 / 1e9 * 0.09)


@pytest.mark.parametrize("options", [{}, {"codec": "zstd:1"}, {"chunks": "7,9,11", "shards": "14,18,22"}])
def test_a_file_says_all_that_a_job_does(options: dict[str, Any]) -> None:
    np.save("x.npy", np.random.default_rng(0).integers(0, 99, (30, 40, 50), "u2"))
    wanted = {"chunks": "10,10,10", "memory": "1MiB", "device": "s3", "region": "3:29,:,:", "transpose": "2,0,1"}
    job = reblock.plan("x.npy", "y.zarr", **wanted | options, strategy="keep")
    reblock.save_plan(job, "p.json")
    for workers in (1, 3):
        one, two = (reblock.simulate(plan, workers=workers) for plan in (job, "p.json"))
        assert one == two
    single = reblock.simulate(job)
    sides = [side for sweep in job.decision.sweeps for side in (sweep.source, sweep.target)]
    assert single.requests["gets"] == sum(side.seeks for side in sides[::2])
    assert single.requests["puts"] == sum(side.seeks for side in sides[1::2])


def test_an_array_of_metadata_alone_can_be_planned_and_simulated() -> None:
    """A Zarr array without any chunk is as good as a petabyte of them."""
    zarr = pytest.importorskip("zarr")
    zarr.create_array("big.zarr", shape=(10**6, 10**5, 10**4), chunks=(100, 1000, 100), dtype="u1", compressors=None)
    job = reblock.plan("big.zarr", "new.zarr", chunks=(1000, 100, 100), device="s3")
    reblock.save_plan(job, "p.json")
    found = reblock.simulate("p.json", workers=500, failure_rate=1e-7, stragglers="pareto:3")
    assert found.completes
    assert found.requests["puts"] >= 10**8
    assert found.to_json()["tasks"] > 500


def test_several_passes_follow_each_other() -> None:
    job = reblock.plan(
        shape=(256, 64, 64), dtype="f4", source_chunks=(1, 64, 64), source_codec="zstd", chunks=(256, 8, 8),
        memory="1500KiB", strategy="multipass", device="s3",
    )  # fmt: skip
    assert len(job.plan.passes) > 1
    found = reblock.simulate(job, workers=4)
    count = 1 if job.plan.interleaved else len(job.plan.passes)
    assert len(found.legs) == count
    assert found.makespan_seconds == pytest.approx(sum(leg.seconds for leg in found.legs))


@pytest.mark.parametrize("shape", [(), (0,), (4, 0), (1,)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    chunks = tuple(max(n, 1) for n in shape)
    job = reblock.plan(shape=shape, dtype=">i2", source_chunks=chunks, chunks=chunks, device="s3")
    found = reblock.simulate(job, workers=10)
    assert found.completes
    assert found.requests["puts"] == (0 if 0 in shape else 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "1 to 100,000"),
        ({"workers": 10**6}, "1 to 100,000"),
        ({"workers": 1.5}, "whole number"),
        ({"device": "cloud"}, "unknown device"),
        ({"stragglers": "many"}, "lognormal:SIGMA"),
        ({"stragglers": "pareto:0.5"}, "ALPHA"),
        ({"stragglers": "lognormal:nan"}, "lognormal:SIGMA"),
        ({"stragglers": "slow:2:3"}, "PART"),
        ({"failure_rate": 1.5}, "from 0 to 1"),
        ({"failure_rate": float("nan")}, "from 0 to 1"),
        ({"retries": -1}, "whole number"),
        ({"seed": -1}, "whole number"),
        ({"startup": -1.0}, "^startup=-1.0: use a number"),
        ({"gets_per_second": float("nan")}, "gets_per_second"),
        ({"prefix_axes": 2}, "0 to 1"),
        ({"bandwidth": "fast"}, "size"),
        ({"compression": 0.0}, "ratio"),
        ({"put_price": -1.0}, "^put_price=-1.0: use a number"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    job = reblock.plan(shape=(4, 4), dtype="u1", source_chunks=(2, 2), chunks=(4, 1))
    with pytest.raises(UsageError, match=words):
        reblock.simulate(job, **options)


SPOILED: list[Callable[[dict[str, Any]], object]] = [
    lambda d: d.pop("plan"),
    lambda d: d.update(problem=[]),
    lambda d: d["problem"].pop("cores"),
    lambda d: d["problem"].update(memory_bytes=1),
    lambda d: d["problem"].update(cores=10**9),
    lambda d: d["problem"]["source"].update(shape=[5, 5]),
    lambda d: d["problem"]["source"].update(codec="[{"),
    lambda d: d["problem"]["source"].update(codec="[1, 2]"),
    lambda d: d["problem"]["target"].update(dtype="O"),
    lambda d: d["problem"]["target"]["objects"].update(chunks=[3, 3]),
    lambda d: d["plan"]["passes"].clear(),
    lambda d: d["plan"]["passes"][0].update(task_chunks=[0, 1]),
    lambda d: d["plan"]["passes"][0]["execution"].update(readers=10**6),
]


@pytest.mark.parametrize("spoil", SPOILED, ids=map(str, range(len(SPOILED))))
def test_a_spoiled_file_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    job = reblock.plan(shape=(40, 60), dtype="u1", source_chunks=(10, 20), chunks=(20, 10), device="s3")
    reblock.save_plan(job, "p.json")
    document = json.loads(Path("p.json").read_text())
    reblock.simulate("p.json")
    spoil(document)
    Path("p.json").write_text(json.dumps(document))
    with pytest.raises(UsageError):
        reblock.simulate("p.json")


def test_datasets_and_missing_files_are_refused() -> None:
    with pytest.raises(reblock.ReblockError, match=r"nowhere\.json"):
        reblock.simulate("nowhere.json")
    zarr = pytest.importorskip("zarr")
    group = zarr.create_group("g.zarr")
    for name in "ab":
        group.create_array(name, shape=(4,), chunks=(2,), dtype="u1")
    with pytest.raises(UsageError, match="of one array"):
        reblock.simulate(reblock.plan("g.zarr", "h.zarr"))
