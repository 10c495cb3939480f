"""What was there at the start is part of the source: files that vanish, come back, are replaced, added or touched."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from cases import find_journal
from reblock.engine import Report, native
from reblock.errors import ChangedError, UnfinishedError, UsageError

SOURCES: dict[str, dict[str, Any]] = {
    "zstd.zarr": {"codec": "zstd:1"},
    "gzip.zarr": {"codec": "gzip:1"},
    "raw.zarr": {"codec": "none"},
    "shards.zarr": {"shards": "16,20,44"},
    "two.zarr": {"to_format": "zarr2"},
    "blocks/": {},
}
FILLED = [name for name in SOURCES if name != "blocks/"]
#: Sources that may have holes, by the compiled loop; some of them without it.
LOOPS = [*((name, True) for name in FILLED), ("raw.zarr", False), ("shards.zarr", False)]
with_and_without_loop = pytest.mark.parametrize(("source", "loop"), LOOPS, indirect=["loop"])
OPTIONS: dict[str, Any] = {"chunks": "12,10,11", "memory": "80KiB", "strategy": "keep"}


@pytest.fixture(autouse=True)
def inside(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


@pytest.fixture
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled loop, or without."""
    if not getattr(request, "param", True):
        monkeypatch.setattr(native, "library", lambda: None)


def make(source: str, **options: Any) -> list[Path]:
    """A source, and its chunk files in the order in which they are read."""
    reblock.repartition("x.npy", source, **{"chunks": "8,20,44", **SOURCES.get(source, {}), **options})
    # Times of files go by ticks, and a change within one tick of the start cannot be told from one before it.
    time.sleep(0.02)
    return sorted((path for path in Path(source).rglob("*") if path.is_file() and place(path)), key=place)


def place(path: Path) -> list[int]:
    words = "/".join(path.parts[1:]).replace(".", "/").replace("_", "/").split("/")
    return [int(word) for word in words if word.isdigit()]


def run(
    source: str, act: Callable[[], object], *, later: Callable[[], object] = lambda: None, **options: Any
) -> Report:
    """A run during which something happens, and something else towards its end."""
    todo, lock = [(0.0, act), (0.7, later)], threading.Lock()

    def progress(done: int, whole: int) -> None:
        with lock:
            while todo and done > todo[0][0] * whole:
                time.sleep(0.02)
                todo.pop(0)[1]()

    report = reblock.run(reblock.plan(source, "y/", **{**OPTIONS, **options}), progress=progress)
    assert not todo
    return report


def stop_half_way(source: str, **options: Any) -> None:
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole / 2:
            enough.set()

    job = reblock.plan(source, "y/", **{**OPTIONS, **options})
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress, cancelled=enough.is_set)
    time.sleep(0.02)


def replace_with_old_times(path: Path) -> None:
    """Another file of the same size and date under the same name, as `rsync -a` and `cp -p` make them."""
    before, found = path.read_bytes(), path.stat()
    new = path.with_name("new")
    new.write_bytes(before)
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
    os.rename(new, path)
    assert path.stat().st_ino != found.st_ino


def write_with_old_times(path: Path) -> None:
    """The same, but into the file that is there."""
    before, found = path.read_bytes(), path.stat()
    path.write_bytes(before[:-64] + bytes(64))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


# ---------------------------------------------------------------- what vanishes
@with_and_without_loop
def test_chunks_that_are_moved_away_during_the_run(source: str, loop: None) -> None:
    chunks = make(source)
    folder = chunks[0].parents[len(chunks[0].parents) - 3] if source != "two.zarr" else Path(source)
    with pytest.raises(ChangedError, match="was there when the run began"):
        run(source, lambda: folder.rename("away"))
    assert not os.path.exists("y")


@with_and_without_loop
def test_chunks_that_are_moved_away_and_back(source: str, loop: None) -> None:
    """Nothing is left of it that tells: no time of a chunk changes when a folder above it is renamed."""
    make(source)
    os.mkdir("above")
    os.rename(source, f"above/{source}")
    with pytest.raises(ChangedError, match="was there when the run began"):
        run(f"above/{source}", lambda: os.rename("above", "away"), later=lambda: os.rename("away", "above"))
    assert not os.path.exists("y")
    if os.path.exists("away"):
        os.rename("away", "above")
    # It is what it was, so what is finished counts.
    reblock.repartition(f"above/{source}", "y/", **OPTIONS)
    assert reblock.verify("x.npy", "y/")


def test_chunks_of_another_array_in_their_place_for_a_while(loop: None) -> None:
    make("raw.zarr")
    np.save("other.npy", np.zeros((48, 40, 44), "f4"))
    reblock.repartition("other.npy", "other.zarr", chunks="8,20,44")
    os.symlink("raw.zarr", "now.zarr")

    def lead_to(where: str) -> None:
        os.symlink(where, "new")
        os.rename("new", "now.zarr")

    with pytest.raises(ChangedError, match="has changed since the run began"):
        run("now.zarr", lambda: lead_to("other.zarr"), later=lambda: lead_to("raw.zarr"))
    assert not os.path.exists("y")


def test_an_hdf5_file_that_is_moved_away(loop: None) -> None:
    """A chunk that is not stored is fill; a file that is gone is not."""
    for codec in ("none", "gzip:1"):
        reblock.repartition("x.npy", "x.h5", chunks="8,20,44", codec=codec, overwrite=True)
        with pytest.raises(ChangedError, match=r"x\.h5"):
            run("x.h5", lambda: os.rename("x.h5", "away.h5"), later=lambda: os.rename("away.h5", "x.h5"))
        if os.path.exists("away.h5"):
            os.rename("away.h5", "x.h5")
        with suppress(UsageError):  # where nothing was finished, nothing stays
            reblock.clean("y/")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("which", [0, -1])
def test_a_chunk_that_is_deleted_during_the_run(source: str, which: int) -> None:
    chunks = make(source)
    with pytest.raises(ChangedError, match=chunks[which].name):
        run(source, chunks[which].unlink)
    assert not os.path.exists("y")


@with_and_without_loop
@pytest.mark.parametrize("which", [0, -1])
def test_a_chunk_that_is_added_during_the_run(source: str, which: int, loop: None) -> None:
    chunks = make(source)
    chunks[which].rename("away")
    with pytest.raises(ChangedError, match=chunks[which].name):
        run(source, lambda: os.rename("away", chunks[which]))
    assert not os.path.exists("y")


@with_and_without_loop
def test_chunks_that_never_were_there_are_fill(source: str, loop: None) -> None:
    for chunk in make(source)[1::3]:
        chunk.unlink()
    expected = reblock.open(source)[...].copy()
    report = run(source, lambda: None)
    assert report.missing_chunks
    assert np.array_equal(reblock.open("y/")[...].view("u4"), expected.view("u4"))


@pytest.mark.parametrize("source", ["raw.zarr", "blocks/", "x.npy", "x.h5"])
def test_a_source_that_is_gone_or_another_when_the_run_begins(source: str) -> None:
    """What was planned is of another array; a whole folder that is gone would be all fill."""
    if source != "x.npy":
        make(source)
    job = reblock.plan(source, "y/", **OPTIONS)
    os.rename(source, "away")
    with pytest.raises(ChangedError, match="plan again"):
        reblock.run(job)
    np.save("other.npy", np.zeros((48, 40, 44), "f4"))
    reblock.repartition("other.npy", source, chunks="8,20,44")
    with pytest.raises(ChangedError, match="plan again"):
        reblock.run(job)
    assert not os.path.exists("y")


# ---------------------------------------------------------------- what is replaced
@pytest.mark.parametrize(("source", "loop"), [*LOOPS, ("blocks/", True)], indirect=["loop"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_chunk_that_is_replaced_by_one_of_the_same_date(source: str, which: int, loop: None) -> None:
    chunks = make(source)
    with pytest.raises(ChangedError, match=chunks[which].name):
        run(source, lambda: replace_with_old_times(chunks[which]))
    assert not os.path.exists("y")


@pytest.mark.parametrize("source", SOURCES)
def test_a_chunk_that_is_replaced_before_the_run_goes_on(source: str) -> None:
    chunks = make(source)
    stop_half_way(source)
    replace_with_old_times(chunks[-1])
    with pytest.raises(ChangedError, match=rf"(?s){chunks[-1].name}.*reblock.clean.*y"):
        reblock.repartition(source, "y/", **OPTIONS)
    assert not os.path.exists("y")
    reblock.clean("y/")
    reblock.repartition(source, "y/", **OPTIONS)
    assert reblock.verify(source, "y/")


@pytest.mark.parametrize("which", [0, -1])
def test_a_chunk_that_vanishes_or_appears_before_the_run_goes_on(which: int) -> None:
    chunks = make("zstd.zarr")
    chunks[which].rename("away")
    stop_half_way("zstd.zarr")
    os.rename("away", chunks[which])
    with pytest.raises(ChangedError, match="1 more chunk"):
        reblock.repartition("zstd.zarr", "y/", **OPTIONS)
    reblock.clean("y/")
    stop_half_way("zstd.zarr")
    chunks[which].unlink()
    with pytest.raises(ChangedError, match="1 fewer chunk"):
        reblock.repartition("zstd.zarr", "y/", **OPTIONS)


def test_another_region_is_another_problem() -> None:
    make("zstd.zarr")
    stop_half_way("zstd.zarr")
    with pytest.raises(UnfinishedError, match="region was"):
        reblock.repartition("zstd.zarr", "y/", **OPTIONS, region="0:24,:,:")


def test_chunks_outside_the_region_do_not_matter() -> None:
    chunks = make("zstd.zarr")

    def act() -> None:
        replace_with_old_times(chunks[-1])
        chunks[-2].unlink()

    run("zstd.zarr", act, region="0:24,:,:")
    assert np.array_equal(reblock.open("y/")[...].view("u4"), np.load("x.npy")[:24].view("u4"))


# ---------------------------------------------------------------- what is only touched
def touch_all(chunks: list[Path]) -> None:
    for number, chunk in enumerate(chunks):
        if number % 2:
            chunk.chmod(0o600)
        else:
            os.link(chunk, f"link{number}")


@pytest.mark.parametrize("source", [*SOURCES, "x.h5", "z.npy"])
def test_files_whose_bytes_are_not_touched(source: str) -> None:
    """Other rights, another name, a backup: the boxes that they are in are read again, and are the same."""
    chunks = make(source) or [Path(source)]
    report = run(source, lambda: touch_all(chunks))
    assert any("read again" in note for note in report.notes)
    assert np.array_equal(reblock.open("y/")[...].view("u4"), np.load("x.npy").view("u4"))


@pytest.mark.parametrize("passes", [False, True])
def test_files_that_are_touched_before_the_run_goes_on(passes: bool) -> None:
    options = {"strategy": "multipass" if passes else "auto", "memory": "128KiB"}
    chunks = make("zstd.zarr")
    assert len(reblock.plan("zstd.zarr", "y/", **{**OPTIONS, **options}).plan.passes) == 1 + passes
    stop_half_way("zstd.zarr", **options)
    touch_all(chunks[:2])
    report = reblock.repartition("zstd.zarr", "y/", **{**OPTIONS, **options})
    assert any("read again" in note for note in report.notes)
    assert reblock.verify("x.npy", "y/")


@pytest.mark.parametrize("source", ["zstd.zarr", "raw.zarr", "shards.zarr", "blocks/"])
def test_a_chunk_that_is_written_and_dated_back(source: str) -> None:
    """Inode, size and date are the same; only reading again tells."""
    chunks = make(source, codec="none") if source != "blocks/" else make(source)
    with pytest.raises(ChangedError, match=r"(?s)reading them again.*reblock.clean.*y"):
        run(source, lambda: write_with_old_times(chunks[0]))
    assert not os.path.exists("y")


def test_touched_files_and_no_digest() -> None:
    chunks = make("zstd.zarr")
    job = reblock.plan("zstd.zarr", "y/", **OPTIONS)
    done = []

    def progress(*_: int) -> None:
        if not done:
            done.append(chunks[0].chmod(0o600))

    with pytest.raises(ChangedError, match="digest=False left nothing"):
        reblock.run(job, progress=progress, digest=False)


# ---------------------------------------------------------------- clocks
@pytest.mark.parametrize("ahead", [30, -30, 10_000_000])
def test_files_of_another_clock(ahead: int) -> None:
    """A date ahead of ours is no change, and a change dated by such a clock is one."""
    source = "zstd.zarr"
    chunks = make(source)
    for path in [*chunks, Path(source, "zarr.json")]:
        os.utime(path, ns=(0, time.time_ns() + ahead * 10**9))
    reblock.repartition(source, "z/", **OPTIONS)
    assert reblock.verify("x.npy", "z/")
    with pytest.raises(ChangedError, match=chunks[-1].name):
        run(source, lambda: os.utime(chunks[-1], ns=(0, time.time_ns() + (ahead + 1) * 10**9)))


def test_what_a_journal_holds_does_not_grow() -> None:
    sizes = []
    for chunks in ("24,20,44", "4,4,11"):
        source = f"s{len(sizes)}.zarr"
        make(source, chunks=chunks)
        stop_half_way(source)
        journal = find_journal("y/")
        assert journal is not None
        sizes.append(len(str(journal.header["problem"])) + len(str(journal.header["sources"])))
        reblock.clean("y/")
    assert abs(sizes[0] - sizes[1]) < 100
    shutil.rmtree("s1.zarr")
