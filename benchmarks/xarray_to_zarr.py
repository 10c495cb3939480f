"""`ds.reblock.to_zarr` beside xarray's own `to_zarr`: seconds, processor seconds and peak memory on a NetCDF file.

    python benchmarks/xarray_to_zarr.py --dir DIR [--rounds 5] [--scale 1] [--memory 256MiB]

The file has four variables of 256 MiB, with deflate and shuffle. Both write the same chunks with the same codec, each
in a process of its own, with a cold file, in turns. `--scale N` divides the number of time steps by N. Every output is
opened and compared with the file by `identical`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import netCDF4
import numpy as np
import xarray
from zarr.codecs import ZstdCodec

import reblock.xarray  # noqa: F401 - registers the accessor
from reblock.bench.files import evict_array
from reblock.bench.peers.scripts.measure import measure

SHAPE = {"time": 2048, "latitude": 128, "longitude": 256}
NAMES = ("t2m", "u10", "v10", "tp")
STORED, CHUNKS = (8, 128, 256), {"time": 128, "latitude": 64, "longitude": 64}
#: Largest part of xarray's memory, and of its time.
MEMORY_BAR, TIME_BAR = 0.5, 1.0
WRITERS = ("reblock", "xarray")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True, help="folder on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--memory", default="256MiB", help="budget of reblock")
    parser.add_argument("--one", choices=WRITERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(_write(Path(options.dir), options.one, options.memory)))
        return
    found: dict[str, list[dict[str, float]]] = {writer: [] for writer in WRITERS}
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source = Path(folder, "made.nc")
        _make(source, options.scale)
        print(f"{source.stat().st_size >> 20} MiB stored, {_bytes(options.scale) >> 20} MiB of elements")
        for number in range(options.rounds + 1):
            for writer in WRITERS if number % 2 else reversed(WRITERS):
                evict_array(str(source))
                words = [sys.executable, __file__, "--dir", folder, "--one", writer, "--memory", options.memory]
                measured = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
                _check(source, Path(folder, "out.zarr"))
                if number:  # the first round warms up
                    found[writer].append(measured)
    _print(found)


def _print(found: dict[str, list[dict[str, float]]]) -> None:
    for writer, rounds in found.items():
        seconds = median(one["seconds"] for one in rounds)
        processor = median(one["user_seconds"] + one["system_seconds"] for one in rounds)
        peak = max(one["peak_bytes"] for one in rounds)
        print(f"{writer}: {seconds:.2f} s, processor {processor:.2f} s, peak {peak / 2**20:.0f} MiB")
    ours, theirs = found.values()
    memory = max(one["peak_bytes"] for one in ours) / max(one["peak_bytes"] for one in theirs)
    time = median(one["seconds"] for one in ours) / median(one["seconds"] for one in theirs)
    print(f"memory {memory:.2f} × xarray's, at most {MEMORY_BAR}: {'held' if memory <= MEMORY_BAR else 'NOT held'}")
    print(f"time {time:.2f} × xarray's, at most {TIME_BAR}: {'held' if time <= TIME_BAR else 'NOT held'}")


def _write(folder: Path, writer: str, memory: str) -> dict[str, Any]:
    target = folder / "out.zarr"
    shutil.rmtree(target, ignore_errors=True)
    with xarray.open_dataset(folder / "made.nc", engine="h5netcdf") as dataset:
        if writer == "reblock":
            how = {"chunks": CHUNKS, "codec": "zstd:3", "memory": memory}
            return measure(lambda: dataset.reblock.to_zarr(target, **how))
        encoding = {"chunks": tuple(CHUNKS.values()), "compressors": (ZstdCodec(level=3),)}
        encodings = dict.fromkeys(NAMES, encoding)
        return measure(lambda: dataset.to_zarr(target, encoding=encodings, consolidated=False))


def _check(source: Path, target: Path) -> None:
    with (
        xarray.open_dataset(source, engine="h5netcdf") as one,
        xarray.open_dataset(target, engine="zarr", consolidated=False) as two,
    ):
        for name in NAMES:
            if not one[[name]].identical(two[[name]]):
                raise SystemExit(f"{name} differs")


def _bytes(scale: int) -> int:
    return len(NAMES) * 4 * SHAPE["time"] // scale * SHAPE["latitude"] * SHAPE["longitude"]


def _make(path: Path, scale: int) -> None:
    rng = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w") as file:
        file.title = "made up"
        lengths = {**SHAPE, "time": SHAPE["time"] // scale}
        for name, length in lengths.items():
            file.createDimension(name, length)
            file.createVariable(name, "f8", (name,))[:] = np.arange(length)
        for name in NAMES:
            how: dict[str, Any] = {"compression": "zlib", "complevel": 1, "shuffle": True, "fill_value": False}
            variable = file.createVariable(name, "f4", tuple(lengths), chunksizes=STORED, **how)
            variable.units = "K"
            for start in range(0, lengths["time"], 64):
                count = min(64, lengths["time"] - start)
                noise = rng.standard_normal((count, *list(lengths.values())[1:]), dtype="f4")
                variable[start : start + count] = np.rint(noise * 300 + 20000) / 64


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    main()
