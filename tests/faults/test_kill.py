"""Killed at any moment, the same command resumes, and the result is the same to the bit."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from faults.jobs import CONVERTING, JOBS, MEMORY, Task, expected, is_right
from faults.rig import ALL, Outcome, Rig
from reblock.runs.journal import Journal
from reblock.storage.media.file_log import FileLog


def copies(here: Path) -> Iterator[Path]:
    """Fresh folders with the same source, one after the other."""
    for number in range(10**9):
        folder = here / str(number)
        folder.mkdir()
        shutil.copy(here / "x.npy", folder)
        yield folder
        shutil.rmtree(folder)


def resume(rig: Rig, folder: Path, task: Task, killed: Outcome) -> Outcome:
    """Run the same command again, and check all that is promised of it."""
    again = rig.run(folder, task.words)
    done = again.code == 1 and again.document["error"]["type"] == "TargetExistsError"
    assert again.code == 0 or (done and killed.code), (killed.calls, again)
    assert is_right(folder, task)
    left = {entry.name for entry in folder.iterdir()}
    assert left == {"x.npy", task.target.rstrip("/")}
    return again


def most_again(folder: Path, task: Task, once: Outcome) -> int:
    """Bytes that may be read from the source or written again: what waits, is held and in flight, and 2 %.

    Passes that take turns keep nothing of a task between them, so the task they were at is done again.
    """
    whole = expected(folder, task).nbytes
    document = once.document
    turn = whole // document["passes"][0]["tasks"] if document["interleaved"] else 0
    return 2 * MEMORY + whole // 50 + turn


def kill_and_resume(rig: Rig, folder: Path, task: Task, kinds: tuple[str, ...], when: int, once: Outcome) -> bool:
    """Whether the run saw its end at all."""
    killed = rig.run(folder, task.words, kinds=kinds, when=when)
    assert killed.code == (-9 if killed.fired else 0), killed
    if killed.fired:
        again = resume(rig, folder, task, killed)
        more = most_again(folder, task, once)
        assert killed.read + again.read <= once.read + more
        assert killed.written + again.written <= once.written + more
    return killed.fired


@pytest.fixture(params=JOBS)
def task(request: pytest.FixtureRequest) -> Task:
    return JOBS[request.param]


@pytest.mark.parametrize("name", JOBS)
def test_jobs_are_what_they_are_called(rig: Rig, here: Path, name: str) -> None:
    """And they finish boxes many times on the way."""
    done = rig.run(here, JOBS[name].words, kinds=("sync",))
    assert done.code == 0, done
    assert is_right(here, JOBS[name])
    assert done.calls > 20
    document = done.document
    assert document["resumed_boxes"] == 0
    tasks = [made["tasks"] for made in document["passes"]]
    assert (len(tasks) == 2) == (name in ("two-passes", "scratch-that-goes", "taking-turns"))
    assert document["interleaved"] == (name == "taking-turns")
    if name == "many-tasks":
        assert tasks[0] > 50
    elif len(tasks) == 1:
        assert tasks == [1]


def test_killed_at_some_moments(rig: Rig, here: Path, task: Task) -> None:
    places = copies(here)
    once = rig.run(next(places), task.words)
    for part in (0.3, 0.6, 0.9):
        assert kill_and_resume(rig, next(places), task, ALL, int(once.calls * part), once)


def test_killed_while_elements_are_converted(rig: Rig, here: Path) -> None:
    test_killed_at_some_moments(rig, here, CONVERTING)
    test_killed_twice(rig, here, CONVERTING)


def test_finished_boxes_are_not_done_again(rig: Rig, here: Path, task: Task) -> None:
    places = copies(here)
    once = rig.run(next(places), task.words, kinds=("write",))
    folder = next(places)
    rig.run(folder, task.words, kinds=("write",), when=int(once.calls * 0.8))
    (journal,) = folder.glob(".*.reblock/journal")
    found = Journal.open(FileLog.find(str(journal)))
    assert found is not None
    finished = {(group.number, int(box)) for group in found.groups() for box in group.boxes}
    assert finished
    again = rig.run(folder, task.words)
    document = again.document
    assert document["resumed_boxes"] >= len(finished)
    if not document["interleaved"]:
        assert document["write_boxes"] + document["resumed_boxes"] == sum(found.header["boxes"])
    assert again.written < once.written


def test_killed_twice(rig: Rig, here: Path, task: Task) -> None:
    places = copies(here)
    once = rig.run(next(places), task.words)
    folder = next(places)
    for part in (0.4, 0.3, 0.2):
        assert rig.run(folder, task.words, when=int(once.calls * part)).code == -9
    resume(rig, folder, task, rig.run(folder, task.words, when=5))


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["rename", "sync"])
def test_killed_at_every(rig: Rig, here: Path, task: Task, kind: str) -> None:
    places = copies(here)
    once = rig.run(next(places), task.words, kinds=(kind,))
    when = 1
    while kill_and_resume(rig, next(places), task, (kind,), when, once):
        when += 1
    assert when > 1


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", [*JOBS.values(), CONVERTING], ids=[*JOBS, "converting"])
def test_killed_at_random_moments(rig: Rig, here: Path, task: Task) -> None:
    places = copies(here)
    once = rig.run(next(places), task.words)
    chance = random.Random(5)
    hit = sum(
        kill_and_resume(rig, next(places), task, ALL, chance.randrange(1, once.calls + 1), once) for _ in range(200)
    )
    assert hit > 150


def test_a_target_survives_until_it_is_replaced(rig: Rig, here: Path) -> None:
    """At every rename and removal of a run that replaces a folder there is a whole target, or one is put back."""
    task = JOBS["blocks"]
    old = np.arange(6, dtype="u4").reshape(2, 3)
    when, seen = 1, 0
    for folder in copies(here):
        np.save(folder / "old.npy", old)
        assert rig.run(folder, ["run", "old.npy", task.target, "--chunks", "1,3"]).code == 0
        words = [*task.words, "--overwrite"]
        killed = rig.run(folder, words, kinds=("rename", "unlink"), when=when)
        if not killed.fired:
            break
        seen += 1
        shape = json.loads((folder / "y" / "reblock.json").read_text())["shape"]
        assert shape in ([2, 3], [48, 40, 44])
        if shape == [48, 40, 44]:
            assert is_right(folder, task)
        again = rig.run(folder, words)
        assert again.code == 0, again
        assert is_right(folder, task)
        assert {entry.name for entry in folder.iterdir()} == {"x.npy", "old.npy", "y"}
        # The first ones are the journal's and the array's own, then come blocks of the old array, one like the other.
        when += 1 if when < 8 else 11
    assert seen > 5
