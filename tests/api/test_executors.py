"""Executors of other libraries carry out shares: loky, and MPI with `mpi4py.futures`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import reblock

DATA = np.random.default_rng(0).integers(0, 60000, (48, 60, 64), "<u2")

#: As `docs/how-to/workers-and-clusters.md` shows it.
SCRIPT = """
import sys

import reblock
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    job = reblock.plan(sys.argv[1], sys.argv[2], chunks=(16, 20, 16), codec="zstd:1", memory="256KiB", device="nvme")
    with MPIPoolExecutor() as executor:
        report = reblock.run(job, executor=executor)
        print(MPI.COMM_WORLD.Get_size(), executor.num_workers, report.tasks, report.digest)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA)
    return tmp_path / "x.npy"


def test_loky(source: Path, tmp_path: Path) -> None:
    loky = pytest.importorskip("loky")
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16), codec="zstd:1", memory="256KiB", device="nvme")
    executor = loky.get_reusable_executor(max_workers=2)
    try:
        report = reblock.run(job, executor=executor)
    finally:
        executor.shutdown(wait=True)
    assert report.tasks > 1
    assert report.digest == reblock.verify(source, tmp_path / "a.zarr").source_digest


def launcher() -> list[str]:
    """The command that starts processes of MPI, maybe in the folder of the interpreter; empty if there is none."""
    found = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")
    return [found] if found else []


@pytest.mark.skipif(find_spec("mpi4py") is None or not launcher(), reason="mpi4py or mpiexec is not installed")
def test_processes_of_mpi(source: Path, tmp_path: Path) -> None:
    """Rank 0 begins the run, and the other two are its workers."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    words = ["-n", "3", sys.executable, "-m", "mpi4py.futures", str(script), str(source), str(tmp_path / "a.zarr")]
    # Open MPI refuses to run as root, or with more processes than cores, unless it is told otherwise.
    allowed = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    done = subprocess.run(
        [*launcher(), *words], capture_output=True, text=True, check=False, timeout=120, env=os.environ | allowed
    )
    assert done.returncode == 0, done.stderr
    size, workers, tasks, digest = done.stdout.split()
    assert (size, workers) == ("3", "2")
    assert int(tasks) > 1
    assert digest == reblock.verify(source, tmp_path / "a.zarr").source_digest
