"""The server is killed while arrays are updated and written: nothing that was acknowledged is lost, nothing is torn."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import reblock
from postgres_server import Server
from reblock.storage.media.postgres import POSTGRES

#: Writers and readers together; each has a connection.
LANES = 4
ROWS, COLUMNS = 6, 64


class Storm:
    """Threads that update and read lanes of one array; two lanes share each chunk, and each lane has four chunks."""

    def __init__(self, url: str, updates: int) -> None:
        self.url, self.updates = url, updates
        self.array = reblock.create(url, shape=(LANES * ROWS, COLUMNS), dtype="<i8", chunks=(2 * ROWS, COLUMNS // 4))
        self.done = [0] * LANES
        self.tried = [0] * LANES
        self.reads = self.failures = 0
        self.torn: list[str] = []
        self._lock = threading.Lock()

    def write(self, lane: int) -> None:
        for number in range(1, self.updates + 1):
            self.tried[lane] = number
            while not self._attempt(lambda: self._update(lane, number)):  # noqa: B023 - called at once
                time.sleep(0.02)
            self.done[lane] = number

    def _update(self, lane: int, number: int) -> None:
        self.array[lane * ROWS : (lane + 1) * ROWS] = number

    def read(self, lane: int) -> None:
        while min(self.done) < self.updates and not self.torn:
            self._attempt(lambda: self._look(lane))

    def _look(self, lane: int) -> None:
        least = self.done[lane]
        found = reblock.open(self.url)[lane * ROWS : (lane + 1) * ROWS]
        most = self.tried[lane]
        with self._lock:
            self.reads += 1
        for part in np.split(found, 4, axis=1):
            if part.min() != part.max():
                self.torn.append(f"lane {lane} has a torn chunk: {np.unique(part)}")
            if not least <= part[0, 0] <= most:
                self.torn.append(f"lane {lane} is {part[0, 0]}, expected {least} to {most}")

    def _attempt(self, work: object) -> bool:
        try:
            work()  # type: ignore[operator]
        except reblock.StorageError:
            with self._lock:
                self.failures += 1
            time.sleep(0.01)
            return False
        return True


def rage(server: Server, updates: int, kills: int) -> Storm:
    storm = Storm(f"{server.url}::storm", updates)
    with ThreadPoolExecutor(2 * LANES) as threads:
        jobs = [threads.submit(work, lane) for lane in range(LANES) for work in (storm.write, storm.read)]
        for kill in range(1, kills + 1):
            while min(storm.done) < kill * updates // (kills + 1) and not any(job.done() for job in jobs):
                time.sleep(0.002)
            server.kill()
            server.start()
        for job in jobs:
            job.result()
    assert storm.torn == []
    assert storm.failures > 0, "no kill hit a statement"
    assert storm.reads > 0
    final = reblock.open(storm.url)[...]
    assert (final == updates).all()
    return storm


def test_updates_survive_a_kill_of_the_server(mortal: Server) -> None:
    rage(mortal, updates=10, kills=1)


@pytest.mark.faults
@pytest.mark.parametrize("attempt", range(5))
def test_updates_survive_kills_of_the_server(mortal: Server, attempt: int) -> None:
    """A hundred updates at least, on eight connections."""
    rage(mortal, updates=25 + attempt, kills=4)


def abandoned(server: Server, tmp_path: Path, rows: int) -> None:
    """A run that is killed after some rows, and resumed: the server has released its lock."""
    data = np.arange(600 * 500, dtype="<f8").reshape(600, 500)
    reblock.repartition(data, tmp_path / "x.zarr", chunks="20,100")
    url = f"{server.url}::abandoned{rows}"
    words = [str(tmp_path / "x.zarr"), url, "--chunks", "25,25", "--memory", "2MB", "--quiet"]
    process = subprocess.Popen([sys.executable, "-m", "reblock", "run", *words])
    folder = f"{url}/c"
    while process.poll() is None:
        with suppress(FileNotFoundError):
            if len(POSTGRES.entries(folder)) >= rows:
                break
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL, "it was faster"
    with pytest.raises(reblock.FormatError, match="no array"):
        reblock.open(url)
    end = time.monotonic() + 10
    while reblock.status(url).state == "running" and time.monotonic() < end:  # type: ignore[union-attr]
        time.sleep(0.01)
    reblock.resume(url)
    assert reblock.verify(data, url)
    assert reblock.status(url) is None


def test_a_killed_run_resumes(server: Server, tmp_path: Path) -> None:
    abandoned(server, tmp_path, rows=30)


@pytest.mark.faults
@pytest.mark.parametrize("rows", [1, 7, 50, 100, 200, 300])
def test_runs_killed_at_any_moment_resume(server: Server, tmp_path: Path, rows: int) -> None:
    abandoned(server, tmp_path, rows)


def test_a_source_that_is_updated_meanwhile_stops_the_run(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}::moving"
    reblock.repartition(np.zeros((400, 300)), url, chunks="20,100")
    array = reblock.open(url, mode="r+")
    updates = iter(range(100))

    def progress(done: int, total: int) -> None:
        if done > total // 4 and next(updates) == 0:
            array[5, 5] = 1

    job = reblock.plan(url, tmp_path / "y.zarr", chunks="50,50", memory="1MB")
    with pytest.raises(reblock.ChangedError, match="changed"):
        reblock.run(job, progress=progress)
    assert not (tmp_path / "y.zarr").exists()


def interrupted(server: Server, tmp_path: Path, percent: int) -> int:
    """A run whose server is killed on the way, and that is resumed; returns what it need not do again."""
    data = np.arange(400 * 300, dtype="<f8").reshape(400, 300)
    reblock.repartition(data, tmp_path / "x.zarr", chunks="20,100", overwrite=True)
    url = f"{server.url}::run"
    job = reblock.plan(tmp_path / "x.zarr", url, chunks="50,50", memory="2MB")
    killed = threading.Event()

    def progress(done: int, total: int) -> None:
        if done >= total * percent // 100 and not killed.is_set():
            killed.set()
            server.kill()

    with pytest.raises(reblock.StorageError, match="connection"):
        reblock.run(job, progress=progress)
    assert killed.is_set()
    server.start()
    with pytest.raises(reblock.FormatError, match="no array"):
        reblock.open(url)
    report = reblock.repartition(tmp_path / "x.zarr", url, chunks="50,50", memory="2MB")
    assert reblock.verify(data, url)
    assert reblock.status(url) is None
    return report.resumed_boxes


def test_a_run_resumes_after_a_kill_of_the_server(mortal: Server, tmp_path: Path) -> None:
    interrupted(mortal, tmp_path, percent=50)


@pytest.mark.faults
@pytest.mark.parametrize("percent", range(2, 98, 8))
def test_runs_resume_after_a_kill_at_any_moment(mortal: Server, tmp_path: Path, percent: int) -> None:
    interrupted(mortal, tmp_path, percent)
