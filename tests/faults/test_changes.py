"""A source of many files that changes while it is read, or before the run goes on."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import ChangedError
from reblock.runs.staging import Staging

SOURCES: dict[str, dict[str, Any]] = {
    "x.zarr": {"codec": "zstd:1"},
    "raw.zarr": {"codec": "none"},
    "shards.zarr": {"shards": "16,20,44"},
    "two.zarr": {"to_format": "zarr2"},
    "blocks/": {},
}
OPTIONS: dict[str, Any] = {"chunks": "12,10,11", "memory": "80KiB", "strategy": "keep"}


@pytest.fixture(params=SOURCES, autouse=True)
def source(request: pytest.FixtureRequest, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(here)
    reblock.repartition("x.npy", request.param, chunks="8,20,44", **SOURCES[request.param])
    # Times of files go by ticks, and a change within one tick of the start cannot be told from one before it.
    time.sleep(0.02)
    return str(request.param)


def last_chunk(source: str) -> Path:
    """The chunk that is read last."""
    return max(Path(source).rglob("*"), key=lambda path: (path.is_file(), place(path)))


def place(path: Path) -> list[int]:
    return [
        int(word) for word in "/".join(path.parts[1:]).replace(".", "/").replace("_", "/").split("/") if word.isdigit()
    ]


def rewrite(path: Path) -> None:
    """The same bytes again: what they are cannot tell, only that somebody wrote."""
    path.write_bytes(path.read_bytes())


def stop_half_way(source: str) -> None:
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole / 2:
            enough.set()
            # What is in flight may be all the rest, and then a run that is cancelled is complete.
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(reblock.plan(source, "y/", **OPTIONS), progress=progress, cancelled=enough.is_set)


def test_a_chunk_that_is_written_during_the_run(source: str) -> None:
    chunk, written = last_chunk(source), []

    def progress(done: int, whole: int) -> None:
        if not written:
            written.append(done)
            time.sleep(0.02)
            rewrite(chunk)

    job = reblock.plan(source, "y/", **OPTIONS)
    with pytest.raises(ChangedError, match=chunk.name):
        reblock.run(job, progress=progress)
    assert not os.path.exists("y")
    # What was finished is of another array than what would be read now.
    if Staging("y/").is_there:
        with pytest.raises(ChangedError, match=chunk.name):
            reblock.run(job)
        reblock.clean("y/")
    reblock.run(job)
    assert np.array_equal(reblock.open("y/")[...].view("u4"), np.load("x.npy").view("u4"))


def test_a_chunk_that_is_written_before_the_run_goes_on(source: str) -> None:
    stop_half_way(source)
    time.sleep(0.02)
    rewrite(last_chunk(source))
    with pytest.raises(ChangedError, match=last_chunk(source).name):
        reblock.repartition(source, "y/", **OPTIONS)
    assert reblock.clean("y/")
    reblock.repartition(source, "y/", **OPTIONS)
    assert reblock.verify(source, "y/")


def test_a_chunk_that_nobody_needs_any_more(source: str) -> None:
    """Sums tell that something has changed, not that nobody needs it any more."""
    stop_half_way(source)
    first = min((path for path in Path(source).rglob("*") if path.is_file() and place(path)), key=place)
    time.sleep(0.02)
    rewrite(first)
    with pytest.raises(ChangedError, match=first.name):
        reblock.repartition(source, "y/", **OPTIONS)
    assert not os.path.exists("y")
