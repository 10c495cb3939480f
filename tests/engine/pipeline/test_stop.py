"""Runs that are told to stop: what is in flight is finished, nothing is begun, and what is complete is committed."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.api.machine import cores
from reblock.engine import native
from reblock.engine.digest import recheck
from reblock.engine.memory import allocator
from reblock.engine.pipeline.writers import threads as writers
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.source_state import SourceState
from reblock.engine.view import View

BOXES = 72


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(1).integers(0, 2**32, (BOXES, 256, 256), "u4")
    np.save("x.npy", bits)
    return bits


class Stopper:
    """Says stop when a step is begun on the n-th box, and counts how often it is begun afterwards."""

    def __init__(self, step: Callable[..., Any], at: int = 1, seconds: float = 0.05) -> None:
        self.stopped = threading.Event()
        self.begun = self.late = 0
        self._step, self._at, self._seconds = step, at, seconds
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        with self._lock:
            self.late += self.stopped.is_set()
            # Boxes come in lists, after the writer that they are for.
            self.begun += len(arguments[1]) if isinstance(arguments[1], list) else 1
            if self.begun >= self._at:
                self.stopped.set()
        time.sleep(self._seconds)
        return self._step(*arguments, **named)


def slowed(monkeypatch: pytest.MonkeyPatch, of: Any, name: str, **how: Any) -> Stopper:
    stopper = Stopper(getattr(of, name), **how)
    # A function, so that it is a method where it takes the place of one.
    monkeypatch.setattr(of, name, partialmethod(stopper) if isinstance(of, type) else stopper)
    return stopper


def job(target: str, **options: Any) -> reblock.Job:
    return reblock.plan("x.npy", target, chunks="1,256,256", **{"memory": "1GiB", **options})


def finish(target: str, **options: Any) -> reblock.Report:
    report = reblock.run(job(target, **options))
    assert report.write_boxes + report.resumed_boxes == BOXES
    assert reblock.verify("x.npy", target).equal
    return report


# Memory for all boxes, so that all of them are queued; or for few, so that the dispatcher waits for some.
@pytest.mark.parametrize("memory", ["1GiB", "2MiB"])
@pytest.mark.parametrize(("target", "codec", "step"), [("y.zarr", "zstd:1", "encode"), ("y/", "none", "write")])
def test_boxes_that_are_queued_are_dropped(
    target: str, codec: str, step: str, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(writers, "_MAX_BOXES", 1)
        stopper = slowed(patched, TargetWriter, step)
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            reblock.run(job(target, codec=codec, memory=memory), cancelled=stopper.stopped.is_set)
    # A thread may have looked just before.
    assert stopper.late <= (cores() if step == "encode" else max(cores(), 10))
    assert finish(target, codec=codec, memory=memory).resumed_boxes == stopper.begun


def test_boxes_that_are_being_encoded_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stopper = slowed(patched, TargetWriter, "encode", at=5)
        written = slowed(patched, TargetWriter, "write", at=BOXES + 1, seconds=0)
        with pytest.raises(KeyboardInterrupt):
            reblock.run(job("y.zarr", codec="zstd:1"), cancelled=stopper.stopped.is_set)
    assert written.begun <= stopper.begun
    found = reblock.status("y.zarr")
    assert found is not None
    assert found.finished_boxes == written.begun >= 4


@pytest.mark.parametrize("target", ["y.zarr", "y.npy", "y.h5"])
def test_what_is_complete_is_committed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = reblock.plan("x.npy", target, chunks="1,256,256", strategy="naive")
    stopper = slowed(monkeypatch, TargetWriter, "write", at=wanted.plan.passes[-1].writes.count)
    report = reblock.run(wanted, cancelled=stopper.stopped.is_set)
    assert stopper.stopped.is_set()
    assert report.digest is not None
    assert reblock.verify("x.npy", target).equal


def test_an_exception_out_of_nowhere_is_not_kept_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def progress(done: int, whole: int) -> None:
        if done == whole:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job("y/"), progress=progress)
    assert not Path("y").exists()
    finish("y/")


def test_a_look_at_what_was_finished_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        stopper = slowed(patched, TargetWriter, "write", at=BOXES // 2, seconds=0)
        with pytest.raises(KeyboardInterrupt):
            reblock.run(job("y.h5"), cancelled=stopper.stopped.is_set)
    with monkeypatch.context() as patched:
        looking = slowed(patched, recheck, "load", at=3)
        with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
            reblock.run(job("y.h5"), cancelled=looking.stopped.is_set)
    assert looking.late <= cores()
    # What was finished before the look is still known.
    assert finish("y.h5").resumed_boxes >= BOXES // 2


@pytest.mark.parametrize("compiled", [True, False])
def test_very_many_boxes_of_one_chunk(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is taken for some of them at a time."""
    np.save("x.npy", np.zeros((60, 50), "u1"))
    monkeypatch.setattr(allocator, "MAX_BOXES", 8)
    if not compiled:
        monkeypatch.setattr(native, "library", lambda: None)
    stopper = slowed(monkeypatch, allocator.BufferAllocator, "_take", seconds=0)
    with pytest.raises(KeyboardInterrupt):
        reblock.run(reblock.plan("x.npy", "y/", chunks="1,1"), cancelled=stopper.stopped.is_set)
    assert stopper.late <= 1


def test_a_look_at_the_source_can_be_stopped() -> None:
    reblock.repartition("x.npy", "x.zarr", chunks="1,64,64")
    view = View.whole(reblock.open("x.zarr").store)
    with pytest.raises(KeyboardInterrupt):
        SourceState(view, lambda: True)


def test_it_takes_no_signals_from_its_caller() -> None:
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    before, seen = [signal.getsignal(number) for number in numbers], []
    reblock.run(job("y/"), progress=lambda *_: seen.append([signal.getsignal(number) for number in numbers]))
    assert seen
    assert all(handlers == before for handlers in seen)
    assert [signal.getsignal(number) for number in numbers] == before
