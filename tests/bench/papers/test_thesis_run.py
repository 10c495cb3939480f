"""The thesis' experiments on disk: predictions are counted, wrong results are noticed, nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reblock import api
from reblock.bench.notify import silent
from reblock.bench.papers import arrays, thesis_run
from reblock.bench.papers.figures import CONFIGS_3500, FIGURE_5B, SCALED_25
from reblock.bench.papers.thesis_run import TimeSplit, run_thesis
from reblock.cost import PRESETS
from reblock.engine import Times
from reblock.errors import UsageError

GB = 10**9


def run(folder: Path, budgets=(4 * GB,), configs=CONFIGS_3500[:1], **options):
    given = {"scale": 25, "repeats": 1, "device": PRESETS["nvme"], "notify": silent, **options}
    return run_thesis(configs, list(budgets), folder=str(folder), **given)


def test_a_configuration_really_run(tmp_path: Path) -> None:
    told: list[str] = []
    counts, times = run(tmp_path, (4 * GB, 8 * GB), notify=told.append)
    rows = counts.to_json()["rows"]
    assert [(row["memory_bytes"], row["strategy"]) for row in rows] == [
        (None, "baseline"),
        (4 * GB, "keep"),
        (4 * GB, "auto"),
        (8 * GB, "keep"),
        (8 * GB, "auto"),
    ]
    assert [row["seeks_measured"] for row in rows[:2]] == [SCALED_25[0][0], 96]
    assert [row["seeks_predicted"] for row in rows] == [row["seeks_measured"] for row in rows]
    assert all(row["verified"] and row["ran"] for row in rows)
    assert rows[1]["held_bytes"] == SCALED_25[0][1] * 2
    # auto stays inside the budget with everything that it allocates.
    assert all(row["peak_bytes"] <= row["memory_bytes"] // 25**3 for row in rows if row["strategy"] == "auto")
    assert (counts.failures, times.failures) == (0, 0)
    for row, split in zip(rows, times.to_json()["rows"], strict=True):
        parts = [split[f"{part}_seconds"] for part in ("read", "write", "planning", "overhead")]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(split["seconds"]) == pytest.approx(row["seconds"])
    paper = [row["speed_up_paper"] for row in times.to_json()["rows"]]
    assert paper == [None, FIGURE_5B[0][0] / FIGURE_5B[0][1], None, None, None]
    assert told[0].startswith("needs 15.7 MiB of disk")
    assert os.listdir(tmp_path) == []


def test_configurations_share_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thesis_run, "MAX_BASELINE_SEEKS", 0)
    told: list[str] = []
    run(tmp_path, configs=CONFIGS_3500[:2], notify=told.append)
    assert [line for line in told if "making" in line] == ["config 0: making the source, 5.23 MiB"]


def test_time_is_divided_by_what_threads_did() -> None:
    times = Times(read=3.0, scatter=1.0, write=4.0)
    report = SimpleNamespace(times=times, measured=SimpleNamespace(seconds=4.0), elapsed_seconds=5.0)
    split = TimeSplit.of(report, planning=0.5, sync=0.25)
    assert (split.planning, split.read, split.write, split.overhead) == (0.5, 1.5, 2.25, 1.5)
    assert split.total == 5.75
    nothing = SimpleNamespace(times=Times(), measured=SimpleNamespace(seconds=0.0), elapsed_seconds=1.0)
    assert TimeSplit.of(nothing, 0.0, 0.0).overhead == 1.0


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("MAX_BASELINE_SEEKS", 1000, "Config 0, baseline: more than 1,000 seeks."),
        ("MAX_BASELINE_SECONDS", 0.0, "Config 0, baseline: stopped after 0"),
    ],
)
def test_baseline_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: float, reason: str
) -> None:
    monkeypatch.setattr(thesis_run, name, value)
    counts, times = run(tmp_path)
    baseline, keep, _ = counts.to_json()["rows"]
    assert (baseline["ran"], baseline["seeks_predicted"]) == (False, SCALED_25[0][0])
    assert baseline["seeks_measured"] is baseline["verified"] is None
    assert baseline["seconds"] > 0
    assert reason in counts.notes[0]
    assert keep["ran"]
    assert [row["strategy"] for row in times.to_json()["rows"]] == ["keep", "auto"]
    assert counts.failures == 0
    assert os.listdir(tmp_path) == []


def test_a_budget_that_is_too_small(tmp_path: Path) -> None:
    """A row says so; the other runs go on."""
    counts, times = run(tmp_path, (10**4, 4 * GB))
    ran = {(row["memory_bytes"], row["strategy"]): row["ran"] for row in counts.to_json()["rows"]}
    assert ran == {
        (None, "baseline"): True,
        (10**4, "keep"): False,
        (10**4, "auto"): False,
        (4 * GB, "keep"): True,
        (4 * GB, "auto"): True,
    }
    assert "Config 0, auto: no plan fits a memory budget of" in counts.notes[0]
    assert len(times.rows) == 3
    assert counts.failures == 0


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def damaged(job, **options):
        report = real(job, **options)
        with open(os.path.join(report.target, "0_0_0.bin"), "r+b") as file:
            file.write(b"\xff\x00\xff")
        return report

    real = api.run
    monkeypatch.setattr(thesis_run.api, "run", damaged)
    counts, _ = run(tmp_path)
    assert counts.failures == 3
    assert not any(row["verified"] for row in counts.to_json()["rows"])
    assert os.listdir(tmp_path) == []


def test_a_wrong_count_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def miscounted(job, **options):
        report = real(job, **options)
        return replace(report, measured=replace(report.measured, seeks=5))

    real = api.run
    monkeypatch.setattr(thesis_run.api, "run", miscounted)
    counts, _ = run(tmp_path)
    assert counts.failures == 3
    assert {row["seeks_measured"] for row in counts.to_json()["rows"]} == {5}


@pytest.mark.parametrize("asked", [1, 5, 50])
def test_nothing_stays_behind_when_cancelled(tmp_path: Path, asked: int) -> None:
    """The n-th question is answered with yes: while the source is made, between runs, and inside a run."""
    count = 0

    def cancelled() -> bool:
        nonlocal count
        count += 1
        return count >= asked

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, cancelled=cancelled)
    assert count >= asked
    assert os.listdir(tmp_path) == []


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while the experiments run."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from reblock.bench.papers import report; report.reproduce = lambda *_, **__: []\n"
        "from reblock.cli import main; main()"
    )
    words = ["bench", "papers", "thesis", "--run", "--scale", "25", "--dir", str(tmp_path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("reblock-papers-*/config-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert os.listdir(tmp_path) == []


def test_too_little_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    with pytest.raises(UsageError, match=r"needs 240 GiB and .* has 1.00 GiB free: choose another folder"):
        run(tmp_path, scale=1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("scale", [0, -5, 3, 50])
def test_scales_that_divide_nothing(tmp_path: Path, scale: int) -> None:
    with pytest.raises(UsageError, match="use 1, 5, 25"):
        run(tmp_path, scale=scale)


def test_scales_divide_every_shape() -> None:
    for scale in thesis_run.SCALES:
        for config in CONFIGS_3500:
            assert config.scaled(scale)[0] == (3500 // scale,) * 3
