"""The scripts of the page on SLURM, run by SLURM itself where it is installed, else by processes with its variables."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reblock
import slurm_cluster
from reblock.storage.media.registry import medium_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "slurm.md"
DATA = np.random.default_rng(0).integers(0, 5000, (96, 128, 160)).astype("f4")


def block(opening: str) -> str:
    """The block of the page that begins like this."""
    found = [
        text
        for text in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        if text.startswith(opening)
    ]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source and the scripts; the program is on the path."""
    np.save(tmp_path / "scan.npy", DATA)
    (tmp_path / "convert.sbatch").write_text(block("#!/bin/bash"))
    (tmp_path / "convert.py").write_text(block("import reblock"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return tmp_path


def plain_digest(here: Path) -> str | None:
    """The digest of what one process makes."""
    return reblock.repartition(here / "scan.npy", here / "plain.zarr", chunks=(32, 32, 32), codec="zstd:3").digest


def check(here: Path) -> None:
    """The target is complete, and nothing else is left."""
    assert reblock.verify(here / "scan.npy", here / "cubes.zarr").equal
    assert reblock.open(here / "cubes.zarr").store.schema.record.digest == plain_digest(here)
    assert not [name for name, _ in medium_of(str(here)).entries(str(here)) if "reblock" in name]


def kill_one(target: Path) -> int:
    """Kill a member that is at work, and return its number."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            found = reblock.status(target)
        except reblock.ReblockError:
            found = None
        for member in found.members if found is not None else ():
            if member.running and (words := re.match(r"process (\d+) ", member.running)):
                os.kill(int(words[1]), signal.SIGKILL)
                return member.member
        time.sleep(0.005)
    raise AssertionError("no member was seen at work")


def slowly(script: Path) -> None:
    """Let members take long enough to be killed, and leave room for four of them."""
    text = script.read_text().replace("zstd:3", "zstd:15").replace("--mem=4G", "--mem=900M")
    script.write_text(text.replace("--cpus-per-task=2", "--cpus-per-task=1"))


@pytest.mark.skipif(slurm_cluster.missing() is None, reason="SLURM itself runs the same script below")
def test_processes_with_the_variables(here: Path) -> None:
    def start(number: int) -> subprocess.Popen[bytes]:
        variables = {"SLURM_ARRAY_TASK_ID": str(number), "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_MEM_PER_NODE": "900"}
        with open(here / f"{number}.log", "ab") as log:
            return subprocess.Popen(
                ["bash", "convert.sbatch"], cwd=here, env={**os.environ, **variables}, stdout=log, stderr=log
            )

    slowly(here / "convert.sbatch")
    started = [start(number) for number in range(4)]
    killed = kill_one(here / "cubes.zarr")
    codes = [process.wait(120) for process in started]
    assert codes == [137 if number == killed else 0 for number in range(4)]
    assert not (here / "cubes.zarr").exists()
    assert start(killed).wait(120) == 0
    logs = [(here / f"{number}.log").read_text() for number in range(4)]
    assert [text.count("published: all members are done") for text in logs] == [int(n == killed) for n in range(4)]
    check(here)


# ---------------------------------------------------------------- SLURM itself
@pytest.fixture(scope="module")
def slurm() -> Iterator[slurm_cluster.Slurm]:
    if why := slurm_cluster.missing():
        pytest.skip(why)
    cluster = slurm_cluster.Slurm()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.slow
def test_a_job_array(here: Path, slurm: slurm_cluster.Slurm) -> None:
    """Four members; one is killed and requeued; one target, published once."""
    slowly(here / "convert.sbatch")
    job = slurm.submit(here / "convert.sbatch", f"--output={here}/%a.log", cwd=here)
    killed = kill_one(here / "cubes.zarr")
    states = slurm.wait(job)
    assert states == {str(n): "FAILED" if n == killed else "COMPLETED" for n in range(4)}
    assert not (here / "cubes.zarr").exists()
    slurm.requeue(job, killed)
    assert set(slurm.wait(job).values()) == {"COMPLETED"}
    logs = [(here / f"{number}.log").read_text() for number in range(4)]
    assert sum(text.count("published: all members are done") for text in logs) == 1
    assert all(
        "450 MiB by default, half of the 900 MiB that SLURM_MEM_PER_NODE allows" in " ".join(text.split())
        for text in logs
    )
    check(here)


@pytest.mark.slow
def test_workers_of_dask_jobqueue(here: Path, slurm: slurm_cluster.Slurm) -> None:
    pytest.importorskip("dask_jobqueue")
    done = slurm.run([sys.executable, "convert.py"], cwd=here, seconds=180)
    assert done.returncode == 0, done.stderr
    assert reblock.verify(here / "scan.npy", here / "cubes.zarr").equal
    assert reblock.verify(here / "scan.npy", here / "cubes.zarr").source_digest == done.stdout.split()[-1]
