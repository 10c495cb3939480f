"""Clusters under attack: workers are killed, schedulers restart, every format, and the memory of each worker."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import psutil
import pytest

import reblock

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

#: What a worker may take besides its budget, over its size after a warm-up task.
SPARE_BYTES = 16 << 20


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clusters") / "x.npy"
    np.save(path, np.random.default_rng(0).integers(0, 60000, (96, 100, 120), "<u2"))
    return path


TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("a.zarr", {"chunks": (16, 20, 16)}),
    ("b.zarr", {"chunks": (16, 20, 16), "codec": "zstd:1"}),
    ("c.zarr", {"chunks": (16, 20, 16), "codec": "blosc"}),
    ("d.zarr", {"chunks": (8, 10, 8), "shards": (16, 20, 16), "codec": "zstd:1"}),
    ("e.zarr", {"chunks": (16, 20, 16), "to_format": "zarr2"}),
    ("f.npy", {}),
    ("g.h5", {"chunks": (16, 20, 16), "codec": "none"}),
    ("h.h5", {"chunks": "full", "codec": "none"}),
    ("i.nc", {"chunks": (16, 20, 16), "codec": "none"}),
    ("j.nii", {}),
    ("k.tif", {"codec": "none"}),
    ("l/", {"chunks": (13, 17, 19)}),
    ("n.zarr", {"chunks": (96, 100, 1), "memory": "64KiB", "strategy": "multipass"}),
]


@pytest.mark.parametrize(("name", "wanted"), TARGETS)
def test_every_format_that_several_processes_can_write(
    volume: Path, client: Any, tmp_path: Path, name: str, wanted: dict[str, Any]
) -> None:
    wanted = {"memory": "512KiB", "device": "nvme"} | wanted
    alone = reblock.run(reblock.plan(volume, f"{tmp_path}/alone-{name}", **wanted))
    report = reblock.run(reblock.plan(volume, f"{tmp_path}/{name}", **wanted), executor=client)
    assert report.digest == alone.digest
    assert reblock.verify(f"{tmp_path}/alone-{name}", f"{tmp_path}/{name}", reader="library").equal
    assert report.tasks > 1


@contextmanager
def killing(cluster: Any, kills: int, folder: Path, files: int) -> Iterator[list[int]]:
    """Kill random workers, each time that another part of the files has been written."""
    over, killed, chance = Event(), list[int](), random.Random(0)

    def work() -> None:
        while not over.wait(0.02) and len(killed) < kills:
            if sum(len(names) for *_, names in os.walk(folder)) < files * (len(killed) + 1) / (kills + 1):
                continue
            pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid and nanny.pid not in killed]
            if pids:
                killed.append(chance.choice(pids))
                os.kill(killed[-1], signal.SIGKILL)

    thread = Thread(target=work)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_twenty_kills_in_a_job_of_five_hundred_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One share for each task, and a cluster that does not give up its workers.
    monkeypatch.setattr("reblock.model.shares.LEAST_SECONDS", 1e-6)
    monkeypatch.setattr("reblock.planner.sharing._LEAST_SECONDS", 1e-6)
    source, target = tmp_path / "x.npy", tmp_path / "a.zarr"
    np.save(source, np.random.default_rng(1).integers(0, 60000, (500, 128, 128), "<u2"))
    job = reblock.plan(source, target, chunks=(1, 128, 128), codec="zstd:9", memory="128KiB", device="nvme")
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
        killing(cluster, 20, tmp_path / ".a.zarr.reblock" / "array", 500) as killed,
    ):
        report = reblock.run(job, executor=client)
    print(f"{len(killed)} kills, {report.tasks} tasks, {report.elapsed_seconds:.1f} s")
    assert len(killed) == 20
    assert report.tasks >= 500
    assert report.digest == reblock.verify(source, target).source_digest
    assert reblock.verify(source, target, reader="library").equal
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "x.npy"]


def test_a_scheduler_that_restarts(volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run waits for it, and submits again what it has forgotten."""
    monkeypatch.setattr("reblock.model.shares.LEAST_SECONDS", 1e-6)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"

    def start(*words: str) -> subprocess.Popen[bytes]:
        quiet = subprocess.DEVNULL
        return subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=quiet, stderr=quiet)

    def start_all() -> list[subprocess.Popen[bytes]]:
        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        return [scheduler, start("worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard")]

    running = start_all()
    target = tmp_path / "a.zarr"
    restarted = Event()

    def restart() -> None:
        folder = tmp_path / ".a.zarr.reblock" / "array"
        while sum(len(names) for *_, names in os.walk(folder)) < 200:
            sleep(0.01)
        for one in reversed(running):
            one.kill()
            one.wait()
        running[:] = start_all()
        restarted.set()

    thread = Thread(target=restart, daemon=True)
    thread.start()
    try:
        job = reblock.plan(volume, target, chunks=(8, 10, 8), codec="zstd:9", memory="64KiB", device="nvme")
        until = monotonic() + 60
        while True:
            try:
                report = reblock.run(job, cluster=address)
                break
            except reblock.UsageError:  # it has not started yet
                if monotonic() > until:
                    raise
                sleep(1)
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert restarted.is_set()
    assert report.digest == reblock.verify(volume, target).source_digest


def test_dasks_own_security(volume: Path, tmp_path: Path) -> None:
    """Certificates come from Dask's settings; without them there is one clear line."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files],
        check=True,
        capture_output=True,
    )
    settings = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(certificate)}
    for who in ("CLIENT", "SCHEDULER", "WORKER"):
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{who}__CERT"] = str(certificate)
        settings[f"DASK_DISTRIBUTED__COMM__TLS__{who}__KEY"] = str(key)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address, quiet = f"tls://127.0.0.1:{port}", subprocess.DEVNULL
    program, secure = [sys.executable, "-m"], os.environ | settings
    running = [
        subprocess.Popen(
            [*program, "dask", *words, "--no-dashboard"], env=os.environ | settings, stdout=quiet, stderr=quiet
        )
        for words in (
            ("scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", port),
            ("worker", address, "--protocol", "tls", "--nworkers", "2", "--nthreads", "1"),
        )
    ]

    def run(name: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        words = ["run", str(volume), str(tmp_path / name), "--chunks", "16,20,16", "--cluster", address]
        return subprocess.run(
            [*program, "reblock", *words], env=environment, capture_output=True, text=True, check=False
        )

    try:
        until = monotonic() + 60
        while (found := run("a.zarr", secure)).returncode and monotonic() < until:
            sleep(1)
        assert found.returncode == 0, found.stderr
        refused = run("b.zarr", dict(os.environ))
        assert refused.returncode == 1
        assert "distributed.comm.tls" in refused.stderr
        assert refused.stderr.strip().count("\n") == 0
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert reblock.verify(volume, tmp_path / "a.zarr").equal
    assert not (tmp_path / "b.zarr").exists()


# ---------------------------------------------------------------- callers that are stopped or killed
def workers_below(pid: int) -> list[psutil.Process]:
    """The worker processes of a command, however they were started."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in below if "resource_tracker" not in " ".join(one.cmdline())]


def begin(volume: Path, folder: Path, *crew: str) -> subprocess.Popen[str]:
    """A command that has written some files."""
    words = ["run", str(volume), str(folder / "a.zarr"), "--chunks", "4,10,8", "--codec", "zstd:19", *crew]
    command = subprocess.Popen(
        [sys.executable, "-m", "reblock", *words, "--memory", "512KiB", "--device", "nvme"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    array = folder / ".a.zarr.reblock" / "array"
    until = monotonic() + 120
    while sum(len(names) for *_, names in os.walk(array)) < 300 and monotonic() < until and command.poll() is None:
        sleep(0.01)
    return command


@pytest.mark.parametrize("crew", [("--workers", "2"), ("--cluster", "local:2")])
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_is_stopped_stops_its_workers(
    volume: Path, tmp_path: Path, crew: tuple[str, ...], way: signal.Signals
) -> None:
    """As a terminal does it with Ctrl-C: all processes of the group get the signal."""
    command = begin(volume, tmp_path, *crew)
    began = monotonic()
    os.killpg(command.pid, way)
    _, words = command.communicate(timeout=120)
    print(f"{' '.join(crew)}, {way.name}: ended after {monotonic() - began:.1f} s")
    assert command.returncode == 130, words
    assert "Traceback" not in words
    assert "resume" in words
    finished = reblock.status(tmp_path / "a.zarr").finished_boxes
    assert finished > 200
    report = reblock.run(reblock.plan(volume, tmp_path / "a.zarr", chunks=(4, 10, 8), codec="zstd:19", memory="512KiB"))
    assert report.resumed_boxes == finished
    assert report.digest == reblock.verify(volume, tmp_path / "a.zarr").source_digest


@pytest.mark.parametrize("crew", [("--workers", "2"), ("--cluster", "local:2")])
@pytest.mark.parametrize("then", ["resume", "clean"])
def test_a_command_that_is_killed_leaves_nobody_who_writes(
    volume: Path, tmp_path: Path, crew: tuple[str, ...], then: str
) -> None:
    """Whoever takes over waits until the workers of the killed run have stopped."""
    command = begin(volume, tmp_path, *crew)
    workers = workers_below(command.pid)
    assert len(workers) >= 2
    command.kill()
    command.wait()
    command.communicate()
    done = subprocess.run(
        [sys.executable, "-m", "reblock", then, str(tmp_path / "a.zarr")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    if then == "resume":
        assert reblock.verify(volume, tmp_path / "a.zarr", reader="library").equal
    sleep(1)
    assert os.listdir(tmp_path) == (["a.zarr"] if then == "resume" else [])
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
