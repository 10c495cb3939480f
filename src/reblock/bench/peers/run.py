"""One run of a contender: a cold source, a process of its own, then a check of its output by another process."""

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

from reblock.bench.files import empty, evict_array
from reblock.bench.peers import scripts
from reblock.bench.peers.contenders import Contender
from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.workloads import Workload
from reblock.errors import DiskError, StorageError

#: Number of cores that contenders may use.
CORES = 2
#: A run that takes longer is stopped and counts as failed.
MAX_SECONDS = 1800.0
#: Interval at which a process is polled.
_POLL_SECONDS = 0.02

#: Suffixes of array names by format.
_SUFFIXES = {
    "npy": ".npy",
    "hdf5": ".h5",
    "netcdf": ".nc",
    "zarr": ".zarr",
    "zarr2": ".zarr",
    "zarrgroup": ".zarr",
    "nifti": ".nii",
    "niblocks": "",
    "tiffs": "",
}
#: Modules that import reblock.
_OURS = ("reblock", "limit")
_SCRIPT = os.path.join(scripts.__path__[0], "__main__.py")


@dataclass(frozen=True)
class RaceRun:
    """Measurements of one run."""

    seconds: float = 0.0
    """From the start, after all imports, until everything is on the device."""
    peak_bytes: int = 0
    """Peak memory above the process' size at the start."""
    user_seconds: float = 0.0
    """CPU seconds in the program."""
    system_seconds: float = 0.0
    """CPU seconds in the kernel."""
    size_bytes: int = 0
    """Size of the output."""
    correct: bool | None = None
    """Whether the output has the right elements and layout; None without an output."""
    failed: str | None = None
    """Reason why there is no correct output; None if there is one."""
    version: str = ""
    """Names and versions of what ran."""
    note: str = ""
    """A remark on the measurement."""


def cores() -> list[int]:
    """Numbers of the cores that contenders may use."""
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return list(mine)[:CORES]


#: Prefix of the folders of runs.
_RUN = "run-"


# ---------------------------------------------------------------- sources
def source_path(workload: Workload, zarr: str, folder: str) -> str:
    """Path of a workload's source in a folder; sources with the same name have the same content."""
    lengths = ["x".join(map(str, part)) for part in (workload.shape, workload.source_chunks)]
    kinds = [workload.dtype.strip("<"), workload.codec.replace(":", "").replace("+", "")]
    many = [f"{workload.variables}-variables"] if workload.variables > 1 else []
    name = "-".join([*lengths, *kinds, *many])
    kind = zarr if workload.source_format == "zarr" else workload.source_format
    return os.path.join(folder, f"{name}-{kind}{_SUFFIXES[kind]}")


def make_source(workload: Workload, zarr: str, folder: str) -> None:
    """Create the source of a workload; it gets its name when it is complete."""
    path = source_path(workload, zarr, folder)
    kind = zarr if workload.source_format == "zarr" else workload.source_format
    with _workspace(folder) as space:
        part = os.path.join(space, f"source{_SUFFIXES[kind]}")
        job = replace(_job(workload, "make", path, part, space), source_format=kind, target_format=kind)
        job = replace(job, other_codec=None)
        run_script(sys.executable, "make", job)
        os.rename(part, path)


def _job(workload: Workload, contender: str, source: str, target: str, scratch: str) -> PeerJob:
    return PeerJob(
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
        workload.target_codec,
        workload.variables,
    )


# ---------------------------------------------------------------- runs
def run_once(contender: Contender, python: str, workload: Workload, folder: str) -> RaceRun:
    """Run a contender on a cold source, check its output, and empty the output's files."""
    source = source_path(workload, contender.zarr, folder)
    with _workspace(folder) as space:
        job = _contender_job(contender, workload, source, space)
        os.mkdir(job.scratch)
        evict_array(source)
        try:
            done = run_script(python, contender.module, job, contender.distributions)
        except StorageError as error:
            return RaceRun(failed=str(error))
        empty(job.scratch)
        if contender.measures:
            return RaceRun(done["seconds"], size_bytes=done["size_bytes"], note=done["note"])
        try:
            judged = run_script(sys.executable, "verify", job)
        except StorageError as error:
            return RaceRun(correct=False, failed=f"its output cannot be read: {error}")
    names = done["versions"] or {contender.name: done["program"]}
    return RaceRun(
        done["seconds"],
        done["peak_bytes"],
        done["user_seconds"],
        done["system_seconds"],
        judged["size_bytes"],
        judged["correct"],
        judged["why"] or None,
        ", ".join(f"{name} {number}" for name, number in names.items()),
    )


def _contender_job(contender: Contender, workload: Workload, source: str, space: str) -> PeerJob:
    """The job of a workload, in the contender's formats."""
    formats = [contender.zarr if one == "zarr" else one for one in (workload.source_format, workload.target_format)]
    if contender.copies:
        formats[1] = formats[0]
    target = os.path.join(space, f"target{_SUFFIXES[formats[1]]}")
    job = _job(workload, contender.name, source, target, os.path.join(space, "scratch"))
    job = replace(job, source_format=formats[0], target_format=formats[1])
    return replace(job, chunks=workload.source_chunks, shards=None) if contender.copies else job


@contextmanager
def _workspace(folder: str) -> Iterator[str]:
    """A folder for one run; its files are emptied afterwards, and removed by `clear` when the race is over."""
    space = tempfile.mkdtemp(prefix=_RUN, dir=folder)
    try:
        yield space
    finally:
        empty(space)
        os.sync()


def clear(folder: str) -> None:
    """Remove the folders of runs."""
    for name in os.listdir(folder):
        if name.startswith(_RUN):
            remove(os.path.join(folder, name))


def remove(path: str) -> None:
    """Remove a file or a folder if it exists."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)


def run_script(python: str, module: str, job: PeerJob, distributions: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run a module of `reblock.bench.peers.scripts` in a new process; returns its measurements."""
    order = {"module": module, "job": job.to_json(), "distributions": distributions, "cores": cores()}
    # Only reblock's own scripts import the package; the others must not find it.
    start = ["-m", scripts.__name__] if module in _OURS else [_SCRIPT]
    with tempfile.TemporaryDirectory(prefix="reblock-peers-") as folder:
        paths = [os.path.join(folder, name) for name in ("order.json", "measured.json", "messages")]
        with open(paths[0], "w", encoding="utf-8") as file:
            json.dump(order, file)
        with open(paths[2], "w+b") as messages:
            code = _run_process([python, "-P", *start, *paths[:2]], messages)
            if code:
                raise StorageError(f"{job.contender}: {_failure(messages.name, code)}")
        with open(paths[1], encoding="utf-8") as file:
            measured: dict[str, Any] = json.load(file)
    return measured


def _run_process(words: list[str], messages: IO[bytes]) -> int:
    """Run a process to its end and kill its whole group; returns its exit code, or -SIGALRM if it took too long."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        process = subprocess.Popen(  # noqa: S603 - our own command
            words, stdin=subprocess.DEVNULL, stdout=messages, stderr=messages, env=environment, start_new_session=True
        )
    except OSError as error:
        raise DiskError.wrap(error, doing="starting", path=words[0]) from error
    deadline = monotonic() + MAX_SECONDS
    try:
        # WNOWAIT leaves the process a zombie, so its id cannot be reused before its group is killed.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if monotonic() > deadline:
                return -signal.SIGALRM
            sleep(_POLL_SECONDS)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    return code


def _failure(path: str, code: int) -> str:
    """The reason why a process failed: the last line of its messages."""
    if code == -signal.SIGALRM:
        return f"took longer than {MAX_SECONDS:.0f} seconds"
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else f"ended with {code}"
