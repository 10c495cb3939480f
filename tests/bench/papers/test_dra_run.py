"""DRA's experiment on disk: skewed reads, conversion and aligned reads of a small array."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reblock import api
from reblock.bench.notify import silent
from reblock.bench.papers import dra_run
from reblock.bench.papers.arrays import make_row_major
from reblock.bench.papers.dra_run import read_all, row_major_runs, run_dra, scaled_side
from reblock.cost import PRESETS, traffic
from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model import Access, Layout


def run(folder: Path, **options):
    return run_dra(**{"scale": 64, "folder": str(folder), "device": PRESETS["nvme"], "notify": silent, **options})


def test_really_run(tmp_path: Path) -> None:
    times, ratios = run(tmp_path)
    rows = times.to_json()["rows"]
    assert [row["access"] for row in rows] == [(256, 512), (512, 256)]
    assert [row["runs"] for row in rows] == [2, 1024]
    assert all(row["verified"] and row["seeks_predicted"] == row["seeks_measured"] for row in rows)
    assert all(row[f"{what}_seconds"] > 0 for row in rows for what in ("skewed", "conversion", "aligned"))
    assert times.failures == ratios.failures == 0
    first = ratios.to_json()["rows"][0]
    assert (first["skewed_ratio_paper"], first["conversion_ratio_paper"]) == (517 / 183, 371 / 183)
    assert first["reads_paper"] == 2
    assert ratios.notes[0].startswith("Reads after which converting pays, here: 256,512 ")
    assert os.listdir(tmp_path) == []


def test_a_wrong_conversion_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(job, **options):
        report = real(job, **options)
        with open(os.path.join(report.target, "0_0.bin"), "r+b") as file:
            file.write(b"\xff\x00\xff")
        return report

    real = api.run
    monkeypatch.setattr(dra_run.api, "run", damaged)
    times, _ = run(tmp_path)
    assert times.failures == 2
    assert os.listdir(tmp_path) == []


def test_long_accesses_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.npy")
    make_row_major(path, (64, 64))
    assert read_all(path, (16, 16)).part == 1
    ticks = iter(range(1000))
    monkeypatch.setattr(dra_run, "perf_counter", lambda: float(next(ticks)))
    monkeypatch.setattr(dra_run, "MAX_ACCESS_SECONDS", 3.5)
    found = read_all(path, (16, 16))
    # Four accesses of a second each of sixteen.
    assert (found.part, found.seconds) == (4 / 16, 16.0)


@pytest.mark.parametrize("asked", [1, 3, 9])
def test_nothing_stays_behind_when_cancelled(tmp_path: Path, asked: int) -> None:
    count = 0

    def cancelled() -> bool:
        nonlocal count
        count += 1
        return count >= asked

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cancelled=cancelled)
    assert os.listdir(tmp_path) == []


def test_sides() -> None:
    assert [scaled_side(scale) for scale in (1, 4, 5, 25, 64)] == [32_768, 8192, 8192, 1024, 512]
    for scale in (0, 65):
        with pytest.raises(UsageError, match="use 1 to 64"):
            scaled_side(scale)


@pytest.mark.parametrize("access", [(128, 1024), (256, 512), (1024, 128)])
def test_runs_are_those_of_the_seek_model(access: tuple[int, int]) -> None:
    layout = Layout.raw("<f8", Grid.whole((1024, 1024)))
    assert row_major_runs(1024, access) == traffic(Grid.of((1024, 1024), access), layout, Access.RUNS).runs
