"""One run of a contender: cold source, a process of its own, and a judge that is not reblock afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from reblock.api import peers
from reblock.api.bench_device import evict
from reblock.api.bench_peers_contenders import Contender
from reblock.api.bench_peers_workloads import Workload
from reblock.api.peers.job import Job
from reblock.errors import DiskError, StorageError

#: Cores that all contenders are held to.
CORES = 2
#: A run that takes longer is stopped, and counts as failed.
MOST_SECONDS = 1800.0

_SCRIPT = os.path.join(peers.__path__[0], "__main__.py")


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    seconds: float = 0.0
    """From its start, all imports done, until all is on the medium."""
    peak_bytes: int = 0
    """Most memory above what the process had at the start."""
    cpu_seconds: float = 0.0
    """User and system time."""
    size_bytes: int = 0
    """Bytes of the output."""
    correct: bool = False
    """Whether the output is the array, in the chunks that were asked for."""
    failed: str | None = None
    """Why there is no correct output."""
    version: str = ""
    """Who ran."""


def cores() -> list[int]:
    """The cores that are used."""
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return list(mine)[:CORES]


# ---------------------------------------------------------------- sources
def make_source(workload: Workload, zarr: str, folder: str) -> str:
    """The array of a workload in a folder, made if it is not there; the same name has the same content."""
    format = zarr if workload.source_format == "zarr" else workload.source_format
    suffix = {"npy": ".npy", "hdf5": ".h5"}.get(format, ".zarr")
    path = os.path.join(folder, f"{source_name(workload)}-{format}{suffix}")
    if not os.path.lexists(path):
        part = os.path.join(folder, f"part{suffix}")
        _remove(part)
        made = replace(_job(workload, "make", path, part, folder), source_format=format, target_format=format)
        ask(sys.executable, "make", made)
        os.rename(part, path)
    return path


def source_name(workload: Workload) -> str:
    """A name for the content of a workload's source."""
    lengths = ["x".join(map(str, part)) for part in (workload.shape, workload.source_chunks)]
    return "-".join([*lengths, workload.dtype.strip("<"), workload.codec.replace(":", "").replace("+", "")])


def _job(workload: Workload, contender: str, source: str, target: str, scratch: str) -> Job:
    return Job(
        contender,
        source,
        target,
        scratch,
        workload.source_format,
        workload.target_format,
        workload.shape,
        workload.dtype,
        workload.source_chunks,
        workload.chunks,
        workload.shards,
        workload.codec,
        workload.memory_bytes,
        len(cores()),
    )


# ---------------------------------------------------------------- runs
def run_once(contender: Contender, python: str, workload: Workload, source: str, folder: str) -> Run:
    """Run a contender on a source that is not in the page cache, check what it made, and remove that."""
    format = contender.zarr if workload.target_format == "zarr" else workload.target_format
    format = workload.source_format if contender.copies else format
    suffix = os.path.splitext(source)[1] if contender.copies else ".h5" if format == "hdf5" else ".zarr"
    with _workspace(folder) as space:
        job = _job(workload, contender.name, source, os.path.join(space, f"target{suffix}"), os.path.join(space, "s"))
        job = replace(job, target_format=format)
        if workload.source_format == "zarr":
            job = replace(job, source_format=contender.zarr)
        if contender.copies:
            job = replace(job, chunks=workload.source_chunks, shards=None)
        os.mkdir(job.scratch)
        cool(source)
        try:
            done = ask(python, contender.module, job, contender.distributions)
            shutil.rmtree(job.scratch)
            judged = ask(sys.executable, "verify", job)
        except StorageError as error:
            return Run(failed=str(error))
    names = done["versions"] or {contender.name: done.get("program", "")}
    version = ", ".join(f"{name} {number}" for name, number in names.items())
    return Run(
        done["seconds"],
        done["peak_bytes"],
        done["user_seconds"] + done["system_seconds"],
        judged["size_bytes"],
        judged["correct"],
        judged["why"] or None,
        version,
    )


@contextmanager
def _workspace(folder: str) -> Iterator[str]:
    """A folder for one run; when it is gone, nothing of it waits to be written."""
    space = tempfile.mkdtemp(prefix="run-", dir=folder)
    try:
        yield space
    finally:
        _remove(space)
        os.sync()


def cool(path: str) -> None:
    """Drop an array from the page cache, once nothing of it or of anything else waits to be written."""
    os.sync()
    files = [path] if os.path.isfile(path) else [os.path.join(base, name) for base, _, ns in os.walk(path) for name in ns]
    for file in files:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            evict(descriptor)
        finally:
            os.close(descriptor)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def ask(python: str, module: str, job: Job, distributions: tuple[str, ...] = ()) -> dict[str, Any]:
    """Have a module of `reblock.api.peers` do a job in a process of its own; what it says."""
    order = {"module": module, "job": job.to_json(), "distributions": distributions, "cores": cores()}
    # Only reblock needs reblock; for the others it must not matter what lies beside it.
    start = ["-m", peers.__name__] if module == "reblock" else [_SCRIPT]
    with tempfile.TemporaryDirectory(prefix="reblock-peers-") as folder:
        paths = [os.path.join(folder, name) for name in ("job.json", "answer.json", "messages")]
        with open(paths[0], "w", encoding="utf-8") as file:
            json.dump(order, file)
        with open(paths[2], "w+b") as messages:
            code = _wait([python, "-P", *start, *paths[:2]], messages)
            if code:
                raise StorageError(f"{job.contender}: {_last_line(messages.name, code)}")
        with open(paths[1], encoding="utf-8") as file:
            answer: dict[str, Any] = json.load(file)
    return answer


def _wait(words: list[str], messages: Any) -> int | None:
    """Run a process to its end; its exit code, None if it took too long. Nothing below it stays alive."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, env=environment, start_new_session=True
        )
    except OSError as error:
        raise DiskError.wrap(error, doing="starting", path=words[0]) from error
    try:
        return process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return -signal.SIGALRM
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(path: str, code: int) -> str:
    """Why a process failed."""
    if code == -signal.SIGALRM:
        return f"took longer than {MOST_SECONDS:.0f} seconds"
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else f"ended with {code}"
