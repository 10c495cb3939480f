"""Runs by several processes: the same target, whatever dies; and refusals before anything is written."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api.dask_crew import DaskExecutor
from reblock.errors import ReblockError, UsageError
from reblock.storage.media.memory import MEMORY

DATA = np.random.default_rng(0).integers(0, 60000, (48, 60, 64), "<u2")


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as made:
        yield made


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crews") / "x.npy"
    np.save(path, DATA)
    return path


TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("a.zarr", {"chunks": (16, 20, 16), "codec": "zstd:1"}),
    ("b.npy", {}),
    ("c.h5", {"chunks": (16, 20, 16), "codec": "none"}),
    ("d.zarr", {"chunks": (8, 10, 8), "codec": "none", "shards": (16, 20, 16)}),
    ("e/", {"chunks": (13, 17, 19)}),
]


@pytest.mark.parametrize(("name", "wanted"), TARGETS)
def test_the_same_target_as_with_threads(
    source: Path, pool: Executor, tmp_path: Path, name: str, wanted: dict[str, Any]
) -> None:
    job = reblock.plan(source, f"{tmp_path}/{name}", memory="256KiB", device="nvme", **wanted)
    report = reblock.run(job, executor=pool)
    assert report.digest == reblock.verify(source, f"{tmp_path}/{name}").source_digest
    assert reblock.verify(source, f"{tmp_path}/{name}", reader="library").equal
    assert report.tasks > 1
    assert report.measured.bytes_written == report.predicted.bytes_written
    assert sorted(os.listdir(tmp_path)) == [name.strip("/")]


def test_several_passes(source: Path, pool: Executor, tmp_path: Path) -> None:
    job = reblock.plan(
        source, tmp_path / "a.zarr", chunks=(48, 60, 1), memory="64KiB", strategy="multipass", device="nvme"
    )
    assert job.plan.scratch
    assert not job.plan.interleaved
    reblock.run(job, executor=pool)
    assert np.array_equal(reblock.open(tmp_path / "a.zarr")[...], DATA)


def children() -> set[int]:
    """Workers of this process."""
    found = set()
    for one in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        found |= {int(pid) for pid in one.read_text().split()}
    return {pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_workers_that_die(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crew is renewed, and what the dead were doing is done again."""
    before = children()
    killed: list[int] = []

    def kill() -> None:
        while not (tmp_path / ".a.zarr.reblock" / "array").exists() or not (new := children() - before):
            sleep(0.001)
        killed.append(max(new))
        os.kill(killed[0], signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(8, 10, 8), codec="zstd:1", memory="256KiB", device="nvme")
    reblock.run(job, workers=2)
    killer.join()
    assert killed
    assert reblock.verify(source, tmp_path / "a.zarr").equal


class Failing(Executor):
    """Two workers that carry out some shares, and then fail."""

    num_workers = 2

    def __init__(self, shares: int) -> None:
        self.left = shares
        self.threads = ThreadPoolExecutor(2)
        self.begun: list[Any] = []

    def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Any:
        if function.__name__ == "perform":
            self.left -= 1
            if self.left < 0:
                return self.threads.submit(self._fail)
        made = self.threads.submit(function, *arguments, **more)
        self.begun.append(made)
        return made

    def _fail(self) -> None:
        wait(self.begun)
        raise reblock.StorageError("no more")


def test_a_run_that_fails_is_resumed_by_another_crew(source: Path, pool: Executor, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(8, 10, 8), codec="zstd:1", memory="256KiB", device="nvme")
    with Failing(1) as failing, pytest.raises(ReblockError, match="no more"):
        reblock.run(job, executor=failing)
    assert not (tmp_path / "a.zarr").exists()
    report = reblock.run(job, executor=pool)
    assert report.resumed_boxes > 0
    assert report.digest == reblock.verify(source, tmp_path / "a.zarr").source_digest


def test_a_dask_client(source: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, threads_per_worker=2, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        job = reblock.plan(source, tmp_path / "a.zarr", chunks=(8, 10, 8), memory="256KiB", device="nvme")
        reblock.run(job, executor=client)
    assert reblock.verify(source, tmp_path / "a.zarr").equal


def test_what_one_process_must_write_is_refused(source: Path, pool: Executor, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "a.h5", chunks=(16, 20, 16), codec="gzip:1")
    with pytest.raises(UsageError, match="only one process can write hdf5"):
        reblock.run(job, executor=pool)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 2, "cluster": "local:2"}, "one of them"),
        ({"workers": 1000}, "256"),
        ({"workers": 0}, "256"),
        ({"cluster": ""}, "tcp://HOST:PORT"),
        ({"cluster": "somewhere"}, "tcp://HOST:PORT"),
        ({"cluster": "local:many"}, "local:N"),
        ({"cluster": "tcp://127.0.0.1:9"}, "does not answer"),
        ({"executor": object()}, "Dask Client"),
    ],
)
def test_wrong_crews(
    source: Path, tmp_path: Path, options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reblock.api.crews._TIMEOUT_SECONDS", 1)
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16))
    with pytest.raises(UsageError, match=words):
        reblock.run(job, **options)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("greeting", "words"), [(b"", "does not answer"), (b"SSH-2.0-OpenSSH\r\n", "no Dask scheduler")]
)
def test_what_listens_but_is_no_scheduler(
    source: Path, tmp_path: Path, greeting: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask itself would wait for its greeting forever."""
    monkeypatch.setattr("reblock.api.crews._TIMEOUT_SECONDS", 0.5)
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16))
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            with server.accept()[0] as connection, suppress(ConnectionError):
                connection.sendall(greeting)
                connection.recv(1)

        thread = Thread(target=greet)
        thread.start()
        with pytest.raises(UsageError, match=words):
            reblock.run(job, cluster=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_a_login_in_the_address_of_a_cluster_is_not_shown(source: Path, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "a.zarr", chunks=(16, 20, 16))
    for address in ("tcp://me:secret@127.0.0.1", "me://me:secret@127.0.0.1:1"):
        with pytest.raises(UsageError, match="HOST:PORT") as caught:
            reblock.run(job, cluster=address)
        assert "secret" not in str(caught.value)


def test_a_scheduler_that_is_away_when_the_run_is_stopped() -> None:
    class Away:
        status = "closed"

        def scheduler_info(self, **_: int) -> dict[str, Any]:
            return {"workers": {}}

    with pytest.raises(KeyboardInterrupt):
        DaskExecutor(Away()).renew(lambda: True)


# ---------------------------------------------------------------- runs that are stopped
SLOW: dict[str, Any] = {"chunks": (4, 6, 8), "codec": "zstd:19", "memory": "256KiB", "device": "nvme"}


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last write of all files."""
    found = [Path(where, name) for where, _, names in os.walk(folder) for name in names]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def stop(source: Path, folder: Path, name: str = "a.zarr", after: int = 100, **crew: Any) -> tuple[Any, int]:
    """Cancel a run when some files are written; the error, and the finished boxes of its journal."""
    array = folder / f".{name}.reblock" / "array"
    job = reblock.plan(source, folder / name, **SLOW)
    with pytest.raises(KeyboardInterrupt) as caught:
        reblock.run(job, cancelled=lambda: len(files(array)) > after, **crew)
    # When the lock is released, nobody writes any more.
    before = files(folder)
    sleep(0.5)
    assert files(folder) == before
    assert sorted(os.listdir(folder / f".{name}.reblock")) == ["array", "journal", "lock"]
    return caught.value, reblock.status(folder / name).finished_boxes


def check_resumed(source: Path, target: Path | str, finished: int) -> None:
    assert finished > 0
    report = reblock.run(reblock.plan(source, target, **SLOW))
    assert report.resumed_boxes == finished
    assert report.digest == reblock.verify(source, target).source_digest


def test_a_crew_that_is_stopped(source: Path, tmp_path: Path) -> None:
    """Workers end the boxes in flight at once, and what they have finished of their shares is journalled."""
    error, finished = stop(source, tmp_path, workers=2)
    assert "resume" in str(error)
    # One share has 120 boxes, so these are parts of shares.
    written = len(files(tmp_path / ".a.zarr.reblock" / "array" / "c"))
    assert written - 4 <= finished <= written
    check_resumed(source, tmp_path / "a.zarr", finished)


def test_a_foreign_executor_that_is_stopped(source: Path, pool: Executor, tmp_path: Path) -> None:
    """It cannot be told to stop, but its workers see that the fence is gone."""
    _, finished = stop(source, tmp_path, executor=pool)
    check_resumed(source, tmp_path / "a.zarr", finished)


def test_a_dask_cluster_that_is_stopped(source: Path, tmp_path: Path, memory_folder: str) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, processes=False, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        _, finished = stop(source, tmp_path, executor=client)
        check_resumed(source, tmp_path / "a.zarr", finished)
        # A target without a fence: the workers are told.
        job = reblock.plan(source, f"{memory_folder}/a.zarr", **SLOW)
        with pytest.raises(KeyboardInterrupt):
            reblock.run(job, executor=client, cancelled=lambda: MEMORY.used_bytes(memory_folder) > DATA.nbytes // 10)
    check_resumed(source, f"{memory_folder}/a.zarr", reblock.status(f"{memory_folder}/a.zarr").finished_boxes)


def test_workers_stop_when_another_process_takes_over(source: Path, pool: Executor, tmp_path: Path) -> None:
    """Somebody has removed the fence: the run stops too, and can be resumed."""
    folder = tmp_path / ".a.zarr.reblock"

    def take_over() -> None:
        while len(files(folder)) < 100:
            sleep(0.001)
        for path in folder.glob("crew-*"):
            path.unlink()

    thief = Thread(target=take_over)
    thief.start()
    with pytest.raises(reblock.StorageError, match="was stopped, or another process has taken over"):
        reblock.run(reblock.plan(source, tmp_path / "a.zarr", **SLOW), executor=pool)
    thief.join()
    check_resumed(source, tmp_path / "a.zarr", reblock.status(tmp_path / "a.zarr").finished_boxes)
