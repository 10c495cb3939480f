"""The thesis' experiments on disk: what is predicted is counted, and what is wrong is noticed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reblock.bench.papers import runs as bench_runs
from reblock.bench.papers.figures import CONFIGS_3500, SCALED_25
from reblock.bench.papers.runs import run_configs
from reblock.errors import UsageError

GB = 10**9


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench_runs.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def say(_: str) -> None:
    """Nobody listens."""


def test_a_configuration_really_run(folder: Path) -> None:
    table = run_configs(CONFIGS_3500[:1], [4 * GB, 8 * GB], repeats=1, notify=say)
    rows = table.to_json()["rows"]
    assert [(row["memory_bytes"], row["strategy"]) for row in rows] == [
        (None, "baseline"),
        (4 * GB, "keep"),
        (4 * GB, "auto"),
        (8 * GB, "keep"),
        (8 * GB, "auto"),
    ]
    assert [row["seeks_measured"] for row in rows] == [SCALED_25[0][0], 96, 96, 96, 96]
    assert [row["seeks_predicted"] for row in rows] == [row["seeks_measured"] for row in rows]
    assert all(row["verified"] for row in rows)
    assert rows[1]["held_bytes"] == SCALED_25[0][1] * 2
    assert table.failures == 0
    assert os.listdir(folder) == []


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def execute(plan, view, store, scratch):
        measured = real(plan, view, store, scratch)
        with open(store.place((0, 0, 0)).path, "r+b") as file:
            file.write(b"\xff\x00\xff")
        return measured

    real = bench_runs.execute_plan
    monkeypatch.setattr(bench_runs, "execute_plan", execute)
    table = run_configs(CONFIGS_3500[:1], [4 * GB], repeats=1, notify=say)
    assert table.failures == 3
    assert not any(row["verified"] for row in table.to_json()["rows"])
    assert os.listdir(folder) == []


def test_a_wrong_count_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench_runs._run
    monkeypatch.setattr(bench_runs, "_run", lambda *words: replace(run(*words), seeks=5))
    assert run_configs(CONFIGS_3500[:1], [4 * GB], repeats=1, notify=say).failures == 3


def test_nothing_stays_behind_when_interrupted(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench_runs, "execute_plan", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_configs(CONFIGS_3500[:1], [4 * GB], notify=say)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("scale", [0, -5, 1, 3, 50])
def test_scales_that_divide_nothing(scale: int) -> None:
    with pytest.raises(UsageError, match="use 5 or 25"):
        run_configs(CONFIGS_3500, [4 * GB], scale=scale, notify=say)


def test_a_block_that_is_missing_is_wrong(folder: Path) -> None:
    array = np.arange(8, dtype="<u2").reshape(2, 2, 2)
    view = bench_runs.store_blocks(str(folder / "x"), array, (1, 2, 2))
    assert bench_runs.holds(view.store, array)
    os.unlink(view.store.place((1, 0, 0)).path)
    assert not bench_runs.holds(view.store, array)


def test_a_negative_number_of_cases_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 0"):
        bench_runs.check_run(25, -1)


def test_scales_divide_every_shape() -> None:
    for scale in bench_runs.SCALES:
        for config in CONFIGS_3500:
            assert config.scaled(scale)[0] == (3500 // scale,) * 3
