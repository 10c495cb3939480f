"""Random jobs between all formats: each is made from a number, carried out, and judged by the formats' libraries."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import reblock
from reblock.errors import InfeasibleError, ReblockError, Refused
from reblock.strategies import strategies
from sweeps.libraries import SUFFIXES, VOLUMES, Array, bits, chunk_bytes, pick_chunks, read, write

TYPES = ["?", "i1", "u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">i8", "<u8", "<f2", "<f4", ">f4", "<f8", ">f8"]
TYPES += ["<c8", "<c16", ">c16"]
#: Codecs that a target may be asked for.
CODECS = {
    "npy": ["none"],
    "nifti": ["none"],
    "nifti_gz": ["gzip:1", "gzip:6"],
    "blocks": ["none"],
    "zarr2": ["none", "zstd:1", "zlib:1", "gzip:2", "lz4", "blosc:lz4:5:shuffle", "blosc:zstd:1:bitshuffle"],
    "zarr": ["none", "zstd:1", "gzip:2", "blosc:lz4:5:bitshuffle", "blosc:zlib:2:shuffle", "zstd:3+crc32c"],
    "hdf5": ["none", "gzip:1", "shuffle+gzip:4", "lzf", "shuffle+lzf", "shuffle+gzip:1+fletcher32"],
}
#: What is predicted to the last one.
COUNTS = ("opens", "seeks", "runs", "bytes_read", "bytes_written")


@dataclass(frozen=True)
class Job:
    """A job that was made from a number."""

    source: str
    """Where the source is."""
    target: str
    """Where the result is to be."""
    options: dict[str, Any]
    """Options of the plan, the budget aside."""
    view: dict[str, Any]
    """What part of the source is taken, as `verify` wants it."""
    wanted: Array
    """What the target must hold."""


def make_job(chance: random.Random, folder: Path) -> Job:
    """A source on disk, and what to make of it."""
    ndim = chance.choice([0, 1, 1, 2, 2, 2, 3, 3, 3, 4])
    side = (1, 6000, 120, 26, 10)[ndim]
    shape = tuple(chance.randint(0 if chance.random() < 0.02 else 1, side) for _ in range(ndim))
    elements = _elements(chance, shape)
    source = write(chance, _kind(chance, elements), folder, elements)
    array = read(source)
    view: dict[str, Any] = {}
    wanted = array
    if ndim and all(shape) and chance.random() < 0.4:
        starts = [chance.randrange(n) for n in shape]
        box = tuple(slice(start, chance.randint(start + 1, n)) for start, n in zip(starts, shape, strict=True))
        view["region"], wanted = ",".join(f"{one.start}:{one.stop}" for one in box), array[box]
    if ndim > 1 and chance.random() < 0.4:
        order = chance.sample(range(ndim), ndim)
        view["transpose"], wanted = ",".join(map(str, order)), wanted.transpose(order)
    kind = _kind(chance, wanted)
    codec = chance.choice([*CODECS[kind], None])
    options: dict[str, Any] = {"codec": codec if ndim or kind != "hdf5" else None, "to_format": kind}
    options["objective"] = chance.choice(["time", "time", "seeks", "bytes", "memory"])
    options["device"] = chance.choice(["nvme", "ssd", "hdd"])
    if kind != "npy" and kind not in VOLUMES:
        options["chunks"] = tuple(max(n, 1) for n in pick_chunks(chance, wanted.shape))
    if kind == "zarr" and ndim and chance.random() < 0.4:
        options["shards"] = tuple(n * chance.randint(1, 3) for n in options["chunks"])
    target = f"{folder}/target{(SUFFIXES | VOLUMES)[kind]}" + (
        "::data" if kind == "hdf5" else "/" if kind == "blocks" else ""
    )
    return Job(source, target, options, view, wanted)


def _kind(chance: random.Random, array: Array) -> str:
    """A format that can hold an array."""
    volume = array.ndim and array.dtype.kind != "b" and array.dtype.str[1:] != "f2"
    return chance.choice([*SUFFIXES, *(VOLUMES if volume else ())])


def _elements(chance: random.Random, shape: tuple[int, ...]) -> Array:
    """Random bits, so that NaN payloads, negative zeros and subnormals occur; or few different bytes."""
    dtype = np.dtype(chance.choice(TYPES))
    most = 2 if dtype.kind == "b" else chance.choice([3, 256])
    raw = np.random.default_rng(chance.randrange(1 << 30)).integers(0, most, prod(shape) * dtype.itemsize, np.uint8)
    return raw.view(dtype).reshape(shape)


def least_memory(job: Job) -> int:
    """The smallest budget, as the refusal of a tiny one names it; that one byte less is refused is checked."""
    try:
        reblock.plan(job.source, job.target, memory=1, **job.options, **job.view)
    except InfeasibleError as error:
        least = error.needs_memory_bytes or 0
    else:
        return 1
    try:
        reblock.plan(job.source, job.target, memory=least - 1, **job.options, **job.view)
    except InfeasibleError:
        return least
    raise AssertionError(f"{least} bytes were said to be the least, but {least - 1} do")


def check_job(number: int, folder: Path) -> None:
    """Make a job, carry it out and judge it; every third has the least memory, every third any strategy."""
    chance = random.Random(f"job {number}")
    job = make_job(chance, folder)
    memory = least_memory(job) if number % 3 == 0 else chance.choice([1 << 22, 1 << 24, 1 << 30])
    report = reblock.run(_plan(chance, job, memory, by_name=number % 3 == 2))
    predicted, measured = report.predicted, report.measured
    seen = {name: (getattr(predicted, name), getattr(measured, name)) for name in COUNTS}
    assert all(one == other for one, other in seen.values()), f"predicted and measured: {seen}"
    assert measured.peak_bytes <= predicted.peak_bytes <= memory
    found = read(job.target)
    assert (found.shape, found.dtype.newbyteorder("=")) == (job.wanted.shape, job.wanted.dtype.newbyteorder("="))
    assert bits(found) == bits(job.wanted), "the library reads other elements"
    assert reblock.verify(job.source, job.target, **job.view).equal
    _check_flip(chance, job)


def _plan(chance: random.Random, job: Job, memory: int, *, by_name: bool) -> Any:
    """A plan of the best strategy, or of any that has one."""
    if by_name:
        for name in chance.sample(sorted(strategies()), 3):
            with suppress(Refused):
                return reblock.plan(job.source, job.target, memory=memory, strategy=name, **job.options, **job.view)
    return reblock.plan(job.source, job.target, memory=memory, **job.options, **job.view)


def _check_flip(chance: random.Random, job: Job) -> None:
    """One changed byte never verifies as equal, unless nothing can be told from it: padding, a codec's spare bits."""
    places = [place for place in chunk_bytes(job.target) if place[2]]
    if not places:
        return
    path, start, length = chance.choice(places)
    offset = start + chance.randrange(length)
    file = os.open(path, os.O_RDWR)
    try:
        (before,) = os.pread(file, 1, offset)
        os.pwrite(file, bytes([before ^ chance.randint(1, 255)]), offset)
    finally:
        os.close(file)
    try:
        equal = reblock.verify(job.source, job.target, **job.view).equal
    except ReblockError:
        return
    if equal:
        assert bits(read(job.target)) == bits(job.wanted), f"byte {offset} of {path} was changed, and verify says equal"
