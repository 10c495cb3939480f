"""Progress: what is shown fits the terminal, and a log gets a line now and then."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.cli import progress as module
from reblock.cli.progress import _Ticker, moved_bytes, progress

GIB = 1 << 30


def meter(label: str = "scan.zarr", done: int = 5 * GIB, whole: int = 12 * GIB) -> _Ticker:
    """One that has seen half a gibibyte per second."""
    made = _Ticker(label, whole)
    for second in range(11):
        made.tell(done - (10 - second) * GIB // 2, whole)
        made.facts(float(second))
    return made


def columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


@pytest.mark.parametrize("label", ["scan.zarr", "/a/very/long/path/to/some/array/somewhere/scan.zarr", "脳の画像.zarr"])
def test_a_line_is_shorter_than_the_terminal_is_wide(label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wide in range(2, 200):
        line = meter(label).line(wide, 10.0)
        # A terminal writes ^C behind it.
        assert 0 < columns(line) <= (wide - 3 if wide > 12 else wide - 1)
        assert "\n" not in line
        assert wide < 5 or "41%" in line


@pytest.mark.parametrize(
    ("wide", "shown"),
    [
        (80, "scan.zarr  =========--------------   41%   5.0/12.0 GiB  512 MiB/s  0:14 left"),
        (40, " 41%   5.0/12.0 GiB  0:14 left"),
        (25, " 41%  0:14 left"),
        (10, " 41%"),
    ],
)
def test_what_matters_most_is_shown_first(wide: int, shown: str) -> None:
    assert meter().line(wide, 10.0) == shown


def test_a_line_for_a_log() -> None:
    assert meter().sentence(10.0) == ("reblock: scan.zarr: 41%, 5.0 of 12.0 GiB read and written, 512 MiB/s, 0:14 left")


def test_the_whole_is_known_before_anything_is_done() -> None:
    assert _Ticker("y", 300 << 20).line(60, 0.0).endswith("  0%    0/300 MiB")


def test_what_was_finished_before_is_not_taken_for_speed() -> None:
    made = _Ticker("y", 12 * GIB)
    made.facts(0.0)
    made.tell(6 * GIB, 12 * GIB)
    made.facts(1.0)
    made.tell(7 * GIB, 12 * GIB)
    percent, _, rate, left = made.facts(3.0)
    assert (percent.strip(), rate, left) == ("58%", "512 MiB/s", "0:10")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.2, "0:00"), (61, "1:01"), (3661, "1:01:01"), (86399, "23:59:59"), (864000, "10.0 days")]
)
def test_time_that_is_left(seconds: float, shown: str) -> None:
    assert module._clock(seconds) == shown


def test_nobody_is_told_where_it_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_SECONDS", 0.01)
    with progress("y", 100, quiet=True) as tell:
        assert tell is None
    monkeypatch.setattr(sys, "stderr", None)
    with progress("y", 100) as tell:
        assert tell is None


def test_a_stream_that_is_gone_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        closed, encoding = False, "utf-8"

        def isatty(self) -> bool:
            return False

        def write(self, _: str) -> None:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(module, "LOG_SECONDS", 0.001)
    monkeypatch.setattr(sys, "stderr", Gone())
    with progress("y", 100) as tell:
        assert tell is not None
        tell(1, 100)
        module.Event().wait(0.05)


# ---------------------------------------------------------------- runs
LOGGED = "import reblock.cli.progress as p; p.LOG_SECONDS = 0.02; from reblock.cli import main; main()"


@pytest.fixture
def words(here: Path) -> list[str]:
    np.save("x.npy", np.zeros((400, 400), "u1"))
    return [sys.executable, "-c", LOGGED, "run", "x.npy", "y.zarr", "--chunks", "8,8"]


def test_a_log_gets_lines(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    lines = done.stderr.splitlines()
    assert lines
    pattern = r"reblock: y\.zarr: +\d+%, \d+ of 312 KiB read and written(, [0-9.]+ .?i?B/s, \d+:\d\d left)?"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert "digest" in done.stdout


def test_a_dumb_terminal_gets_lines(words: list[str]) -> None:
    ours, theirs = os.openpty()
    with open(ours, "rb", buffering=0) as seen:
        dumb = os.environ | {"TERM": "dumb"}
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=theirs, check=True, timeout=60, env=dumb)
        os.close(theirs)
        assert b"\x1b" not in seen.read(4096)


def test_quiet(words: list[str]) -> None:
    words[-1] = "100,100"
    done = subprocess.run([*words, "--quiet"], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")
    again = subprocess.run([*words, "--quiet"], capture_output=True, text=True, check=False, timeout=60)
    assert (again.returncode, again.stdout) == (1, "")
    assert "exists" in again.stderr
    document = subprocess.run([*words, "--quiet", "--overwrite", "--json"], capture_output=True, check=True, timeout=60)
    assert document.stdout.startswith(b"{")
    assert document.stderr == b""


# ---------------------------------------------------------------- what is told
JOBS: dict[str, dict[str, Any]] = {
    "rows": {"target": "y/", "chunks": "8,16,16"},
    "encoded": {"target": "y.zarr", "chunks": "8,16,16", "codec": "zstd:1"},
    "shards": {"target": "y.zarr", "chunks": "8,8,8", "shards": "16,16,16"},
    "hdf5": {"target": "y.h5", "chunks": "8,16,16", "codec": "gzip:1"},
    "cropped": {"target": "y.npy", "region": "3:40,5:30,:"},
    "two passes": {"target": "y.npy", "transpose": "2,1,0", "strategy": "multipass"},
    "taking turns": {"target": "y/", "chunks": "44,2,2", "transpose": "2,1,0", "strategy": "multipass"},
}


@pytest.mark.parametrize("name", JOBS)
def test_it_ends_where_the_plan_says(here: Path, name: str) -> None:
    np.save("x.npy", np.random.default_rng(0).integers(0, 2**32, (48, 40, 44), "u4"))
    job = reblock.plan("x.npy", memory=64 << 10, **JOBS[name])
    told: list[tuple[int, int]] = []
    report = reblock.run(job, progress=lambda done, whole: told.append((done, whole)))
    whole = report.measured.bytes_read + report.measured.bytes_written
    assert {of for _, of in told} == {whole} == {moved_bytes(job.cost)}
    assert told[0][0] == 0
    assert max(done for done, _ in told) == whole
    # Reading counts too: half of it is told of before half of it is written.
    assert len({done for done, _ in told}) > 4


@pytest.mark.parametrize("name", ["rows", "two passes", "taking turns"])
def test_a_resumed_run_begins_where_the_last_one_ended(here: Path, name: str) -> None:
    np.save("x.npy", np.random.default_rng(0).integers(0, 2**32, (48, 40, 44), "u4"))
    job = reblock.plan("x.npy", memory=64 << 10, **JOBS[name])

    def stop(done: int, whole: int) -> None:
        if done > 0.8 * whole:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=stop)
    told: list[tuple[int, int]] = []
    report = reblock.run(job, progress=lambda done, whole: told.append((done, whole)))
    assert report.resumed_boxes
    first, whole = told[0]
    assert 0.3 * whole < first < whole
    assert max(done for done, _ in told) == whole


def test_an_array_of_nothing(here: Path) -> None:
    np.save("x.npy", np.zeros((0, 3)))
    told: list[tuple[int, int]] = []
    reblock.repartition("x.npy", "y.zarr", progress=lambda done, whole: told.append((done, whole)))
    assert told == [(0, 0)]
