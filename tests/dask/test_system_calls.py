"""The judges are the kernel, and a disk that is slow to seek: few reads and writes of the big file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

from tracing import STRACE, traces

#: Short rows, for many calls; longer ones where each call is slow.
SHAPE, CHUNK, SLOW_CHUNK = (200, 200, 200), (40, 20, 20), (40, 40, 25)

#: Delays each read or write that does not follow the last one of the same file.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
static off_t last[4096];
static void seek_to(int fd, off_t at, size_t size) {
    struct timespec pause = {0, 4000000};
    if (fd < 0 || fd >= 4096) return;
    if (last[fd] != at) nanosleep(&pause, 0);
    last[fd] = at + size;
}
#define CALL(name, buffer) \
ssize_t name(int fd, buffer data, size_t size, off_t at) { \
    static ssize_t (*real)(int, buffer, size_t, off_t); \
    if (!real) real = dlsym(RTLD_NEXT, #name); \
    seek_to(fd, at, size); \
    return real(fd, data, size, at); \
}
CALL(pread, void *) CALL(pread64, void *) CALL(pwrite, const void *) CALL(pwrite64, const void *)
static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    return size;
}
ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) real = dlsym(RTLD_NEXT, "preadv64v2");
    seek_to(fd, at, total(parts, count));
    return real(fd, parts, count, at, flags);
}
"""


@pytest.fixture
def volume() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 255, SHAPE, np.uint8)


def prepare(folder: Path, job: str, volume: np.ndarray[Any, Any], chunk: tuple[int, ...] = CHUNK) -> dict[str, Any]:
    """A source and an empty target of a job."""
    big, blocks = folder / "big.h5", folder / "blocks.zarr"
    for path in (big, blocks):
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    with h5py.File(big, "w") as file:
        made = file.create_dataset("data", SHAPE, "u1")
        if job == "split":
            made[...] = volume
    stored = zarr.create_array(blocks, shape=SHAPE, dtype="u1", chunks=chunk, compressors=None)
    if job == "merge":
        stored[...] = volume
    source, target = (big, blocks) if job == "split" else (blocks, big)
    return {"source": str(source), "target": str(target), "chunks": chunk, "memory": "64MiB"}


def run(job: dict[str, Any], *before: str, **more: str) -> dict[str, Any]:
    command = [*before, sys.executable, "-m", "reblock.dask.experiment", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **more})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(folder: Path, job: str, volume: np.ndarray[Any, Any]) -> None:
    if job == "split":
        np.testing.assert_array_equal(zarr.open_array(folder / "blocks.zarr")[...], volume)
    else:
        with h5py.File(folder / "big.h5") as file:
            np.testing.assert_array_equal(file["data"][...], volume)


@traces
@pytest.mark.slow
@pytest.mark.parametrize("job", ["split", pytest.param("merge", marks=pytest.mark.faults)])
def test_a_hundred_times_fewer_calls(tmp_path: Path, volume: np.ndarray[Any, Any], job: str) -> None:
    calls = {}
    for engine in ("dask", "buffers"):
        given = prepare(tmp_path, job, volume)
        trace = tmp_path / "trace"
        names = "pread64,read,preadv,preadv2" if job == "split" else "pwrite64,write,pwritev,pwritev2"
        run({**given, "engine": engine}, str(STRACE), "-f", "-y", "-e", f"trace={names}", "-o", str(trace))
        check(tmp_path, job, volume)
        calls[engine] = len(re.findall(r"(?:read|write)\w*\(\d+<[^>]*big\.h5>", trace.read_text(errors="replace")))
    assert calls["buffers"] > 0
    assert calls["dask"] >= 100 * calls["buffers"], calls


@pytest.mark.faults
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("job", ["split", "merge"])
def test_ten_times_faster_where_seeks_are_slow(tmp_path: Path, volume: np.ndarray[Any, Any], job: str) -> None:
    source, shim = tmp_path / "shim.c", tmp_path / "shim.so"
    source.write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
    seconds = {}
    for engine in ("dask", "buffers"):
        given = prepare(tmp_path, job, volume, SLOW_CHUNK)
        seconds[engine] = run({**given, "engine": engine}, LD_PRELOAD=str(shim))["seconds"]
        check(tmp_path, job, volume)
    assert seconds["dask"] >= 10 * seconds["buffers"], seconds
