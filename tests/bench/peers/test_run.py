"""Runs: processes, their failures, and wrong outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peer_jobs import BY_NAME, HERE, small
from reblock.bench.peers import run as peers_run
from reblock.bench.peers.run import make_source, run_once, run_script, source_path
from reblock.errors import StorageError


def test_a_failure_has_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"test: FileNotFoundError: .*nowhere"):
        run_script(sys.executable, "h5py", small(source=str(tmp_path / "nowhere"), target=str(tmp_path / "x.h5")))


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_run, "MAX_SECONDS", 0.05)
    with pytest.raises(StorageError, match="took longer than"):
        run_script(sys.executable, "verify", small(source=str(tmp_path), target=str(tmp_path)))


def test_modules_need_no_reblock_around_them(tmp_path: Path) -> None:
    """As in a peer's own environment: the script is run by its path, and finds its own modules only."""
    job = small(target=str(tmp_path / "x.npy"), target_format="npy")
    order = {"module": "make", "job": job.to_json(), "distributions": ["numpy"], "cores": [0]}
    (tmp_path / "order.json").write_text(json.dumps(order | {"cores": peers_run.cores()}))
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['', {str(tmp_path / 'order.json')!r}, {str(tmp_path / 'measured.json')!r}]\n"
        f"runpy.run_path({peers_run._SCRIPT!r}, run_name='__main__')\n"
        "assert not hasattr(sys.modules['reblock'], '__version__')\n"
        "assert 'reblock.engine' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    assert json.loads((tmp_path / "measured.json").read_text())["versions"] == {"numpy": np.__version__}
    assert np.load(tmp_path / "x.npy").shape == job.shape


def test_a_wrong_output_is_a_failure(tmp_path: Path, forked_scripts: None) -> None:
    """A contender that copies where other chunks are wanted."""
    workload = BY_NAME["W4"].scaled(64)
    make_source(workload, "zarr", str(tmp_path))
    run = run_once(replace(HERE["cp"], copies=False), sys.executable, workload, str(tmp_path))
    assert not run.correct
    assert run.failed
    assert "chunks is" in run.failed
    assert not any(path.stat().st_size for path in tmp_path.glob("run-*/**/*") if path.is_file())
    peers_run.clear(str(tmp_path))
    assert os.listdir(tmp_path) == [os.path.basename(source_path(workload, "zarr", str(tmp_path)))]


def test_an_output_that_cannot_be_read_is_wrong(tmp_path: Path, forked_scripts: None) -> None:
    workload = BY_NAME["W5"].scaled(64)
    make_source(workload, "zarr", str(tmp_path))
    run = run_once(replace(HERE["cp"], copies=False), sys.executable, workload, str(tmp_path))
    assert run.correct is False
    assert run.failed
    assert "cannot be read" in run.failed
