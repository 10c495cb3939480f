"""Measurements: memory and time of copies, child processes and programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from peer_jobs import small
from reblock.bench.files import evict_array
from reblock.bench.peers.results import machine
from reblock.bench.peers.scripts import tools
from reblock.bench.peers.scripts.measure import family, measure


def test_memory_and_time_of_a_copy() -> None:
    """Memory that is given back before the end counts; what was there before does not."""
    kept = np.ones(32 << 20, np.uint8)

    def copy() -> None:
        np.ones(64 << 20, np.uint8)
        time.sleep(0.01)

    found = measure(copy)
    assert found["seconds"] >= 0.01
    # The kernel adds pages up a few at a time.
    assert 60 << 20 <= found["peak_bytes"] < 90 << 20
    assert found["user_seconds"] + found["system_seconds"] > 0
    assert kept[-1] == 1


def test_processes_below_count() -> None:
    code = "import sys\nfor line in sys.stdin:\n    x = b'x' * (48 << 20)\n    print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert {os.getpid(), process.pid} <= set(family())

        def copy() -> None:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()

        assert measure(copy)["peak_bytes"] >= 44 << 20
        process.stdin.close()
    assert process.pid not in set(family())


def test_programs_are_watched(tmp_path: Path) -> None:
    # Large enough for the copy to last longer than it takes to look.
    (tmp_path / "x").write_bytes(bytes(64 << 20))
    found = tools.run(small(contender="cp", source=str(tmp_path / "x"), target=str(tmp_path / "y")))
    assert (tmp_path / "y").stat().st_size == 64 << 20
    assert 0 < found["peak_bytes"] < 16 << 20
    assert found["program"][0].isdigit()
    with pytest.raises(RuntimeError, match="cp ended with 1"):
        tools.run(small(contender="cp", source=str(tmp_path / "no"), target=str(tmp_path / "z")))


@pytest.mark.skipif(shutil.which("fincore") is None, reason="fincore is not installed")
def test_a_cool_source_is_not_in_the_page_cache(tmp_path: Path) -> None:
    def cached() -> int:
        words = ["fincore", "--bytes", "--noheadings", "--output", "RES", tmp_path / "x" / "y"]
        return int(subprocess.run(words, capture_output=True, check=True, text=True).stdout)

    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_bytes(bytes(1 << 20))
    if not cached() or "tmpfs" in str(machine(str(tmp_path))["file_system"]):
        pytest.skip("this file system has no page cache to drop")
    evict_array(str(tmp_path / "x"))
    assert cached() == 0
