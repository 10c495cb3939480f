"""Slicing and comparing stay inside their budgets, measured as the system counts memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import InfeasibleError

MIB = 1 << 20
#: What the interpreter and libraries take on the way, beside what is counted.
SLACK = 5 * MIB

PROGRAM = """
import gc
import numpy as np
import reblock

def high():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10

def peak(doing):
    doing()  # loads what it needs
    gc.collect()
    open("/proc/self/clear_refs", "w").write("5")
    before = high()
    doing()
    print(high() - before)
"""


def peaks(folder: Path, *calls: str) -> list[int]:
    """By how many bytes the peak of a process rises while it does something, for each of some calls."""
    program = "\n".join([PROGRAM, *(f"peak(lambda: {call})" for call in calls)])
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return [int(line) for line in done.stdout.split()]


pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak cannot be set back here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arrays of 12 MiB: in one file, in one chunk, in chunks, in shards of very many chunks."""
    folder = tmp_path_factory.mktemp("budget")
    array = np.random.default_rng(1).integers(0, 9, (1536, 8192), "u1")
    np.save(folder / "x.npy", array)
    np.save(folder / "f.npy", np.asfortranarray(array))
    source = folder / "x.npy"
    reblock.repartition(source, folder / "one.zarr", chunks=(-1, -1), codec="gzip:1")
    reblock.repartition(source, folder / "many.zarr", chunks=(256, 256), codec="zstd:1")
    reblock.repartition(source, folder / "many.h5", chunks=(192, 512), codec="gzip:1")
    reblock.repartition(source, folder / "shards.zarr", chunks=(32, 32), shards=(512, 8192))
    return folder


def test_slicing_keeps_its_budget(folder: Path) -> None:
    results = {
        ("x.npy", "[:, 5]"): 1536,
        ("f.npy", "[5]"): 8192,
        ("x.npy", "[...]"): 12 * MIB,
        ("x.npy", "[::512, ::512]"): 96,
        ("many.zarr", "[5:1500, 17]"): 1495,
        ("many.zarr", "[::3, ::5]"): 512 * 1639,
        ("many.h5", "[:, 17]"): 1536,
        ("shards.zarr", "[:, 17]"): 1536,
        ("shards.zarr", "[...]"): 12 * MIB,
    }
    found = peaks(folder, *(f"reblock.open({name!r}, memory='4MiB'){key}" for name, key in results))
    for case, size, peak in zip(results, results.values(), found, strict=True):
        assert peak <= 4 * MIB + size + SLACK, case


@pytest.mark.parametrize("reader", ["reblock", "library"])
def test_comparing_keeps_its_budget(folder: Path, reader: str) -> None:
    np.save(folder / "other.npy", np.full((1536, 8192), 77, "u1"))
    cases = ["x.npy many.zarr", "f.npy x.npy", "many.zarr many.h5", "x.npy other.npy"]
    # Shards of very many chunks take zarr-python minutes.
    cases += ["shards.zarr x.npy"] if reader == "reblock" else []
    calls = [f"reblock.verify(*{case.split()}, memory='4MiB', reader={reader!r})" for case in cases]
    for case, peak in zip(cases, peaks(folder, *calls), strict=True):
        assert peak <= 4 * MIB + SLACK, case
    assert reblock.verify(folder / "x.npy", folder / "other.npy", reader=reader).differing_elements == 1536 * 8192


def test_a_chunk_larger_than_the_budget_is_refused_with_what_would_do(folder: Path) -> None:
    with pytest.raises(InfeasibleError, match=r"chunk of 12.0 MiB .* 4.00 MiB .* needs at least") as caught:
        _ = reblock.open(folder / "one.zarr", memory="4MiB")[0, 0]
    enough = caught.value.needs_memory_bytes
    assert enough is not None
    (peak,) = peaks(folder, f"reblock.open('one.zarr', memory={enough})[0, 0]")
    assert 12 * MIB < peak <= enough + SLACK
    with pytest.raises(InfeasibleError):
        _ = reblock.open(folder / "one.zarr", memory=enough - 1)[0, 0]


@pytest.mark.parametrize("reader", ["reblock", "library"])
def test_comparing_such_chunks_too(folder: Path, reader: str) -> None:
    with pytest.raises(InfeasibleError, match="needs at least") as caught:
        reblock.verify(folder / "x.npy", folder / "one.zarr", memory="4MiB", reader=reader)
    enough = caught.value.needs_memory_bytes
    assert enough is not None
    (peak,) = peaks(folder, f"reblock.verify('x.npy', 'one.zarr', memory={enough}, reader={reader!r})")
    assert 12 * MIB < peak <= enough + SLACK
    with pytest.raises(InfeasibleError):
        reblock.verify(folder / "x.npy", folder / "one.zarr", memory=enough - 1, reader=reader)


def test_chunks_that_can_be_read_in_parts_are(folder: Path) -> None:
    reblock.repartition(folder / "x.npy", folder / "blosc.zarr", chunks=(-1, -1), codec="blosc:lz4:5:noshuffle")
    (peak,) = peaks(folder, "reblock.open('blosc.zarr', memory='8MiB')[5, :100]")
    assert peak <= 8 * MIB + SLACK


OBJECTS = """
import io, h5py, zarr
array = np.load("x.npy")
raw = np.memmap("x.raw", array.dtype, "r", shape=array.shape)
# The cache of chunks belongs to who opened the file, and is not counted.
file = h5py.File(io.BytesIO(), "w", rdcc_nbytes=0)
dataset = file.create_dataset("x", data=array, chunks=(192, 512), compression="gzip", compression_opts=1)
stored = zarr.create_array(zarr.storage.MemoryStore(), data=array, chunks=(192, 512))
del array
"""


@pytest.mark.parametrize("name", ["raw", "dataset", "stored"])
def test_objects_are_read_within_the_budget(folder: Path, name: str) -> None:
    np.load(folder / "x.npy").tofile(folder / "x.raw")
    options = "chunks=(512, 256), codec='zstd:1', memory='4MiB', overwrite=True"
    results = {
        f"reblock.repartition({name}, '{name}.zarr', {options})": 0,
        f"reblock.open({name}, memory='4MiB')[:, 17]": 1536,
        f"reblock.verify({name}, 'x.npy', memory='4MiB')": 0,
    }
    program = OBJECTS + "\n".join(f"peak(lambda: {call})" for call in results)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    for (call, size), peak in zip(results.items(), map(int, done.stdout.split()), strict=True):
        assert peak <= 4 * MIB + size + SLACK, call
