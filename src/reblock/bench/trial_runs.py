"""Trial runs: measure what a byte, a visit and a new object cost on a device, with real runs of the engine.

There are three kinds of runs. Their measurements are evaluated like those of `--device auto` (`cost/learn.py`), so the
results fit the model that uses them ::

    large.npy → chunks of 1 MiB       rates of the device, work per byte
    small.npy → chunks of 16 KiB      work and time for a new object
    chunks of 16 KiB → back.npy       work and time for a visit
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from statistics import median

import numpy as np

from reblock.api.devices import learned_samples
from reblock.api.machine import cores
from reblock.api.planning import plan_array
from reblock.api.running import run
from reblock.bench.files import evict_array
from reblock.bench.notify import Notify
from reblock.cost.learn import learned_device
from reblock.model import Device, Layout

#: The device among the subjects of measurements.
_DISK = "disk"
_LARGE_CHUNK, _SMALL_CHUNK = (64, 64, 64), (16, 16, 16)
_PLANE = (256, 256)
_MEMORY = "256MiB"
_REPEATS = 3

#: Measurements by subject and quantity.
Samples = dict[tuple[str, str], float]


def learn_from_runs(folder: str, size: int, files: int, base: Device, notify: Notify) -> Device:
    """The device with measured costs, from arrays of about `size` bytes and of `files` small files."""
    large, small, many, back = (os.path.join(folder, name) for name in ("large.npy", "small.npy", "many.zarr", "b.npy"))
    _save_array(large, size)
    _save_array(small, files * prod(_SMALL_CHUNK) * np.float32().itemsize)
    notify("runs with large chunks")
    runs = [_run(large, os.path.join(folder, f"{n}.zarr"), _LARGE_CHUNK, base) for n in range(_REPEATS)]
    layouts, known = runs[0][0], _medians([samples for _, samples in runs])
    for source, target, chunks in ((small, many, _SMALL_CHUNK), (many, back, None)):
        notify(f"a run from {os.path.basename(source)} to {os.path.basename(target)}")
        # Small chunks must not replace what large ones have measured.
        known = {**_run(source, target, chunks, _device(base, known, layouts))[1], **known}
    return _device(base, known, layouts)


def _device(base: Device, known: Samples, layouts: tuple[Layout, Layout]) -> Device:
    return learned_device(base, base.name, _DISK, lambda *key: known.get(key), layouts, cores())


def _run(
    source: str, target: str, chunks: tuple[int, ...] | None, device: Device
) -> tuple[tuple[Layout, Layout], Samples]:
    """The layouts of both sides of a job, and the measurements of a run with a cold source."""
    evict_array(source)
    job = plan_array(source, target, chunks=chunks, device=device, memory=_MEMORY)
    report = run(job)
    found = learned_samples((_DISK, _DISK), job.decision, report.passes)
    problem = job.decision.problem
    return (problem.source, problem.target), {(subject, quantity): value for subject, quantity, value in found}


def _medians(runs: Sequence[Samples]) -> Samples:
    keys = {key for run in runs for key in run}
    return {key: median(run[key] for run in runs if key in run) for key in keys}


def _save_array(path: str, size: int) -> None:
    """Save an array of about `size` bytes that no device can compress."""
    planes = max(size // prod(_PLANE) // np.float32().itemsize, 1)
    array = np.lib.format.open_memmap(path, "w+", np.float32, (planes, *_PLANE))
    for plane in range(planes):
        array[plane] = np.random.default_rng(plane).random(_PLANE, np.float32)
    array.flush()
