"""An unfinished run goes on with its own plan, whatever machine, folder or planner it finds."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import FormatError, UnfinishedError
from reblock.planner import search
from reblock.runs.staging import Staging

MEMORY = "96KiB"


@pytest.fixture(autouse=True)
def bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    made = np.random.default_rng(7).integers(0, 2**32, (32, 40, 24), "u4")
    np.save("x.npy", made)
    return made


def start(target: str, **options: Any) -> reblock.api.Job:
    """A run that is stopped half way."""
    job = reblock.plan("x.npy", target, **{"memory": MEMORY, **options})
    enough = threading.Event()

    def progress(done: int, whole: int) -> None:
        if done >= whole // 2:
            enough.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=progress, cancelled=enough.is_set)
    return job


def with_cores(count: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda monkeypatch: monkeypatch.setattr("reblock.api.ends.cores", lambda: count)


def with_less_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MANY_POINTS", "MANY_TRIALS", "MANY_LOOKS", "MANY_MORE"):
        if hasattr(search, name):
            monkeypatch.setattr(search, name, 1)


@pytest.mark.parametrize("target", ["y.zarr", "y.h5", "y/", "y.npy"])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(with_cores(1), id="one core"),
        pytest.param(with_cores(4), id="four cores"),
        pytest.param(with_less_effort, id="another effort"),
    ],
)
def test_another_machine_or_planner_goes_on_with_the_same_plan(
    target: str, change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = start(target, chunks="8,8,8")
    change(monkeypatch)
    report = reblock.repartition("x.npy", target, chunks="8,8,8", memory=MEMORY)
    assert report.plan == job.plan
    assert report.resumed_boxes > 0
    assert reblock.verify("x.npy", target, reader="library" if target != "y/" else "reblock").equal


def test_another_working_directory_and_spelling_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start("y.zarr", chunks="8,8,8")
    (tmp_path / "link").symlink_to(tmp_path / "work")
    monkeypatch.chdir(tmp_path)
    report = reblock.repartition("link/../work/x.npy", "link/y.zarr", chunks="8,8,8", memory=MEMORY)
    assert report.resumed_boxes > 0
    assert reblock.verify("work/x.npy", "work/y.zarr").equal


@pytest.mark.parametrize("again", ["run", "resume"])
def test_a_moved_target_folder_goes_on(again: str, tmp_path: Path) -> None:
    os.mkdir("out")
    start("out/y.zarr", chunks="8,8,8")
    shutil.move("out", tmp_path / "elsewhere")
    target = str(tmp_path / "elsewhere" / "y.zarr")
    if again == "run":
        report = reblock.repartition("x.npy", target, chunks="8,8,8", memory=MEMORY)
    else:
        found = reblock.resume(target)
        assert found is not None
        report = found
    assert report.resumed_boxes > 0
    assert reblock.verify("x.npy", target).equal
    assert os.listdir(tmp_path / "elsewhere") == ["y.zarr"]


def test_more_memory_is_no_reason_to_refuse_and_less_is(bits: np.ndarray[Any, Any]) -> None:
    job = start("y.zarr", chunks="8,8,8")
    with pytest.raises(UnfinishedError, match=r"(?s)of memory.*reblock.resume\('y.zarr'\).*reblock.clean\('y.zarr'\)"):
        reblock.repartition("x.npy", "y.zarr", chunks="8,8,8", memory=job.plan.memory_bytes - 1)
    other = "baseline" if job.plan.strategy != "baseline" else "naive"
    with pytest.raises(UnfinishedError, match=rf"(?s)strategy is .*, not {other}.*reblock.resume"):
        reblock.repartition("x.npy", "y.zarr", chunks="8,8,8", memory="64MiB", strategy=other)
    report = reblock.repartition("x.npy", "y.zarr", chunks="8,8,8", memory="64MiB")
    assert report.plan == job.plan
    assert np.array_equal(reblock.open("y.zarr")[...], bits)


def test_a_run_goes_on_with_or_without_a_digest_as_it_began() -> None:
    start("y.zarr", chunks="8,8,8")
    job = reblock.plan("x.npy", "y.zarr", chunks="8,8,8", memory=MEMORY)
    report = reblock.run(job, digest=False)
    assert report.digest is not None
    assert any("continues with a digest" in note for note in report.notes)


def test_resume_plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = start("y.zarr", chunks="8,8,8")
    monkeypatch.setattr("reblock.api.planning.choose", lambda *_, **__: pytest.fail("planned"))
    monkeypatch.setattr("reblock.api.parts.choose", lambda *_, **__: pytest.fail("planned"))
    report = reblock.resume("y.zarr")
    assert report is not None
    assert report.plan == job.plan


@pytest.mark.parametrize(
    "spoil",
    [
        lambda plan: plan.update(shape=[1, 2, 3]),
        lambda plan: plan["passes"][0].update(order=[0, 0, 1]),
        lambda plan: plan["passes"][0]["execution"].update(readers=10**9),
        lambda plan: plan.pop("passes"),
    ],
    ids=["shape", "order", "readers", "no passes"],
)
def test_a_journal_with_a_plan_that_cannot_be_executed_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    from reblock.runs.journal import _open_line, _seal

    start("y.zarr", chunks="8,8,8")
    journal = Path(Staging("y.zarr").folder) / "journal"
    first, rest = journal.read_bytes().split(b"\n", 1)
    header = _open_line(first + b"\n")
    assert header is not None
    spoil(header["plans"][0])
    journal.write_bytes(_seal(json.loads(json.dumps(header))) + rest)
    with pytest.raises(FormatError, match=r"reblock.clean\('y.zarr'\)"):
        reblock.repartition("x.npy", "y.zarr", chunks="8,8,8", memory=MEMORY)
    assert reblock.clean("y.zarr")
