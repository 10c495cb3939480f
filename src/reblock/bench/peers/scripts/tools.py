"""Command-line programs: cp, h5repack and nccopy, timed as whole processes."""

from __future__ import annotations

import os
import re
import resource
import subprocess
from threading import Event, Thread
from time import perf_counter
from typing import Any, Self

from reblock.bench.peers.scripts.job import AXES, DATASET, PeerJob
from reblock.bench.peers.scripts.measure import peak_of

#: Interval at which a program's peak memory is read.
_POLL_SECONDS = 0.005


def run(job: PeerJob) -> dict[str, Any]:
    """Run the program and sync."""
    words = _command(job)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = perf_counter()
    with (
        subprocess.Popen(words, stdin=subprocess.DEVNULL) as process,  # noqa: S603 - our own command
        ProcessWatch(process.pid) as watch,
    ):
        code = process.wait()
    os.sync()
    seconds = perf_counter() - began
    if code:
        raise RuntimeError(f"{words[0]} ended with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "peak_bytes": watch.peak,
        "user_seconds": after.ru_utime - before.ru_utime,
        "system_seconds": after.ru_stime - before.ru_stime,
        "program": _version(words[0]),
    }


class ProcessWatch:
    """Reads the peak memory of a process repeatedly while it runs."""

    def __init__(self, process: int) -> None:
        self.peak = 0
        self._process = process
        self._over = Event()
        self._thread = Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        over = False
        while not over:
            self.peak = max(self.peak, peak_of(self._process))
            over = self._over.wait(_POLL_SECONDS)


def _command(job: PeerJob) -> list[str]:
    if job.contender == "cp":
        return ["cp", "-r", job.source, job.target]
    if job.contender == "h5repack":
        chunks = "x".join(map(str, job.chunks))
        words = [f"--layout={DATASET}:CHUNK={chunks}", f"--filter={DATASET}:SHUF", f"--filter={DATASET}:GZIP=4"]
        return ["h5repack", *words, job.source, job.target]
    half = str(job.memory_bytes // 2)
    memory = ["-M1", "-m", half, "-h", half]
    if job.source_format == "netcdf":
        lengths = ",".join(f"{name}/{length}" for name, length in zip(AXES, job.chunks, strict=True))
        if job.target_format == "zarrgroup":
            return ["nccopy", "-c", lengths, *memory, job.source, f"file://{job.target}#mode=zarr,file"]
        return ["nccopy", "-4", "-s", "-d4", "-c", lengths, *memory, job.source, job.target]
    chunks = ",".join(map(str, job.chunks))
    return ["nccopy", "-4", "-s", "-d4", "-c", f"{DATASET}:{chunks}", *memory, job.source, job.target]


def _version(program: str) -> str:
    """A program's version, from its --version."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    found = re.search(r"(?:version|\)) (\d+\.[\w.]+)", told.stdout + told.stderr, re.IGNORECASE)
    return found[1] if found else "?"
