"""The command: whole races on small arrays, refusals, interruption. No timing is asserted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from peer_jobs import BY_NAME, HERE, entry
from reblock.bench.peers import race as bench_peers
from reblock.bench.peers.results import RaceResult
from reblock.bench.peers.workloads import WORKLOADS
from reblock.cli.application import application


def call(*words: object) -> Any:
    return CliRunner().invoke(application, ["bench", "peers", *map(str, words)])


def test_the_command(tmp_path: Path) -> None:
    output = tmp_path / "race.json"
    words = ["W4", "--scale", "64", "--repeat", "1", "--only", "cp", "--dir", tmp_path, "--output", output, "--check"]
    result = call(*words)
    assert result.exit_code == 0, result.output
    assert "bar: reblock in at most 0.33" in result.stdout
    assert "round 1 of 1: reblock" in result.stderr
    document = json.loads(output.read_text())
    assert document["failures"] == document["bars_missed"] == 0
    (workload,) = document["workloads"]
    assert [one["name"] for one in workload["contenders"]] == ["reblock", "cp"]
    for one in workload["contenders"]:
        assert one["correct"]
        assert one["size_bytes"] > 0
        assert len(one["seconds"]) == 1
    assert os.listdir(tmp_path) == ["race.json"]


@pytest.mark.faults
def test_every_workload_with_the_peers_that_are_here(tmp_path: Path, forked_scripts: None) -> None:
    words = ["--scale", "32", "--repeat", "1", "--only", ",".join(HERE), "--dir", tmp_path, "--keep", "--json"]
    document = json.loads(call(*words).stdout)
    assert [one["name"] for one in document["workloads"]] == list(BY_NAME)
    for workload in document["workloads"]:
        for one in workload["contenders"]:
            # The physical limit has no output, but a note.
            measured = one["name"] == "limit" and one["notes"]
            assert one["skipped"] or one["correct"] or measured, (workload["name"], one)
    kept = os.listdir(tmp_path / "reblock-peers")
    # W6, NetCDF and TIFF have one source for all of their targets.
    assert len(kept) == len(WORKLOADS) - 4
    before = {name: (tmp_path / "reblock-peers" / name).stat().st_mtime_ns for name in kept}
    again = call("W2", "--scale", "32", "--repeat", "1", "--only", "cp", "--dir", tmp_path)
    assert again.exit_code == 0
    assert "making" not in again.stderr
    assert {name: (tmp_path / "reblock-peers" / name).stat().st_mtime_ns for name in kept} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["W9"], "no workload 'W9'"),
        (["--only", "cp,tar"], "no contender 'tar'"),
        (["--repeat", 0], "at least one round"),
        (["--scale", 0], "at least 1"),
        (["--output", "nowhere/x.json"], "its folder does not exist"),
        (["--output", __file__], "is not the result of a race"),
    ],
)
def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[object], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*words, "--dir", tmp_path)
    assert result.exit_code == 1
    assert message in result.stderr
    assert os.listdir(tmp_path) == []


def test_room_is_looked_for_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_peers.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    result = call("W1", "--only", "cp", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "W1 needs 8.83 GiB" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--check"], 1)])
def test_a_missed_bar_counts_when_asked(monkeypatch: pytest.MonkeyPatch, words: list[str], code: int) -> None:
    missed = RaceResult(BY_NAME["W1"], (entry("reblock", 9), entry("cp", 1)))
    monkeypatch.setattr(bench_peers, "race", lambda *_, **__: (one for one in [missed]))
    assert call(*words).exit_code == code


def test_a_wrong_output_always_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = RaceResult(BY_NAME["W1"], (entry("reblock", 1), entry("cp", 9, correct=False)))
    monkeypatch.setattr(bench_peers, "race", lambda *_, **__: (one for one in [wrong]))
    result = call("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failures"] == 1


@pytest.mark.faults
def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while a contender runs: it ends, and nothing stays behind."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reblock.cli import main; main()"
    )
    words = ["bench", "peers", "W6", "--scale", "8", "--only", "zarr-python", "--dir", str(tmp_path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("reblock-peers/run-*/target.zarr")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert os.listdir(tmp_path) == []
