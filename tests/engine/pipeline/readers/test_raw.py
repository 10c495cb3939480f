"""Small raw units are read several in one call, and whatever is out of the ordinary is read one by one."""

from __future__ import annotations

import multiprocessing
import re
import subprocess
import sys
from math import prod
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.cost.flight import batch_size, flight_bytes, readers
from reblock.engine import native
from reblock.errors import CorruptError
from tracing import STRACE, traces

#: Units of 64 KiB, some of which stick out.
SHAPE, CHUNKS, AFTER = (100, 200, 300), (32, 32, 64), (50, 64, 128)

pytestmark = pytest.mark.skipif(native.library() is None, reason="the compiled loop was not built")


@pytest.fixture(scope="module")
def array() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1000, SHAPE).astype("u1")


@pytest.fixture
def source(array: np.ndarray, tmp_path: Path) -> Path:
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", tmp_path / "source.zarr", chunks=CHUNKS, codec="none")
    return tmp_path / "source.zarr"


def run(source: Path, target: Path) -> np.ndarray:
    reblock.repartition(source, target, chunks=AFTER, memory="64MiB")
    return reblock.open(target)[...]


def chunk(source: Path, index: str) -> Path:
    found = source / "c" / index
    assert found.stat().st_size == 64 << 10
    return found


@pytest.mark.parametrize("chunks", [CHUNKS, (32, 64, 64), (64, 64, 64), (3, 200, 111)])
@pytest.mark.parametrize("suffix", [".zarr", "/"])
def test_every_size_arrives(chunks: tuple[int, ...], suffix: str, array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", f"{tmp_path}/source{suffix}", chunks=chunks)
    assert np.array_equal(run(Path(f"{tmp_path}/source{suffix}"), tmp_path / "target.zarr"), array)


def test_units_in_shards_arrive(array: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "seed.npy", array)
    reblock.repartition(tmp_path / "seed.npy", tmp_path / "source.zarr", chunks=CHUNKS, shards=(64, 64, 128))
    assert np.array_equal(run(tmp_path / "source.zarr", tmp_path / "target.zarr"), array)


def test_a_missing_unit_among_others_is_fill(source: Path, array: np.ndarray) -> None:
    chunk(source, "1/2/3").unlink()
    expected = array.copy()
    expected[32:64, 64:96, 192:256] = 0
    assert np.array_equal(run(source, source.parent / "target.zarr"), expected)


def test_a_unit_behind_a_link_is_read(source: Path, array: np.ndarray) -> None:
    file = chunk(source, "1/2/3")
    file.rename(source / "c" / "elsewhere")
    file.symlink_to(source / "c" / "elsewhere")
    assert np.array_equal(run(source, source.parent / "target.zarr"), array)


@pytest.mark.parametrize("size", [0, 4096, 65535, 65537])
def test_a_unit_of_a_wrong_size_is_named(source: Path, size: int) -> None:
    with chunk(source, "1/2/3").open("r+b") as file:
        file.truncate(size)
    with pytest.raises(CorruptError, match=r"chunk \(1,2,3\) in .*/c/1/2/3, .*" + str(size)):
        run(source, source.parent / "target.zarr")


def test_memory_is_counted_for_all_that_are_read_together(source: Path) -> None:
    job = reblock.plan(source, source.parent / "target.zarr", chunks=AFTER, memory="64MiB")
    problem, plan = job.decision.problem, job.plan
    layouts = problem.source, problem.target
    many = batch_size(plan.passes[0], layouts[0], plan.depth)
    assert many == 8
    units = many * readers(layouts[0], plan.depth, 1, many)
    how = plan.passes[0].execution
    assert (how.batch_size, how.units_in_flight, how.flight_bytes) == (many, units, units * (64 << 10))
    assert flight_bytes(plan.passes[0], *layouts, plan.depth) == units * (64 << 10)
    # Where memory is short they are single ones, and leave it to boxes that wait to be written.
    assert flight_bytes(plan.passes[0], *layouts, 8) == 8 * (64 << 10)
    assert reblock.plan(source, source.parent / "target.zarr", chunks=AFTER, memory="5MiB").plan.depth == 8


def in_child(source: Path, target: Path, expected: np.ndarray) -> None:
    sys.exit(not np.array_equal(run(source, target), expected))


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_was_forked_makes_its_own_queues(source: Path, array: np.ndarray) -> None:
    run(source, source.parent / "target.zarr")
    child = multiprocessing.get_context("fork").Process(
        target=in_child, args=(source, source.parent / "other.zarr", array)
    )
    child.start()
    child.join(60)
    assert child.exitcode == 0


@traces
@pytest.mark.parametrize(
    "trouble",
    [
        "",
        "io_setup:error=ENOSYS",
        "io_setup:error=EAGAIN",
        "io_submit:error=EAGAIN",
        "io_submit:error=EINVAL:when=2+",
        "io_getevents:error=EINTR:when=1+2",
        "io_getevents:error=EFAULT",
    ],
)
def test_what_the_system_refuses_is_read_one_by_one(trouble: str, source: Path, array: np.ndarray) -> None:
    log, target = source.parent / "log", source.parent / "target.zarr"
    log.mkdir()
    tracer = [STRACE, "-ff", "-qq", "-o", log / "calls", "-e", "trace=io_setup,io_submit,io_getevents,pread64"]
    tracer += ["-e", f"inject={trouble}"] if trouble else []
    command = [sys.executable, "-m", "reblock", "run", source, target, "--chunks", ",".join(map(str, AFTER))]
    subprocess.run([*tracer, *command], check=True, capture_output=True)
    assert np.array_equal(reblock.open(target)[...], array)
    text = "".join(file.read_text() for file in log.iterdir())
    units = prod(-(-n // c) for n, c in zip(SHAPE, CHUNKS, strict=True))
    single, asked = len(re.findall(r"pread64\(.*= 65536$", text, re.MULTILINE)), text.count("IOCB_CMD_PREAD")
    if not trouble or "EINTR" in trouble:
        assert (single, asked) == (0, units)
    elif "when" not in trouble:
        assert single == units
