"""Are predicted seconds true? Runs W1 to W6 and fifteen other jobs, and compares predicted with measured seconds.

    python benchmarks/truth.py --dir DIR [--scale 1] [--rounds 3] [--device auto|nvme|FILE] [--only W1 gzip9 ...]
                               [--json OUT.json]

With `--device auto`, before each job one *other* job runs with an empty cache: what a plan knows of the device and of
codecs is what that run has left. Sources are out of the page cache before each run, and the measured seconds end when
all is on the medium. Prints predicted over measured per job, and the median of the errors.

The bar: predictions within 25 % of the measured time, in the median over all jobs. Exit 1 if it is missed. At scale 1
the disk needs 12 GiB, at scale 2 an eighth of that; sources stay below DIR with --keep.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import reblock
from reblock.bench.files import empty, evict_array
from reblock.bench.peers.run import clear, remove
from reblock.bench.peers.workloads import WORKLOADS, Workload
from reblock.units import format_size

BAR = 0.25
PLAIN = "from reblock.cli import main; main()"
BUSY = f"from reblock.api.machine import Load; Load.crowded = lambda *_: False; {PLAIN}"
Lengths = tuple[int, ...]
SUFFIXES = {"npy": ".npy", "zarr": ".zarr", "zarr2": ".zarr", "hdf5": ".h5", "blocks": "/"}


@dataclass(frozen=True)
class Case:
    """A job: a source as it is stored, and the options of the run."""

    name: str
    shape: Lengths
    dtype: str
    source: str
    source_chunks: Lengths | None
    source_codec: str
    target: str
    chunks: Lengths | None
    codec: str | None = None
    memory: str = "256MiB"
    options: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def key(self) -> str:
        """Name of the source's file: the same name has the same content."""
        parts = ["x".join(map(str, self.shape)), self.dtype, "x".join(map(str, self.source_chunks or ("one",)))]
        codec = self.source_codec.replace(":", "").replace("+", "")
        return f"{'-'.join(parts)}-{codec}-{self.source}".replace("<", "")


CUBE = (512, 512, 512)
OTHERS = (
    Case("rows", CUBE, "<f4", "npy", None, "none", "zarr", (64, 64, 64)),
    Case("to-npy", CUBE, "<f4", "zarr", (64, 64, 64), "none", "npy", None),
    Case("zstd1", CUBE, "<f4", "zarr", (128, 128, 128), "none", "zarr", (16, 512, 512), "zstd:1"),
    Case("gzip9", (256, 256, 256), "<f4", "zarr", (64, 64, 64), "gzip:1", "zarr", (32, 128, 128), "gzip:9"),
    Case("lz4", CUBE, "<f4", "hdf5", (64, 64, 64), "gzip:4", "zarr", (128, 128, 32), "blosc:lz4:5"),
    Case("hdf5", CUBE, "<f4", "hdf5", (32, 512, 512), "none", "hdf5", (128, 64, 64), "none"),
    Case("blocks", CUBE, "<f4", "npy", None, "none", "blocks", (128, 128, 128)),
    Case("merge", CUBE, "<f4", "blocks", (128, 128, 128), "none", "npy", None),
    Case("small-in", (256, 512, 512), "<u2", "zarr", (16, 16, 16), "none", "zarr", (64, 64, 64)),
    Case("small-out", (256, 512, 512), "<u2", "zarr", (64, 64, 64), "none", "zarr", (16, 16, 16)),
    Case("transpose", CUBE, "<f4", "npy", None, "none", "npy", None, options=("--transpose", "2,1,0")),
    Case("decode", CUBE, "<f4", "zarr", (64, 64, 64), "zstd:3", "zarr", (512, 64, 32), "none"),
    Case(
        "crop", CUBE, "<f4", "zarr", (64, 64, 64), "none", "zarr", (50, 50, 200), options=("--region", "9:400,30:500,:")
    ),
    Case("halves", CUBE, "<f8", "zarr", (64, 64, 64), "none", "zarr", (32, 128, 128), options=("--dtype", "f4")),
    Case("narrow", (1024, 512, 512), "<f4", "zarr", (1024, 512, 4), "none", "zarr", (4, 512, 512), memory="48MiB"),
)


def from_workload(one: Workload) -> Case:
    shards = ("--shards", ",".join(map(str, one.shards))) if one.shards else ()
    chunks = None if one.source_format == "npy" else one.source_chunks
    return Case(
        *(one.name, one.shape, one.dtype, one.source_format, chunks, one.codec, one.target_format, one.chunks),
        memory=str(one.memory_bytes),
        options=shards,
    )


def scaled(case: Case, scale: int) -> Case:
    """The same with lengths and memory divided; chunks stay, as far as they fit."""
    if scale == 1:
        return case
    shape = tuple(max(1, length // scale) for length in case.shape)

    def cut(chunks: Lengths | None) -> Lengths | None:
        return chunks and tuple(map(min, chunks, shape))

    options = list(case.options)
    if "--region" in options:
        region = [part.split(":") for part in options[1].split(",")]
        options[1] = ",".join(":".join(str(int(n) // scale) if n else "" for n in part) for part in region)
    small = replace(case, shape=shape, source_chunks=cut(case.source_chunks), chunks=cut(case.chunks))
    memory = max(reblock_bytes(case.memory) // scale, 32 << 20)
    return replace(small, options=tuple(options), memory=str(memory))


def reblock_bytes(text: str) -> int:
    return int(text) if text.isdecimal() else int(text.removesuffix("MiB")) << 20


def cases(scale: int) -> list[Case]:
    six = [from_workload(one.scaled(scale)) for one in WORKLOADS if one.name in {f"W{n}" for n in range(1, 7)}]
    return [*six, *(scaled(case, scale) for case in OTHERS)]


# ---------------------------------------------------------------- sources
def make_source(case: Case, folder: Path) -> str:
    """A smooth field with noise, in the format of the case."""
    path = folder / (case.key + SUFFIXES[case.source].rstrip("/"))
    if not path.exists():
        plain = folder / f"{'x'.join(map(str, case.shape))}-{case.dtype.strip('<')}-plain.npy"
        if not plain.exists():
            make_plain(plain, case.shape, np.dtype(case.dtype))
        if case.source == "npy":
            os.link(plain, path)
        else:
            reblock.repartition(
                *(plain, place(path, case.source)),
                chunks=case.source_chunks,
                codec=case.source_codec,
                to_format=case.source,
                device="nvme",
            )
    return place(path, case.source)


def place(path: Path, kind: str) -> str:
    return f"{path}::/data" if kind == "hdf5" else str(path)


def make_plain(path: Path, shape: Lengths, dtype: np.dtype[Any]) -> None:
    values = np.lib.format.open_memmap(path, "w+", dtype, shape)
    for number in range(shape[0]):
        plane = np.random.default_rng(number).standard_normal(shape[1:], dtype=np.float32) * 300
        for axis, length in enumerate(shape[1:]):
            wave = np.sin(2 * np.pi * (axis + 2) * np.arange(length) / length + number / shape[0]) * 16384
            plane += wave.astype(np.float32).reshape(-1, *(1,) * (len(shape) - axis - 2))
        plane = np.rint(plane)
        values[number] = plane / 16384 if dtype.kind == "f" else plane / 4 + 32768
    values.flush()


# ---------------------------------------------------------------- runs
def run(case: Case, source: str, folder: Path, device: str, cache: Path, *, busy: bool) -> dict[str, Any]:
    """One cold run in a process of its own; its document, and the seconds of the cores."""
    # Files are emptied now and removed at the end: ext4 takes long to make files where many were just removed.
    space = Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    target = space / f"target{SUFFIXES[case.target]}".rstrip("/")
    evict_array(source.split("::", maxsplit=1)[0])
    words = [
        sys.executable,
        "-c",
        BUSY if busy else PLAIN,
        "run",
        source,
        place(target, case.target),
        "--json",
        "--quiet",
    ]
    words += ["--to", case.target, "--memory", case.memory, "--device", device, *case.options]
    words += ["--chunks", ",".join(map(str, case.chunks))] if case.chunks else []
    words += ["--codec", case.codec] if case.codec else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    empty(str(space))
    if done.returncode:
        raise SystemExit(f"{case.name}: {done.stdout or done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(done.stdout), "name": case.name, "processor_seconds": used, "load": os.getloadavg()[0]}


def teach(names: tuple[Case, ...], sources: dict[str, str], folder: Path, *, busy: bool) -> dict[str, Path]:
    """Caches as two jobs leave them: each job learns from the first, and the first from the second."""
    caches = {}
    for teacher in names:
        cache = caches[teacher.name] = folder / f"cache-{teacher.name}"
        shutil.rmtree(cache, ignore_errors=True)
        run(teacher, sources[teacher.name], folder, "auto", cache, busy=busy)
    return caches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, type=Path, help="folder on the disk to measure")
    parser.add_argument("--scale", type=int, default=1, help="divide lengths and memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto", help="auto, a preset, or a file of `reblock bench device`")
    parser.add_argument("--only", nargs="*", default=(), help="names of jobs")
    parser.add_argument("--json", help="write all documents to a file")
    parser.add_argument("--busy", action="store_true", help="learn although other processes take the cores")
    parser.add_argument("--keep", action="store_true", help="leave the sources in DIR")
    options = parser.parse_args()
    every = cases(options.scale)
    wanted = [case for case in every if not options.only or case.name in options.only]
    folder = options.dir / "reblock-truth"
    folder.mkdir(exist_ok=True)
    documents: list[dict[str, Any]] = []
    teachers = tuple(case for case in every if case.name in {"rows", "crop"})
    try:
        sources = {case.name: make_source(case, folder) for case in {*wanted, *teachers}}
        os.sync()
        for number in range(options.rounds):
            caches = teach(teachers, sources, folder, busy=options.busy) if options.device == "auto" else {}
            for case in wanted:
                with tempfile.TemporaryDirectory(dir=folder) as cache:
                    if caches:
                        teacher = next(one.name for one in teachers if one.name != case.name)
                        shutil.copytree(caches[teacher], cache, dirs_exist_ok=True)
                    made = run(case, sources[case.name], folder, options.device, Path(cache), busy=options.busy)
                documents.append({**made, "round": number})
                print(line(case, [made]), flush=True)
    finally:
        clear(str(folder))
        if not options.keep:
            remove(str(folder))
    if options.json:
        Path(options.json).write_text(json.dumps(documents))
    print("\nmedians of all rounds")
    errors = []
    for case in wanted:
        rounds = [one for one in documents if one["name"] == case.name]
        print(line(case, rounds))
        errors.append(abs(median(ratio(one) for one in rounds) - 1))
    print(f"median error {median(errors):.0%}, worst {max(errors):.0%}; the bar is {BAR:.0%}")
    sys.exit(median(errors) > BAR)


def ratio(document: dict[str, Any]) -> float:
    return float(document["cost"]["seconds"] / document["measured"]["seconds"])


def line(case: Case, rounds: list[dict[str, Any]]) -> str:
    predicted = median(one["cost"]["seconds"] for one in rounds)
    measured = median(one["measured"]["seconds"] for one in rounds)
    elapsed = median(one["elapsed_seconds"] for one in rounds)
    return (
        f"{case.name:10s} {format_size(case.nbytes):>9s} {rounds[0]['strategy']:11s} predicted {predicted:7.3f} s, "
        f"measured {measured:7.3f} s of {elapsed:7.3f} s, ratio {median(map(ratio, rounds)):5.2f}, "
        f"load {rounds[-1]['load']:.1f}"
    )


if __name__ == "__main__":
    main()
