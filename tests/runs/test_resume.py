"""Runs that stop and go on: what is found again, what is refused, and what is looked at twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from cases import find_journal
from reblock.engine import Report
from reblock.errors import ChangedError, DiskError, LockedError, TargetExistsError, UnfinishedError, UsageError
from reblock.model import Plan
from reblock.runs.scratch import scratch_schema
from reblock.runs.staging import Staging
from reblock.storage import registry

#: Target and options, with a digest or without.
FORMATS: dict[str, dict[str, Any]] = {
    "y.npy": {"transpose": "0,2,1"},
    "y/": {"chunks": "8,8,8"},
    "y.zarr": {"chunks": "8,8,8", "codec": "zstd:1"},
    "s.zarr": {"chunks": "4,8,8", "shards": "8,8,8"},
    "c.zarr": {"chunks": "4,8,8", "shards": "8,8,8", "codec": "zstd:1"},
    # A shard that memory does not hold.
    "l.zarr": {"chunks": "4,8,8", "shards": "32,40,24"},
    "y.h5": {"chunks": "8,8,8"},
    "z.h5": {"chunks": "8,8,8", "codec": "gzip:1"},
    "l.h5": {"chunks": "8,8,8", "codec": "lzf"},
}
MEMORY = "64KiB"


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(1).integers(0, 2**32, (32, 40, 24), "u4")
    np.save("x.npy", bits)
    return bits


def start(target: str, *, at: float = 0.5, digest: bool = True, scratch: str | None = None, **options: Any) -> None:
    """A run that is stopped when a part of it is done."""
    job = reblock.plan(**{"source": "x.npy", "target": target, "memory": MEMORY, **options})
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= at * whole:
            enough.set()
            # What is in flight may be all the rest, and then a run that is cancelled is complete.
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
        reblock.run(job, progress=progress, cancelled=enough.is_set, digest=digest, scratch=scratch)


def finish(target: str, **options: Any) -> Report:
    """The same again, to its end; the result is right and nothing else is left."""
    report = reblock.repartition(**{"source": "x.npy", "target": target, "memory": MEMORY, **options})
    expected = np.load("x.npy")
    if "transpose" in options:
        expected = expected.transpose([int(axis) for axis in options["transpose"].split(",")])
    assert np.array_equal(reblock.open(target)[...], expected)
    kept = {"x.npy", options.get("source", "x.npy"), *({"scratch"} if "scratch" in options else ())}
    assert sorted(os.listdir()) == sorted({*kept, target.rstrip("/")})
    return report


def built(target: str) -> Path:
    """What is being built of a target."""
    return Path(Staging(target).workspace.array)


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize("target", FORMATS)
def test_every_format_goes_on(target: str, digest: bool) -> None:
    options = FORMATS[target]
    start(target, digest=digest, **options)
    assert not os.path.exists(target)
    found = reblock.status(target)
    assert found is not None
    assert (found.state, found.running) == ("stopped", None)
    assert 0 < found.finished_boxes < found.boxes
    report = finish(target, digest=digest, **options)
    assert report.resumed_boxes == found.finished_boxes
    assert report.write_boxes + report.resumed_boxes == found.boxes
    assert not any("done again" in note or "made again" in note for note in report.notes)
    assert (report.digest is not None) == digest
    assert reblock.status(target) is None


def test_the_digest_is_that_of_a_run_that_was_never_stopped() -> None:
    whole = reblock.repartition("x.npy", "once/", chunks="8,8,8", memory=MEMORY).digest
    start("y/", chunks="8,8,8")
    digest = reblock.repartition("x.npy", "y/", chunks="8,8,8", memory=MEMORY).digest
    assert digest is not None
    assert digest == whole


# ---------------------------------------------------------------- what is refused
def test_another_problem_is_refused(source: np.ndarray[Any, Any]) -> None:
    start("y/", chunks="8,8,8")
    before = {str(path): path.stat().st_mtime_ns for path in Path().rglob("*") if path.name != "lock"}
    np.save("other.npy", source)
    os.rename("x.npy", "moved.npy")
    os.link("moved.npy", "x.npy")
    others: dict[str, Callable[[], object]] = {
        "target.chunks was": lambda: reblock.repartition("x.npy", "y/", chunks="8,8,4", memory=MEMORY),
        "of memory": lambda: reblock.repartition("x.npy", "y/", chunks="8,8,8", memory="20KiB"),
        "region": lambda: reblock.repartition("x.npy", "y/", chunks="8,8,8", memory=MEMORY, region="0:8,:,:"),
        "reads .*x.npy": lambda: reblock.repartition("other.npy", "y/", chunks="8,8,8", memory=MEMORY),
        "strategy": lambda: reblock.repartition("x.npy", "y/", chunks="8,8,8", memory="1MiB", strategy="baseline"),
        "target.format": lambda: reblock.repartition(
            "x.npy", "y/", chunks="8,8,8", memory=MEMORY, to_format="rawblocks"
        ),
    }
    for says, other in others.items():
        with pytest.raises(UnfinishedError, match=rf"(?s){says}.*reblock.clean\('y"):
            other()
    for name in ("moved.npy", "other.npy"):
        os.unlink(name)
    assert {path: Path(path).stat().st_mtime_ns for path in before} == before
    finish("y/", chunks="8,8,8")


def test_a_source_that_changed_since_is_refused(source: np.ndarray[Any, Any]) -> None:
    start("y/", chunks="8,8,8")
    np.save("x.npy", source + 1)
    with pytest.raises(ChangedError, match=r"changed since .*reblock.clean\('y"):
        reblock.repartition("x.npy", "y/", chunks="8,8,8", memory=MEMORY)
    assert reblock.clean("y/")
    finish("y/", chunks="8,8,8")


@pytest.mark.parametrize("target", ["y/", "y.npy"])
def test_a_source_that_changes_during_the_run_stops_it(target: str) -> None:
    job = reblock.plan("x.npy", target, memory=MEMORY, **FORMATS[target])
    file = os.open("x.npy", os.O_WRONLY)

    def progress(done: int, whole: int) -> None:
        os.pwrite(file, b"!", 5000)

    with pytest.raises(ChangedError, match=r"x\.npy"):
        reblock.run(job, progress=progress)
    os.close(file)
    assert not os.path.exists(target)


def test_one_run_at_a_time() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def progress(done: int, whole: int) -> None:
        begun.set()
        go_on.wait(60)

    job = reblock.plan("x.npy", "y/", chunks="8,8,8", memory=MEMORY)
    first = threading.Thread(target=reblock.run, args=(job,), kwargs={"progress": progress})
    first.start()
    begun.wait(60)
    found = reblock.status("y/")
    assert found is not None
    assert found.state == "running"
    assert f"process {os.getpid()} " in str(found.running)
    for refused in (lambda: reblock.run(job), lambda: reblock.clean("y/")):
        with pytest.raises(LockedError, match=f"process {os.getpid()} "):
            refused()
    go_on.set()
    first.join(60)
    assert np.array_equal(reblock.open("y/")[...], np.load("x.npy"))
    with pytest.raises(TargetExistsError):
        reblock.run(job)
    assert sorted(os.listdir()) == ["x.npy", "y"]


def test_what_cannot_be_begun_leaves_nothing() -> None:
    Path("y").mkdir()
    with pytest.raises(TargetExistsError):
        reblock.repartition("x.npy", "y/", chunks="8,8,8")
    with pytest.raises(DiskError):
        reblock.repartition("x.npy", "no/such/folder.zarr", chunks="8,8,8")
    assert sorted(os.listdir()) == ["x.npy", "y"]


def test_a_run_that_finished_nothing_leaves_nothing() -> None:
    with pytest.raises(KeyboardInterrupt):
        reblock.run(reblock.plan("x.npy", "y/", chunks="8,8,8", memory=MEMORY), cancelled=lambda: True)
    assert os.listdir() == ["x.npy"]


# ---------------------------------------------------------------- what is looked at twice
def touched(target: str) -> Path:
    """A file that holds something finished."""
    path = built(target)
    return path if path.is_file() else max((p for p in path.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


@pytest.mark.parametrize("target", FORMATS)
def test_a_box_that_was_spoiled_is_done_again(target: str) -> None:
    options = FORMATS[target]
    start(target, at=0.8, **options)
    file = touched(target)
    data = bytearray(file.read_bytes())
    for place in range(len(data) // 4, len(data) // 2, 997):
        data[place] ^= 0x10
    file.write_bytes(data)
    report = finish(target, **options)
    assert any("done again" in note or "made again" in note for note in report.notes)


@pytest.mark.parametrize("target", ["y.npy", "y/", "y.zarr", "y.h5", "z.h5"])
def test_an_array_that_is_gone_is_made_anew(target: str) -> None:
    options = FORMATS[target]
    start(target, **options)
    path = built(target)
    os.rename(path, path.with_name("array.elsewhere"))
    report = finish(target, **options)
    assert report.resumed_boxes == 0
    assert any("made again" in note for note in report.notes)


def test_missing_chunks_of_the_unfinished_target_are_not_taken_as_fill() -> None:
    start("y.zarr", **FORMATS["y.zarr"])
    os.unlink(touched("y.zarr"))
    assert any("done again" in note for note in finish("y.zarr", **FORMATS["y.zarr"]).notes)


def test_a_run_that_was_killed_after_publishing_is_complete() -> None:
    """All but the removal of what is left was done."""
    start("y/", chunks="8,8,8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "remove", lambda self, **_: [])
        reblock.repartition("x.npy", "y/", chunks="8,8,8", memory=MEMORY)
    found = reblock.status("y/")
    assert found is not None
    assert found.state == "complete"
    report = finish("y/", chunks="8,8,8")
    assert (report.write_boxes, report.resumed_boxes) == (0, found.boxes)
    assert report.digest is not None


def test_leftovers_of_a_finished_run_do_not_hinder_another() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "remove", lambda self, **_: [])
        reblock.repartition("x.npy", "y/", chunks="8,8,8", memory=MEMORY)
    with pytest.raises(TargetExistsError):
        reblock.repartition("x.npy", "y/", chunks="4,8,8", memory=MEMORY)
    finish("y/", chunks="4,8,8", overwrite=True)


# ---------------------------------------------------------------- several passes
TWO_PASSES = {"transpose": "2,1,0", "strategy": "multipass"}


@pytest.mark.parametrize("scratch", [None, "scratch"])
@pytest.mark.parametrize("at", [0.3, 0.8])
def test_intermediate_arrays_are_gone_on_with(scratch: str | None, at: float) -> None:
    options: dict[str, Any] = dict(TWO_PASSES)
    if scratch:
        os.mkdir(scratch)
        options["scratch"] = scratch
    start("y.npy", at=at, **options)
    found = reblock.status("y.npy")
    assert found is not None
    assert found.scratch is not None
    assert os.path.dirname(found.scratch) == (os.path.abspath(scratch) if scratch else found.staging)
    report = finish("y.npy", **options)
    assert report.resumed_boxes == found.finished_boxes
    assert report.measured.bytes_read < report.predicted.bytes_read
    if scratch:
        assert os.listdir(scratch) == []


#: Scratch has room for one array, so the first of two lies in the target's space.
IN_TARGET = {
    "chunks": "32,5,1",
    "memory": 9000,
    "strategy": "multipass",
    "device": "hdd",
    "scratch_limit": 32 * 40 * 24 * 4,
}


@pytest.mark.parametrize("scratch", [None, "scratch"])
@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_arrays_in_the_targets_space_are_gone_on_with(scratch: str | None, at: float) -> None:
    options: dict[str, Any] = dict(IN_TARGET)
    if scratch:
        os.mkdir(scratch)
        options["scratch"] = scratch
    plan = reblock.plan("x.npy", "y/", **IN_TARGET).plan
    assert plan.scratch_in_target
    start("y/", at=at, **options)
    found = reblock.status("y/")
    assert found is not None
    folders = {name for name in os.listdir(Staging("y/").workspace.scratch) if name.isdecimal()}
    if scratch:
        assert folders <= {str(number) for number in range(len(plan.scratch)) if plan.in_target(number)}
        (kept,) = os.listdir(scratch)
        assert all(not plan.in_target(int(name)) for name in os.listdir(os.path.join(scratch, kept)))
    report = finish("y/", **options)
    assert report.resumed_boxes == found.finished_boxes > 0
    assert report.predicted.scratch_bytes <= IN_TARGET["scratch_limit"]


def test_clean_removes_scratch_wherever_it_is() -> None:
    os.mkdir("scratch")
    start("y.npy", scratch="scratch", **TWO_PASSES)
    (kept,) = os.listdir("scratch")
    removed = reblock.clean("y.npy")
    assert os.path.abspath(os.path.join("scratch", kept)) in removed
    assert os.listdir("scratch") == []
    assert sorted(os.listdir()) == ["scratch", "x.npy"]
    with pytest.raises(UsageError, match="no such array"):
        reblock.clean("y.npy")


def test_an_intermediate_array_that_is_gone_is_made_anew() -> None:
    start("y.npy", **TWO_PASSES)
    found = reblock.status("y.npy")
    assert found is not None
    assert found.scratch is not None
    os.rename(os.path.join(found.scratch, "0"), os.path.join(found.scratch, "gone"))
    finish("y.npy", **TWO_PASSES)


def blocks_of(target: str, plan: Plan) -> tuple[set[str], set[str]]:
    """Blocks of the intermediate array that are there, and those that unfinished boxes need."""
    journal = find_journal(target)
    assert journal is not None
    done = {int(box) for group in journal.groups() if group.number == 1 for box in group.boxes}
    writes, blocks = plan.passes[1].writes, plan.passes[0].writes
    unfinished = [writes.box(index) for index in writes.indices() if writes.number(index) not in done]
    scratch = Staging(target).workspace.scratch
    store = registry.get("rawblocks").reopen(f"{scratch}/0", "", scratch_schema(plan, 0))
    paths = {index: store.place(index).path for index in blocks.indices()}
    there = {path for path in paths.values() if os.path.exists(path)}
    return there, {paths[index] for box in unfinished for index in blocks.touching(box)}


@pytest.fixture
def slices() -> dict[str, Any]:
    """Encoded slices into thick bars, by way of blocks of which each bar needs its own."""
    reblock.repartition("x.npy", "x.zarr", chunks="1,40,24", codec="zstd:1")
    return {"source": "x.zarr", "chunks": "32,8,24", "strategy": "consolidate"}


def test_blocks_that_nobody_needs_any_more_are_gone_before_the_end(slices: dict[str, Any]) -> None:
    plan = reblock.plan(target="y.zarr", memory=MEMORY, **slices).plan
    start("y.zarr", at=0.6, **slices)
    there, needed = blocks_of("y.zarr", plan)
    blocks, boxes = (made.writes.count for made in plan.passes)
    assert needed <= there
    assert len(there) < blocks
    found = reblock.status("y.zarr")
    assert found is not None
    report = finish("y.zarr", **slices)
    assert report.resumed_boxes == found.finished_boxes
    assert not any("done again" in note for note in report.notes)
    assert report.write_boxes == blocks + boxes - found.finished_boxes


def test_a_block_that_is_gone_and_needed_after_all_is_made_anew(slices: dict[str, Any]) -> None:
    start("y.zarr", at=0.6, **slices)
    for path in (built("y.zarr") / "c").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[::-1])
    report = finish("y.zarr", **slices)
    assert any("done again" in note for note in report.notes)
