"""The race of the peers: fair regions, honest measures, a judge that notices. No timing is asserted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import Blosc

from reblock.bench.peers import race as bench_peers
from reblock.bench.peers import run as bench_peers_run
from reblock.bench.peers.contenders import CONTENDERS, Contender, find_contenders, find_place
from reblock.bench.peers.results import Entry, Result, machine
from reblock.bench.peers.run import Run, ask, cool, make_source, run_once, source_path
from reblock.bench.peers.scripts import h5py as h5py_peer
from reblock.bench.peers.scripts import make, tools, verify, zarr_python
from reblock.bench.peers.scripts.job import DATASET, Job
from reblock.bench.peers.scripts.measure import family, measure
from reblock.bench.peers.scripts.regions import grouped, pieces, region_lengths, regions
from reblock.bench.peers.scripts.rows import Rows
from reblock.bench.peers.workloads import WORKLOADS, Workload, find_workloads
from reblock.cli.application import application
from reblock.errors import StorageError, UsageError

BY_NAME = {workload.name: workload for workload in WORKLOADS}
HERE = {contender.name: contender for contender in CONTENDERS if not contender.packages}


def job_of(workload: Workload, **changes: Any) -> Job:
    return replace(bench_peers_run._job(workload, "test", "", "", ""), **changes)


def small(**changes: Any) -> Job:
    workload = replace(
        BY_NAME["W2"], shape=(6, 10, 8), source_chunks=(2, 10, 8), chunks=(6, 3, 4), memory_bytes=1 << 20
    )
    return job_of(workload, **changes)


# ---------------------------------------------------------------- workloads
def test_workloads_are_the_ones_of_the_bars() -> None:
    """The figures that everything is held against, once more and by hand."""
    told = {w.name: (w.nbytes, w.memory_bytes >> 20, w.bar.factor, w.bar.references) for w in WORKLOADS}
    best = ("zarrs", "tensorstore", "zarr-python")
    assert told == {
        "W1": (840**3 * 4, 1024, 0.6, ("cp",)),
        "W2": (2 << 30, 512, 0.6, ("cp",)),
        "W3": (2 << 30, 512, 0.5, best),
        "W4": (512 << 20, 512, 0.33, ("h5py", "nccopy", "h5repack")),
        "W5": (2 << 30, 512, 0.8, ("cp",)),
        "W6": (256 << 20, 128, 0.6, ("tensorstore", "zarrs")),
        "W6-shards": (256 << 20, 128, 0.6, ("tensorstore", "zarrs")),
    }
    assert BY_NAME["W6-shards"].shards == (256, 256, 256)
    assert {name for w in WORKLOADS for name in w.bar.references} <= {c.name for c in CONTENDERS}


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("scale", [1, 3, 16, 5000])
def test_a_scaled_workload_is_still_one(workload: Workload, scale: int) -> None:
    scaled = workload.scaled(scale)
    assert all(n >= 1 for part in (scaled.shape, scaled.chunks, scaled.source_chunks) for n in part)
    assert 1 << 20 <= scaled.memory_bytes <= workload.memory_bytes
    if scaled.shards:
        assert all(s % c == 0 for s, c in zip(scaled.shards, scaled.chunks, strict=True))
    assert (scaled == workload) == (scale == 1)
    with pytest.raises(UsageError, match="at least 1"):
        workload.scaled(0)


def test_workloads_by_name() -> None:
    assert [w.name for w in find_workloads(["w6-shards", "W2"])] == ["W2", "W6-shards"]
    assert find_workloads([]) == WORKLOADS
    with pytest.raises(UsageError, match=r"no workload 'W7'.*W1"):
        find_workloads(["W7"])


# ---------------------------------------------------------------- regions
@st.composite
def jobs(draw: st.DrawFn) -> Job:
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks, before = (tuple(draw(st.integers(1, n)) for n in shape) for _ in range(2))
    return small(shape=shape, chunks=chunks, source_chunks=before, dtype="<u2")


def cover(shape: tuple[int, ...], boxes: list[tuple[slice, ...]]) -> np.ndarray[Any, Any]:
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[box] += 1
    return seen


@given(jobs(), st.integers(1, 2000))
def test_regions_cover_the_array_once_and_fit(job: Job, memory: int) -> None:
    found = list(regions(job, memory))
    assert (cover(job.shape, found) == 1).all()
    for region in found:
        assert all(side.start % unit == 0 for side, unit in zip(region, job.unit, strict=True))
        size = prod(side.stop - side.start for side in region) * job.itemsize
        assert size <= max(memory, job.bytes_of(job.unit))


@given(jobs(), st.integers(1, 600))
def test_no_other_region_that_fits_reads_less(job: Job, memory: int) -> None:
    """Against every multiple of the unit, each priced by listing the chunks that its regions meet."""

    def read(lengths: tuple[int, ...]) -> int:
        sides = []
        for whole, length, chunk in zip(job.shape, lengths, job.source_chunks, strict=True):
            met = [{n // chunk for n in range(at, min(at + length, whole))} for at in range(0, whole, length)]
            sides.append(sum(min(chunk, whole - n * chunk) for group in met for n in group))
        return prod(sides)

    every = product(*(range(unit, whole + unit, unit) for whole, unit in zip(job.shape, job.unit, strict=True)))
    clipped = {tuple(min(n, whole) for n, whole in zip(one, job.shape, strict=True)) for one in every}
    fitting = [one for one in clipped if job.bytes_of(one) <= memory]
    if fitting:
        assert read(region_lengths(job, memory)) == min(read(one) for one in fitting)


def test_regions_of_slices_into_pencils() -> None:
    job = job_of(BY_NAME["W2"])
    assert region_lengths(job, 400 << 20) == (2048, 96, 512)
    assert region_lengths(job, 1) == (2048, 32, 32)
    assert region_lengths(job_of(BY_NAME["W5"]), 256 << 20) == (4096, 8192)


@given(jobs(), st.integers(1, 600), st.integers(1, 600))
def test_pieces_cover_a_region_once_between_chunks(job: Job, memory: int, most: int) -> None:
    region = list(regions(job, memory))[-1]
    found = list(pieces(job, region, most))
    np.testing.assert_array_equal(cover(job.shape, found), cover(job.shape, [region]))
    for piece in found:
        met = [
            min(-(-side.stop // chunk) * chunk, whole) - side.start // chunk * chunk
            for side, chunk, whole in zip(piece, job.source_chunks, job.shape, strict=True)
        ]
        assert prod(met) * job.itemsize <= max(most, job.bytes_of(job.source_chunks))
        for side, outer, chunk in zip(piece, region, job.source_chunks, strict=True):
            assert side.start % chunk == 0 or side.start == outer.start
            assert side.stop % chunk == 0 or side.stop == outer.stop


@given(jobs(), st.integers(1, 600))
def test_groups_are_whole_chunks(job: Job, most: int) -> None:
    lengths = grouped(job, most)
    for length, chunk, whole in zip(lengths, job.source_chunks, job.shape, strict=True):
        assert length % chunk == 0 or length == whole
    assert job.bytes_of(lengths) <= max(most, job.bytes_of(job.source_chunks))


# ---------------------------------------------------------------- sources
def test_a_source_does_not_depend_on_how_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    job = small(shape=(7, 5, 4), source_chunks=(2, 5, 4))
    at_once = np.concatenate([values for _, values in make.slabs(job)])
    monkeypatch.setattr(make, "SLAB_BYTES", 1)
    parts = list(make.slabs(job))
    assert [planes.start for planes, _ in parts] == [0, 2, 4, 6]
    np.testing.assert_array_equal(np.concatenate([values for _, values in parts]), at_once)
    other = np.concatenate([values for _, values in make.slabs(replace(job, seed=1))])
    assert (other != at_once).any()
    assert len(np.unique(at_once)) > at_once.size // 2


def test_sources_compress_as_data_does() -> None:
    """Neither noise nor zeros: about half is left."""
    job = job_of(BY_NAME["W3"], shape=(64, 512, 512))
    values = np.stack([make._plane(job, number) for number in range(64)])
    for chunk in (values[0], values[:, :32, :32]):
        stored = Blosc("zstd", 3, Blosc.SHUFFLE).encode(np.ascontiguousarray(chunk))
        assert 1.5 < chunk.nbytes / len(stored) < 2.5


def test_integers_do_not_wrap() -> None:
    job = job_of(BY_NAME["W6"], shape=(4, 64, 64))
    plane = make._plane(job, 0).astype(int)
    assert np.abs(np.diff(plane, axis=0)).max() < 1 << 13


def test_rows_are_those_of_the_file(tmp_path: Path) -> None:
    array = np.arange(60, dtype="<f8").reshape(5, 4, 3)
    np.save(tmp_path / "x.npy", array)
    rows = Rows(str(tmp_path / "x.npy"))
    assert (rows.shape, rows.dtype, rows.ndim) == (array.shape, array.dtype, 3)
    for box in [(slice(1, 4), slice(0, 4), slice(1, 2)), (slice(4, 5), slice(2, 4)), (slice(0, 5),)]:
        np.testing.assert_array_equal(rows[box], array[box])


# ---------------------------------------------------------------- the judge
@pytest.fixture
def copied(tmp_path: Path) -> Job:
    """A zarr source, and a right copy of it in other chunks."""
    source, target = str(tmp_path / "source.zarr"), str(tmp_path / "target.zarr")
    make.run(small(target=source))
    job = small(source=source, target=target)
    zarr_python.copy(job, 2)
    return job


def test_a_right_copy_is_right(copied: Job) -> None:
    found = verify.run(copied)
    files = [path for path in Path(copied.target).rglob("*") if path.is_file()]
    assert found == {"correct": True, "why": "", "size_bytes": sum(path.stat().st_size for path in files)}


def test_a_wrong_element_is_found(copied: Job) -> None:
    array = zarr.open_array(copied.target, mode="r+")
    array[5, 9, 7] = array[5, 9, 7] + 1
    assert verify.run(copied)["why"] == "the element at 5,9,7 differs"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"chunks": (6, 10, 8)}, "chunks is (6, 3, 4), not (6, 10, 8)"),
        ({"shards": (6, 6, 8)}, "shards is None, not (6, 6, 8)"),
        ({"codec": "blosc:zstd:3"}, "codec is none, not blosc:zstd:3"),
        ({"dtype": ">f4"}, "dtype is float32, not >f4"),
    ],
)
def test_another_layout_than_asked_for_is_wrong(copied: Job, asked: dict[str, Any], why: str) -> None:
    assert verify.run(replace(copied, **asked))["why"] == why


@pytest.mark.parametrize("format", ["zarr", "zarr2"])
def test_codecs_are_told_apart(tmp_path: Path, format: str) -> None:
    path = str(tmp_path / "x.zarr")
    job = small(source=path, source_format=format, target=path, target_format=format, codec="blosc:zstd:3")
    make.run(job)
    assert verify.run(replace(job, chunks=job.source_chunks))["correct"]
    assert "codec is blosc:zstd:3, not none" in verify.run(replace(job, codec="none"))["why"]


def test_hdf5_is_judged_too(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source.h5"), str(tmp_path / "target.h5")
    job = small(source=source, target=target, source_format="hdf5", target_format="hdf5", codec="shuffle+gzip:4")
    make.run(replace(job, target=source))
    h5py_peer.copy(job)
    assert verify.run(job)["correct"]
    with h5py.File(target, "r+") as file:
        file[DATASET][0, 0, 0] += 1
    assert verify.run(job)["why"] == "the element at 0,0,0 differs"
    with h5py.File(target, "w") as file:
        file.create_dataset(DATASET, shape=job.shape, dtype=job.dtype, chunks=job.chunks)
    assert "codec is None:None, not shuffle+gzip:4" in verify.run(job)["why"]


# ---------------------------------------------------------------- measures
def test_memory_and_time_of_a_copy() -> None:
    """Memory that is given back before the end counts; what was there before does not."""
    kept = np.ones(32 << 20, np.uint8)

    def copy() -> None:
        np.ones(64 << 20, np.uint8)
        time.sleep(0.01)

    found = measure(copy)
    assert found["seconds"] >= 0.01
    # The kernel adds pages up a few at a time.
    assert 60 << 20 <= found["peak_bytes"] < 90 << 20
    assert found["user_seconds"] + found["system_seconds"] > 0
    assert kept[-1] == 1


def test_processes_below_count() -> None:
    code = "import sys\nfor line in sys.stdin:\n    x = b'x' * (48 << 20)\n    print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        assert {os.getpid(), process.pid} <= set(family())

        def copy() -> None:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.readline()

        assert measure(copy)["peak_bytes"] >= 44 << 20
        process.stdin.close()
    assert process.pid not in set(family())


def test_programs_are_watched(tmp_path: Path) -> None:
    # Large enough for the copy to last longer than it takes to look.
    (tmp_path / "x").write_bytes(bytes(64 << 20))
    found = tools.run(small(contender="cp", source=str(tmp_path / "x"), target=str(tmp_path / "y")))
    assert (tmp_path / "y").stat().st_size == 64 << 20
    assert 0 < found["peak_bytes"] < 16 << 20
    assert found["program"][0].isdigit()
    with pytest.raises(RuntimeError, match="cp ended with 1"):
        tools.run(small(contender="cp", source=str(tmp_path / "no"), target=str(tmp_path / "z")))


@pytest.mark.skipif(shutil.which("fincore") is None, reason="fincore is not installed")
def test_a_cool_source_is_not_in_the_page_cache(tmp_path: Path) -> None:
    def cached() -> int:
        words = ["fincore", "--bytes", "--noheadings", "--output", "RES", tmp_path / "x" / "y"]
        return int(subprocess.run(words, capture_output=True, check=True, text=True).stdout)

    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "y").write_bytes(bytes(1 << 20))
    if not cached() or "tmpfs" in str(machine(str(tmp_path))["file_system"]):
        pytest.skip("this file system has no page cache to drop")
    cool(str(tmp_path / "x"))
    assert cached() == 0


# ---------------------------------------------------------------- processes
def test_a_failure_has_its_reason(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"test: FileNotFoundError: .*nowhere"):
        ask(sys.executable, "h5py", small(source=str(tmp_path / "nowhere"), target=str(tmp_path / "x.h5")))


def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_peers_run, "MOST_SECONDS", 0.05)
    with pytest.raises(StorageError, match="took longer than"):
        ask(sys.executable, "verify", small(source=str(tmp_path), target=str(tmp_path)))


def test_modules_need_no_reblock_around_them(tmp_path: Path) -> None:
    """As in a peer's own environment: the script is run by its path, and finds its own modules only."""
    job = small(target=str(tmp_path / "x.npy"), target_format="npy")
    order = {"module": "make", "job": job.to_json(), "distributions": ["numpy"], "cores": [0]}
    (tmp_path / "order.json").write_text(json.dumps(order | {"cores": bench_peers_run.cores()}))
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['', {str(tmp_path / 'order.json')!r}, {str(tmp_path / 'answer.json')!r}]\n"
        f"runpy.run_path({bench_peers_run._SCRIPT!r}, run_name='__main__')\n"
        "assert not hasattr(sys.modules['reblock'], '__version__')\n"
        "assert 'reblock.engine' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    assert json.loads((tmp_path / "answer.json").read_text())["versions"] == {"numpy": np.__version__}
    assert np.load(tmp_path / "x.npy").shape == job.shape


def test_a_wrong_output_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A contender that copies where other chunks are wanted."""
    workload = BY_NAME["W4"].scaled(64)
    make_source(workload, "zarr", str(tmp_path))
    run = run_once(replace(HERE["cp"], copies=False), sys.executable, workload, str(tmp_path))
    assert not run.correct
    assert run.failed
    assert "chunks is" in run.failed
    assert not any(path.stat().st_size for path in tmp_path.glob("run-*/**/*") if path.is_file())
    bench_peers_run.clear(str(tmp_path))
    assert os.listdir(tmp_path) == [os.path.basename(source_path(workload, "zarr", str(tmp_path)))]


def test_an_output_that_cannot_be_read_is_wrong(tmp_path: Path) -> None:
    workload = BY_NAME["W5"].scaled(64)
    make_source(workload, "zarr", str(tmp_path))
    run = run_once(replace(HERE["cp"], copies=False), sys.executable, workload, str(tmp_path))
    assert run.correct is False
    assert run.failed
    assert "cannot be read" in run.failed


# ---------------------------------------------------------------- contenders
def test_contenders_by_name() -> None:
    assert [c.name for c in find_contenders("zarrs, cp")] == ["reblock", "cp", "zarrs"]
    assert find_contenders(None) == CONTENDERS
    with pytest.raises(UsageError, match="no contender 'rsync'"):
        find_contenders("cp,rsync")


def test_who_can_do_what() -> None:
    able = {w.name: [c.name for c in CONTENDERS if c.unable(w) is None] for w in WORKLOADS}
    zarr_peers = ["zarr-python", "zarrs", "tensorstore", "dask", "dask-p2p", "rechunker", "cubed"]
    assert able["W1"] == ["reblock", "cp", *zarr_peers]
    assert able["W4"] == ["reblock", "cp", "h5py", "h5repack", "nccopy"]
    assert "rechunker" not in able["W6-shards"]
    for contender in CONTENDERS:
        assert (Path(bench_peers_run._SCRIPT).parent / f"{contender.module}.py").exists()


def test_a_program_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    contender = Contender("x", "tools", ("hdf5",), program="no-such-program", debian="no-package")
    place = find_place(contender, str(tmp_path), lambda _: None)
    assert place.missing == "no-such-program is not on the path (Debian has it in no-package)"


def wheel(folder: Path) -> str:
    """A package that pip installs without asking anyone."""
    path = folder / "tiny_peer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_peer.py", "")
        archive.writestr("tiny_peer-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.0\n")
        archive.writestr(
            "tiny_peer-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_peer-1.0.dist-info/RECORD", "")
    return str(path)


@pytest.mark.faults
def test_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    peer = Contender("tiny", "tiny", ("zarr",), ("tiny-peer",), (wheel(tmp_path),))
    monkeypatch.setattr("reblock.bench.peers.contenders.CONTENDERS", (peer,))
    home = tmp_path / "peers"
    place = find_place(peer, str(home), told.append)
    assert place.missing is None
    subprocess.run([place.python, "-c", "import tiny_peer"], check=True)
    assert find_place(peer, str(home), told.append) == place
    assert len(told) == 1
    other = replace(peer, packages=(str(tmp_path / "no-such.whl"),))
    monkeypatch.setattr("reblock.bench.peers.contenders.CONTENDERS", (other,))
    missing = find_place(other, str(home), told.append).missing
    assert missing
    assert "could not be installed: " in missing
    assert len(told) == 2
    shutil.rmtree(home / "tiny")
    (home / "tiny").mkdir()
    (home / "tiny" / "thesis.txt").write_text("mine")
    with pytest.raises(UsageError, match="is no environment"):
        find_place(other, str(home), told.append)
    assert os.listdir(home / "tiny") == ["thesis.txt"]


# ---------------------------------------------------------------- results
def entry(name: str, *seconds: float, size: int = 100, correct: bool = True) -> Entry:
    runs = [Run(second, 7, 1.0, 0.5, size, correct, None if correct else "wrong", "v1") for second in (99.0, *seconds)]
    return Entry(name, tuple(runs))


def test_medians_ratios_and_bars() -> None:
    result = Result(
        BY_NAME["W1"], (entry("reblock", 1, 9, 2), entry("cp", 5, 4, 3), Entry("zarrs", skipped="not here"))
    )
    assert [result.ratio(one) for one in result.entries] == [0.5, 1.0, None]
    assert result.bar_met is True
    assert result.failures == 0
    assert Result(BY_NAME["W1"], (entry("reblock", 2.5), entry("cp", 4))).bar_met is False
    assert Result(BY_NAME["W1"], (entry("reblock", 2.5), entry("zarrs", 9))).bar_met is None
    document = result.to_json()
    assert document["contenders"][0]["median_seconds"] == 2
    assert document["contenders"][2]["skipped"] == "not here"
    text = result.to_table().to_text()
    assert "zarrs skipped: not here" in text
    assert "at most 0.6 × the time of cp" in text


def test_the_best_reference_counts() -> None:
    result = Result(BY_NAME["W3"], (entry("reblock", 2), entry("zarrs", 5), entry("tensorstore", 3)))
    assert result.reference_seconds == 3
    assert result.bar_met is False


def test_size_is_part_of_the_bar() -> None:
    def met(size: int) -> bool | None:
        return Result(BY_NAME["W4"], (entry("reblock", 1, size=size), entry("h5py", 9))).bar_met

    assert (met(105), met(106)) == (True, False)
    assert Result(BY_NAME["W4"], (entry("reblock", 1), entry("nccopy", 9))).bar_met is None


def test_a_wrong_contender_has_no_time() -> None:
    result = Result(BY_NAME["W1"], (entry("reblock", 1, correct=False), entry("cp", 5)))
    assert (result.failures, result.bar_met, result.entries[0].seconds) == (1, False, None)
    assert "reblock failed: wrong" in result.to_table().to_text()


def test_a_peer_may_give_up_and_we_may_not() -> None:
    gave_up = (Run(failed="needs more memory"),)
    theirs = Result(BY_NAME["W1"], (entry("reblock", 1), entry("cp", 5), Entry("cubed", gave_up)))
    assert (theirs.failures, theirs.bar_met, theirs.entries[2].correct) == (0, True, None)
    assert "cubed failed: needs more memory" in theirs.to_table().to_text()
    ours = Result(BY_NAME["W1"], (Entry("reblock", gave_up), entry("cp", 5)))
    assert (ours.failures, ours.bar_met) == (1, False)


def test_the_machine_is_named(tmp_path: Path) -> None:
    told = machine(str(tmp_path))
    assert told["cores"] == len(bench_peers_run.cores()) <= 2
    assert told["memory_bytes"] > 1 << 28
    assert told["processor"]
    assert told["file_system"]


# ---------------------------------------------------------------- the command
def call(*words: object) -> Any:
    return CliRunner().invoke(application, ["bench", "peers", *map(str, words)])


def test_the_command(tmp_path: Path) -> None:
    output = tmp_path / "race.json"
    words = ["W4", "--scale", "64", "--repeat", "1", "--only", "cp", "--dir", tmp_path, "--output", output, "--check"]
    result = call(*words)
    assert result.exit_code == 0, result.output
    assert "bar: reblock in at most 0.33" in result.stdout
    assert "round 1 of 1: reblock" in result.stderr
    document = json.loads(output.read_text())
    assert document["failures"] == document["bars_missed"] == 0
    (workload,) = document["workloads"]
    assert [one["name"] for one in workload["contenders"]] == ["reblock", "cp"]
    for one in workload["contenders"]:
        assert one["correct"]
        assert one["size_bytes"] > 0
        assert len(one["seconds"]) == 1
    assert os.listdir(tmp_path) == ["race.json"]


@pytest.mark.faults
def test_every_workload_with_the_peers_that_are_here(tmp_path: Path) -> None:
    words = ["--scale", "32", "--repeat", "1", "--only", ",".join(HERE), "--dir", tmp_path, "--keep", "--json"]
    document = json.loads(call(*words).stdout)
    assert [one["name"] for one in document["workloads"]] == list(BY_NAME)
    for workload in document["workloads"]:
        for one in workload["contenders"]:
            assert one["skipped"] or one["correct"], (workload["name"], one)
    kept = os.listdir(tmp_path / "reblock-peers")
    # W6 has one source for both of its targets.
    assert len(kept) == len(WORKLOADS) - 1
    before = {name: (tmp_path / "reblock-peers" / name).stat().st_mtime_ns for name in kept}
    again = call("W2", "--scale", "32", "--repeat", "1", "--only", "cp", "--dir", tmp_path)
    assert again.exit_code == 0
    assert "making" not in again.stderr
    assert {name: (tmp_path / "reblock-peers" / name).stat().st_mtime_ns for name in kept} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["W9"], "no workload 'W9'"),
        (["--only", "cp,tar"], "no contender 'tar'"),
        (["--repeat", 0], "at least one round"),
        (["--scale", 0], "at least 1"),
        (["--output", "nowhere/x.json"], "no such folder"),
        (["--output", __file__], "is no result of a race"),
    ],
)
def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[object], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = call(*words, "--dir", tmp_path)
    assert result.exit_code == 1
    assert message in result.stderr
    assert os.listdir(tmp_path) == []


def test_room_is_looked_for_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_peers.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))
    result = call("W1", "--only", "cp", "--dir", tmp_path)
    assert result.exit_code == 1
    assert "W1 needs 8.83 GiB" in result.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("words", "code"), [([], 0), (["--check"], 1)])
def test_a_missed_bar_counts_when_asked(monkeypatch: pytest.MonkeyPatch, words: list[str], code: int) -> None:
    missed = Result(BY_NAME["W1"], (entry("reblock", 9), entry("cp", 1)))
    monkeypatch.setattr(bench_peers, "race", lambda *_, **__: (one for one in [missed]))
    assert call(*words).exit_code == code


def test_a_wrong_output_always_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Result(BY_NAME["W1"], (entry("reblock", 1), entry("cp", 9, correct=False)))
    monkeypatch.setattr(bench_peers, "race", lambda *_, **__: (one for one in [wrong]))
    result = call("--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["failures"] == 1


@pytest.mark.faults
def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C while a contender runs: it ends, and nothing stays behind."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reblock.cli import main; main()"
    )
    words = ["bench", "peers", "W6", "--scale", "8", "--only", "zarr-python", "--dir", str(tmp_path), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("reblock-peers/run-*/target.zarr")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert json.loads(out)["error"]["type"] == "Interrupted"
    assert os.listdir(tmp_path) == []
