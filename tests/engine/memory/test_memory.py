"""Peak memory is a property of the program: what the process really takes stays within the budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reblock

SCRIPT = """
import sys, threading, reblock
from reblock.storage import registry
source, target, chunks, memory, codec = sys.argv[1:]
job = reblock.plan(source, target, chunks=chunks, memory=memory, codec=codec)
# Codec libraries are loaded before the count starts.
store = job.format.create(target.rstrip("/") + ".warm", "", job.schema)
data = __import__("numpy").zeros(store.layout.object_bytes, "u1")
if store.layout.encoded:
    store.encode(data)
del data
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
report = reblock.run(job)
print(status("VmHWM") - before, report.measured.peak_bytes, report.predicted.peak_bytes)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not reset the peak here")
@pytest.mark.parametrize(
    ("target", "chunks", "memory", "codec"),
    [
        ("x.zarr", "40,200,160", "24MiB", "none"),
        ("x.zarr", "200,50,40", "16MiB", "zstd:1"),
        ("x.h5", "200,25,40", "16MiB", "shuffle+gzip:1"),
        ("x.npy", "-1,-1,-1", "8MiB", "none"),
        ("x/", "33,200,17", "12MiB", "none"),
    ],
)
def test_the_process_stays_within_the_budget(target: str, chunks: str, memory: str, codec: str, tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 999, (200, 200, 320), "u4")
    np.save(tmp_path / "seed.npy", array)
    arguments = [tmp_path / "seed.npy", f"{tmp_path}/{target}", chunks, memory, codec]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, check=True, text=True)
    taken, measured, predicted = map(int, done.stdout.split())
    budget = int(memory.removesuffix("MiB")) << 20
    assert measured <= predicted <= budget
    assert taken <= budget + (16 << 20)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not reset the peak here")
def test_so_does_one_that_takes_boxes_in_slabs(tmp_path: Path) -> None:
    """Whole boxes, two rows of them, would take 34 MiB: no budget here has room for that."""
    array = np.random.default_rng(0).integers(0, 999, (200, 200, 320), "u4")
    np.save(tmp_path / "seed.npy", array)
    source, target = tmp_path / "source.zarr", tmp_path / "target.zarr"
    reblock.repartition(tmp_path / "seed.npy", source, chunks="40,200,40")
    planned = reblock.plan(source, chunks="70,200,320", memory="28MiB", strategy="stretch")
    (sweep,) = planned.plan.passes
    assert sweep.execution.slab_axes == (0,)
    arguments = [source, target, "70,200,320", "28MiB", "none"]
    script = SCRIPT.replace("codec=codec)", "codec=codec, strategy='stretch')")
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True, text=True)
    taken, measured, predicted = map(int, done.stdout.split())
    assert measured <= predicted <= 28 << 20
    assert taken <= (28 << 20) + (6 << 20)
    assert np.array_equal(reblock.open(target)[...], array)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the kernel does not reset the peak here")
def test_so_does_one_with_very_many_boxes(tmp_path: Path) -> None:
    """Chunks of 64 bytes: what is kept of one takes more memory than its elements do."""
    array = np.random.default_rng(0).integers(0, 99, 80_000 * 64, "u1")
    np.save(tmp_path / "seed.npy", array)
    target = tmp_path / "target.zarr"
    script = SCRIPT.replace("codec=codec)", "codec=codec, shards=(64 * 20_000,))")
    arguments = [tmp_path / "seed.npy", target, "64", "16MiB", "none"]
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True, text=True)
    taken, measured, predicted = map(int, done.stdout.split())
    assert measured <= predicted <= 16 << 20
    assert taken <= (16 << 20) + (16 << 20)
    assert np.array_equal(reblock.open(target)[...], array)
