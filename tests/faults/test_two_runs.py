"""Two runs at once on one target: one proceeds, the other is told so within a second."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from faults.jobs import remove
from faults.racer import Told, racer

#: The targets of the rounds, one after the other.
TARGETS = ("y/", "y.zarr", "y.h5", "y.npy")


@contextmanager
def two_racers() -> Iterator[Any]:
    context = multiprocessing.get_context("spawn")
    barrier, over = context.Barrier(2), context.Event()
    ends = [context.Pipe() for _ in range(2)]
    processes = [context.Process(target=racer, args=(child, barrier, over), daemon=True) for _, child in ends]
    for process in processes:
        process.start()

    def race(folder: Path, target: str, *, hold: bool) -> list[Told]:
        over.clear()
        for parent, _ in ends:
            parent.send((str(folder), target, hold))
        assert all(parent.poll(60) for parent, _ in ends)
        return [parent.recv() for parent, _ in ends]

    yield race
    for parent, _ in ends:
        parent.send(None)
    for process in processes:
        process.join(20)


def run_rounds(here: Path, rounds: int) -> None:
    elements = np.load(here / "x.npy").view("u4")
    locked = 0
    with two_racers() as race:
        for number in range(rounds):
            target, hold = TARGETS[number // 2 % len(TARGETS)], number % 2 == 0
            told = sorted(race(here, target, hold=hold), key=lambda one: one.outcome != "done")
            assert told[0].outcome == "done", told
            # Where nobody is held up, the second may come when all is over, or while the first one cleans up.
            cleaned_up = told[1].outcome == "done" and any("is already complete" in one.message for one in told)
            allowed = ("LockedError",) if hold else ("LockedError", "TargetExistsError")
            assert told[1].outcome in allowed or (cleaned_up and not hold), told
            assert told[1].seconds < 1, told
            if told[1].outcome == "LockedError":
                locked += 1
                assert "is being written by another run (process " in told[1].message
            assert np.array_equal(reblock.open(here / target)[...].view("u4"), elements)
            made = here / target.rstrip("/")
            assert {entry.name for entry in here.iterdir()} == {"x.npy", made.name}
            remove(str(made))
    assert locked >= rounds // 2


def test_two_runs_at_once(here: Path) -> None:
    run_rounds(here, 6)


@pytest.mark.faults
@pytest.mark.timeout(600)
def test_two_runs_at_once_a_hundred_times(here: Path) -> None:
    run_rounds(here, 100)
