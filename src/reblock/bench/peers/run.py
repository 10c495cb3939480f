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
from time import monotonic, sleep
from typing import IO, Any

from reblock.bench.device import evict
from reblock.bench.peers import scripts as peers
from reblock.bench.peers.contenders import Contender
from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.workloads import Workload
from reblock.errors import DiskError, StorageError

#: Cores that all contenders are held to.
CORES = 2
#: A run that takes longer is stopped, and counts as failed.
MOST_SECONDS = 1800.0
#: How often a process is looked at.
_LOOK_SECONDS = 0.02

#: How names of arrays end.
_SUFFIXES = {"npy": ".npy", "hdf5": ".h5", "zarr": ".zarr", "zarr2": ".zarr"}
_SCRIPT = os.path.join(peers.__path__[0], "__main__.py")


@dataclass(frozen=True)
class Run:
    """What came of one run."""

    seconds: float = 0.0
    """From its start, all imports done, until all is on the medium."""
    peak_bytes: int = 0
    """Most memory above what the process had at the start."""
    user_seconds: float = 0.0
    """Time of the cores in the program."""
    system_seconds: float = 0.0
    """Time of the cores in the kernel."""
    size_bytes: int = 0
    """Bytes of the output."""
    correct: bool | None = None
    """Whether the output is the array, in the chunks that were asked for; None where there is none."""
    failed: str | None = None
    """Why there is no correct output."""
    version: str = ""
    """Who ran."""


def cores() -> list[int]:
    """The cores that are used."""
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return list(mine)[:CORES]


#: How the folders of runs begin.
_RUN = "run-"


# ---------------------------------------------------------------- sources
def source_path(workload: Workload, zarr: str, folder: str) -> str:
    """Where the array of a workload lies in a folder: the same name has the same content."""
    lengths = ["x".join(map(str, part)) for part in (workload.shape, workload.source_chunks)]
    name = "-".join([*lengths, workload.dtype.strip("<"), workload.codec.replace(":", "").replace("+", "")])
    kind = zarr if workload.source_format == "zarr" else workload.source_format
    return os.path.join(folder, f"{name}-{kind}{_SUFFIXES[kind]}")


def make_source(workload: Workload, zarr: str, folder: str) -> None:
    """Make the array of a workload; it has its name only when it is complete."""
    path = source_path(workload, zarr, folder)
    kind = zarr if workload.source_format == "zarr" else workload.source_format
    with _workspace(folder) as space:
        part = os.path.join(space, f"source{_SUFFIXES[kind]}")
        job = replace(_job(workload, "make", path, part, space), source_format=kind, target_format=kind)
        ask(sys.executable, "make", job)
        os.rename(part, path)


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
def run_once(contender: Contender, python: str, workload: Workload, folder: str) -> Run:
    """Run a contender on a source that is not in the page cache, check what it made, and remove that."""
    source = source_path(workload, contender.zarr, folder)
    with _workspace(folder) as space:
        job = _own_job(contender, workload, source, space)
        os.mkdir(job.scratch)
        cool(source)
        try:
            done = ask(python, contender.module, job, contender.distributions)
        except StorageError as error:
            return Run(failed=str(error))
        empty(job.scratch)
        try:
            judged = ask(sys.executable, "verify", job)
        except StorageError as error:
            return Run(correct=False, failed=f"its output cannot be read: {error}")
    names = done["versions"] or {contender.name: done["program"]}
    return Run(
        done["seconds"],
        done["peak_bytes"],
        done["user_seconds"],
        done["system_seconds"],
        judged["size_bytes"],
        judged["correct"],
        judged["why"] or None,
        ", ".join(f"{name} {number}" for name, number in names.items()),
    )


def _own_job(contender: Contender, workload: Workload, source: str, space: str) -> Job:
    """A workload in the formats of a contender."""
    formats = [contender.zarr if one == "zarr" else one for one in (workload.source_format, workload.target_format)]
    if contender.copies:
        formats[1] = formats[0]
    target = os.path.join(space, f"target{_SUFFIXES[formats[1]]}")
    job = _job(workload, contender.name, source, target, os.path.join(space, "scratch"))
    job = replace(job, source_format=formats[0], target_format=formats[1])
    return replace(job, chunks=workload.source_chunks, shards=None) if contender.copies else job


@contextmanager
def _workspace(folder: str) -> Iterator[str]:
    """A folder for one run, empty files afterwards; nothing of it waits to be written.

    The files go when the race is over (`clear`): ext4 passes over inodes that were freed in the last minutes, one by
    one for every file that is made, so who runs after a contender with many files would pay for their removal.
    """
    space = tempfile.mkdtemp(prefix=_RUN, dir=folder)
    try:
        yield space
    finally:
        empty(space)
        os.sync()


def empty(folder: str) -> None:
    """Leave nothing in the files below a folder."""
    for base, _, names in os.walk(folder):
        for name in names:
            os.truncate(os.path.join(base, name), 0)


def clear(folder: str) -> None:
    """Remove what runs have left."""
    for name in os.listdir(folder):
        if name.startswith(_RUN):
            remove(os.path.join(folder, name))


def cool(path: str) -> None:
    """Drop an array from the page cache, once nothing of it or of anything else waits to be written."""
    os.sync()
    below = [os.path.join(base, name) for base, _, names in os.walk(path) for name in names]
    for file in below or [path]:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            evict(descriptor)
        finally:
            os.close(descriptor)


def remove(path: str) -> None:
    """Remove a file or a folder, if it is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def ask(python: str, module: str, job: Job, distributions: tuple[str, ...] = ()) -> dict[str, Any]:
    """Have a module of `reblock.bench.peers.scripts` do a job in a process of its own; what it says."""
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


def _wait(words: list[str], messages: IO[bytes]) -> int:
    """Run a process to its end; its exit code, that of an alarm if it took too long. Nothing below it stays alive."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.Popen(  # noqa: S603 - words of ours
            words, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, env=environment, start_new_session=True
        )
    except OSError as error:
        raise DiskError.wrap(error, doing="starting", path=words[0]) from error
    deadline = monotonic() + MOST_SECONDS
    try:
        # It is not waited for yet, so its number stays its own until its whole group has ended.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if monotonic() > deadline:
                return -signal.SIGALRM
            sleep(_LOOK_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return code


def _last_line(path: str, code: int) -> str:
    """Why a process failed."""
    if code == -signal.SIGALRM:
        return f"took longer than {MOST_SECONDS:.0f} seconds"
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else f"ended with {code}"
